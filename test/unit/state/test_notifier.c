/* The process ID in a notification: of the client that the notifying server process works for, or has worked for. */
#include "state/notifier.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "")

static struct house_end *ends[2];
static struct client *client[2];
static struct server *server[2];

static void rename_process(struct server *s, uint32_t pid)
{
	server_delist(s);
	s->backend_pid = pid;
	CHECK(server_enlist(s));
}

/* Two clients in transactions, with servers of the processes 1000 and 2000. */
static void begin(void)
{
	struct house_end *end;

	whole_open(INI);
	for (int i = 0; i < 2; i++) {
		client[i] = whole_in_transaction(&ends[i], &end);
		FUZZ_CHECK(client[i]);
		server[i] = server_of(client[i]->pooled.link);
	}
	rename_process(server[0], 1000);
	rename_process(server[1], 2000);
	CHECK(client[0]->cancel_pid != client[1]->cancel_pid);
}

TEST(current_client_of_the_process)
{
	begin();
	CHECK_INT(notifier_told(server[0], 1000), client[0]->cancel_pid);
	CHECK_INT(notifier_told(server[0], 2000), client[1]->cancel_pid);
	CHECK_INT(notifier_told(server[1], 1000), client[0]->cancel_pid);
	whole_close();
}

TEST(last_client_of_the_process)
{
	uint32_t told;

	begin();
	told = client[1]->cancel_pid;
	CHECK_TEXT(whole_ask(ends[1], "COMMIT"), "C(COMMIT) Z(I)");
	REQUIRE(!server[1]->pooled.link);
	CHECK_INT(notifier_told(server[0], 2000), told);
	whole_close();
}

TEST(unknown_process)
{
	begin();
	CHECK_INT(notifier_told(server[0], 3000), 3000);
	CHECK_TEXT(whole_ask(ends[1], "COMMIT"), "C(COMMIT) Z(I)");
	server[1]->told_pid = 0;
	CHECK_INT(notifier_told(server[0], 2000), 2000);
	whole_close();
}

TEST(client_in_its_login_is_no_notifier)
{
	begin();
	client[1]->has_cancel_key = false;
	server[1]->told_pid = 77;
	CHECK_INT(notifier_told(server[0], 2000), 77);
	client[1]->has_cancel_key = true;
	whole_close();
}

/* Two clusters may have processes with the same ID. */
TEST(another_cluster)
{
	begin();
	server[1]->peer.remote.port++;
	CHECK_INT(notifier_told(server[0], 2000), 2000);
	rename_process(server[1], 1000);
	CHECK_INT(notifier_told(server[0], 1000), client[0]->cancel_pid);
	CHECK_INT(notifier_told(server[1], 1000), client[1]->cancel_pid);
	server[1]->peer.remote.port--;
	whole_close();
}

TEST(ended_server)
{
	begin();
	server_delist(server[1]);
	CHECK_INT(notifier_told(server[0], 2000), 2000);
	/* a server's notification of its own process needs no look-up */
	CHECK_INT(notifier_told(server[1], 2000), client[1]->cancel_pid);
	CHECK(server_enlist(server[1]));
	whole_close();
}

TEST(out_of_memory)
{
	begin();
	server_delist(server[0]);
	server_delist(server[1]);
	whole_memory_ends(0);
	CHECK(!server_enlist(server[0]));
	CHECK(whole_memory_is_back() > 0);
	CHECK_INT(notifier_told(server[1], 1000), 1000);
	CHECK(server_enlist(server[1]));
	whole_close();
}

TEST(the_number_of_a_client_is_for_itself)
{
	uint32_t told, public;

	begin();
	told = client[1]->cancel_pid;
	public = notifier_public(told);
	CHECK(told > SERVER_PID_MOST && public > SERVER_PID_MOST && public <= INT32_MAX && public != told);
	CHECK(notifier_public(told) == public && notifier_public(client[0]->cancel_pid) != public);
	CHECK_INT(notifier_for(client[1], told, public), told);
	CHECK_INT(notifier_for(client[0], told, public), public);
	CHECK(notifier_for(client[0], told, client[0]->cancel_pid) != client[0]->cancel_pid);
	CHECK_INT(notifier_public(SERVER_PID_MOST), SERVER_PID_MOST);
	whole_close();
}

UNIT_MAIN
