/* The LISTEN server of a pool: its allowed states, the statements sent on it, and the delivery of notifications to clients. */
#include "state/notify.h"
#include "state/server_session.h"

#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	return client && server && client->session;
}

/* The client listens, and its server has become the pool's LISTEN server. */
static struct notify_server *begin_listening(void)
{
	if (!begin())
		return NULL;
	whole_query(near, "ALISTEN");
	whole_query(near, "C");
	whole_client_got(near);
	whole_server_got(far);
	return notify_server_of(client->pooled.pool);
}

static const struct channel *channel(const struct notify_server *l, const char *name)
{
	struct channel *found;

	HASH_FIND(hh, l->channels, name, strlen(name), found);
	return found;
}

TEST(channels_change_with_the_next_query)
{
	struct notify_server *l;

	l = begin_listening();
	REQUIRE(l && l->server == server);
	CHECK(channel(l, "c") && !channel(l, "d"));
	CHECK_INT(channel(l, "c")->state, CHANNEL_HEARD);
	CHECK(notify_client_restore(client, "d", true, false));
	notify_server_work(l);
	CHECK_INT(channel(l, "d")->state, CHANNEL_ASKED);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(LISTEN \"d\";)");
	CHECK_INT(channel(l, "d")->state, CHANNEL_HEARD);
	/* nothing has changed */
	notify_server_work(l);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "");
	whole_close();
}

TEST(listener_without_channels_is_released)
{
	struct notify_server *l;

	l = begin_listening();
	REQUIRE(l);
	notify_client_forget(client);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(UNLISTEN *)");
	CHECK(!notify_server_of(client->pooled.pool) && !client->hears);
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	whole_close();
}

TEST(silent_listener_is_queried)
{
	REQUIRE(begin_listening());
	house_tick(&whole, 29 * USEC);
	CHECK_TEXT(whole_server_got(far), "");
	house_tick(&whole, 2 * USEC);
	CHECK_TEXT(whole_server_got(far), "Q()");
	whole_close();
}

TEST(unresponsive_listener_ends_with_its_clients)
{
	REQUIRE(begin_listening());
	whole.holds_answers = true;
	house_tick(&whole, 31 * USEC);
	house_tick(&whole, 16 * USEC);
	whole.holds_answers = false;
	CHECK(far->is_gone && near->is_gone);
	CHECK(strstr(whole_client_got(near), "has ended: test query failed"));
	whole_close();
}

TEST(malformed_notifications)
{
	static const uint8_t body[] = "\0\0\0\7c\0x";
	struct pg_frame f = { .type = 'A', .body = body, .size = 7, .here = 7 };

	REQUIRE(begin_listening());
	CHECK(!notify_clients_deliver(server, &f));
	f.size = f.here = sizeof(body);
	CHECK(notify_clients_deliver(server, &f));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "A");
	whole_close();
}

TEST(states_that_allow_a_listener)
{
	struct pool *pool;

	REQUIRE(begin());
	pool = client->pooled.pool;
	CHECK(notify_server_has_room(pool, 1) && notify_server_has_room(pool, 0));
	pool->allowed.size = 1;
	CHECK(!notify_server_has_room(pool, 1) && !notify_server_has_room(pool, 0));
	pool->allowed.size = 0;
	CHECK(notify_server_has_room(pool, 1));
	pool->allowed.mode = MODE_SESSION;
	CHECK(!notify_server_has_room(pool, 0));
	pool->allowed.mode = MODE_TRANSACTION;
	pool->allowed.state = STATE_OFF;
	CHECK(!notify_server_has_room(pool, 0));
	pool->allowed.state = STATE_FULL;
	pool->allowed.size = 2;
	whole_close();
}

/* ---- the sender of a notification ---- */

#define INI_OFF WHOLE_INI("pool_size=2", "")

static struct house_end *ends[2];
static struct client *clients[2];
static struct server *servers[2];

static void delist(struct server *s)
{
	HASH_DELETE(by_backend_pid, whole.world->by_backend_pid, s);
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

	whole_open(INI_OFF);
	for (int i = 0; i < 2; i++) {
		clients[i] = whole_in_transaction(&ends[i], &end);
		FUZZ_CHECK(clients[i]);
		servers[i] = server_of(clients[i]->pooled.link);
	}
	rename_process(servers[0], 1000);
	rename_process(servers[1], 2000);
	CHECK(clients[0]->cancel_pid != clients[1]->cancel_pid);
}

TEST(current_client_of_the_process)
{
	begin_two();
	CHECK_INT(notify_sender(servers[0], 1000), clients[0]->cancel_pid);
	CHECK_INT(notify_sender(servers[0], 2000), clients[1]->cancel_pid);
	CHECK_INT(notify_sender(servers[1], 1000), clients[0]->cancel_pid);
	whole_close();
}

TEST(last_client_of_the_process)
{
	uint32_t told;

	begin_two();
	told = clients[1]->cancel_pid;
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
	servers[1]->told_pid = 0;
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	whole_close();
}

TEST(client_in_its_login_is_no_notifier)
{
	begin_two();
	clients[1]->has_cancel_key = false;
	servers[1]->told_pid = 77;
	CHECK_INT(notify_sender(servers[0], 2000), 77);
	clients[1]->has_cancel_key = true;
	whole_close();
}

/* Two clusters may have processes with the same ID. */
TEST(another_cluster)
{
	begin_two();
	servers[1]->peer.remote.port++;
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	rename_process(servers[1], 1000);
	CHECK_INT(notify_sender(servers[0], 1000), clients[0]->cancel_pid);
	CHECK_INT(notify_sender(servers[1], 1000), clients[1]->cancel_pid);
	servers[1]->peer.remote.port--;
	whole_close();
}

TEST(ended_server)
{
	begin_two();
	delist(servers[1]);
	CHECK_INT(notify_sender(servers[0], 2000), 2000);
	/* a server's notification of its own process needs no look-up */
	CHECK_INT(notify_sender(servers[1], 2000), clients[1]->cancel_pid);
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
	told = clients[1]->cancel_pid;
	public = told_to(0, 2000);
	CHECK(told > SERVER_PID_MOST && public > SERVER_PID_MOST && public <= INT32_MAX && public != told);
	CHECK_INT(told_to(1, 2000), told);
	CHECK(told_to(0, 2000) == public && told_to(1, 1000) != public);
	/* the number of a client that equals the hash of another number */
	told = clients[0]->cancel_pid;
	clients[0]->cancel_pid = public;
	CHECK_INT(told_to(0, 2000), public ^ 1);
	clients[0]->cancel_pid = told;
	CHECK_INT(told_to(0, SERVER_PID_MOST), SERVER_PID_MOST);
	whole_close();
}

UNIT_MAIN
