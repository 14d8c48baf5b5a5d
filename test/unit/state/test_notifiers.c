/* The process ID that other clients see in a notification: of the client that the server process works for, or has worked for last. */
#include "state/notifiers.h"

#include "state/notify.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "")

static struct house_end *ends[2];
static struct client *clients[2];
static struct server *servers[2];

static void delist(struct server *s)
{
	HASH_DELETE(by_backend_pid, whole.world->peers.by_backend_pid, s);
}

static void rename_process(struct server *s, uint32_t pid)
{
	delist(s);
	s->backend_pid = pid;
	CHECK(server_enlist(s));
}

/* Two clients in transactions, with servers of the processes 1000 and 2000. */
static void begin_two(void)
{
	struct house_end *end;

	whole_open(INI);
	for (int i = 0; i < 2; i++) {
		clients[i] = whole_in_transaction(&ends[i], &end);
		FUZZ_CHECK(clients[i]);
		servers[i] = server_of(clients[i]->pooled.link);
	}
	rename_process(servers[0], 1000);
	rename_process(servers[1], 2000);
	CHECK(clients[0]->cancel_key.pid != clients[1]->cancel_key.pid);
}

TEST(current_client_of_the_process)
{
	begin_two();
	CHECK_INT(notify_sender(servers[0], 1000), clients[0]->cancel_key.pid);
	CHECK_INT(notify_sender(servers[0], 2000), clients[1]->cancel_key.pid);
	CHECK_INT(notify_sender(servers[1], 1000), clients[0]->cancel_key.pid);
	whole_close();
}

TEST(last_client_of_the_process)
{
	uint32_t told;

	begin_two();
	told = clients[1]->cancel_key.pid;
	CHECK_TEXT(whole_ask(ends[1], "COMMIT"), "C(COMMIT) Z(I)");
	REQUIRE(!servers[1]->pooled.link);
	CHECK_INT(notify_sender(servers[0], 2000), told);
	whole_close();
}

TEST(unknown_process)
{
	begin_two();
	CHECK_INT(notify_sender(servers[0], 3000), 3000);
	CHECK_TEXT(whole_ask(ends[1], "COMMIT"), "C(COMMIT) Z(I)");
	servers[1]->last_client_pid = 0;
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	whole_close();
}

TEST(client_in_its_login_is_no_notifier)
{
	begin_two();
	clients[1]->cancel_key.is_valid = false;
	servers[1]->last_client_pid = 77;
	CHECK_INT(notify_sender(servers[0], 2000), 77);
	clients[1]->cancel_key.is_valid = true;
	whole_close();
}

/* Two clusters may have processes with the same ID. */
TEST(another_cluster)
{
	begin_two();
	servers[1]->peer.remote.port++;
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	rename_process(servers[1], 1000);
	CHECK_INT(notify_sender(servers[0], 1000), clients[0]->cancel_key.pid);
	CHECK_INT(notify_sender(servers[1], 1000), clients[1]->cancel_key.pid);
	servers[1]->peer.remote.port--;
	whole_close();
}

TEST(ended_server)
{
	begin_two();
	delist(servers[1]);
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	/* a server's notification of its own process needs no look-up */
	CHECK_INT(notify_sender(servers[1], 2000), clients[1]->cancel_key.pid);
	CHECK(server_enlist(servers[1]));
	whole_close();
}

TEST(out_of_memory)
{
	begin_two();
	delist(servers[0]);
	delist(servers[1]);
	whole_memory_ends(0);
	CHECK(!server_enlist(servers[0]));
	CHECK(whole_memory_is_back() > 0);
	CHECK_INT(notify_sender(servers[1], 1000), 1000);
	CHECK(server_enlist(servers[1]));
	whole_close();
}

/* Returns the process ID that this client gets in a notification of process `pid` from its own server. */
static uint32_t told_to(int i, uint32_t pid)
{
	uint8_t body[] = "pid_c\0";
	const struct pg_frame f = { .type = 'A', .body = body, .size = sizeof(body), .here = sizeof(body) };

	pg_u32_put(body, pid);
	CHECK(notify_client_passes(servers[i], clients[i], &f));
	return pg_u32_at(body);
}

TEST(only_the_client_itself_is_told_its_number)
{
	uint32_t told, public;

	begin_two();
	told = clients[1]->cancel_key.pid;
	public = told_to(0, 2000);
	CHECK(told > SERVER_PID_MOST && public > SERVER_PID_MOST && public <= INT32_MAX && public != told);
	CHECK_INT(told_to(1, 2000), told);
	CHECK(told_to(0, 2000) == public && told_to(1, 1000) != public);
	/* the number of a client that equals the hash of another number */
	told = clients[0]->cancel_key.pid;
	clients[0]->cancel_key.pid = public;
	CHECK_INT(told_to(0, 2000), public ^ 1);
	clients[0]->cancel_key.pid = told;
	CHECK_INT(told_to(0, SERVER_PID_MOST), SERVER_PID_MOST);
	whole_close();
}

UNIT_MAIN
