/* The LISTEN server of a pool: its allowed states, the statements sent on it, and the delivery of notifications to clients. */
#include "state/notify_server.h"

#include "state/notify_client.h"
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

TEST(channels_change_with_the_next_query)
{
	struct notify_server *l;

	l = begin_listening();
	REQUIRE(l && l->server == server);
	CHECK(channel_find(l, "c") && !channel_find(l, "d"));
	CHECK_INT(channel_find(l, "c")->state, CHANNEL_HEARD);
	CHECK(notify_client_restore(client, "d", true, false));
	notify_server_work(l);
	CHECK_INT(channel_find(l, "d")->state, CHANNEL_ASKED);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(LISTEN \"d\";)");
	CHECK_INT(channel_find(l, "d")->state, CHANNEL_HEARD);
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
	CHECK(!notify_server_heard(server, &f));
	f.size = f.here = sizeof(body);
	CHECK(notify_server_heard(server, &f));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "A");
	whole_close();
}

TEST(states_that_allow_a_listener)
{
	struct pool *pool;

	REQUIRE(begin());
	pool = client->pooled.pool;
	CHECK(notify_server_may_begin(pool) && notify_server_may_stay(pool));
	pool->allowed.size = 1;
	CHECK(!notify_server_may_begin(pool) && !notify_server_may_stay(pool));
	pool->allowed.size = 0;
	CHECK(notify_server_may_begin(pool));
	pool->allowed.mode = MODE_SESSION;
	CHECK(!notify_server_may_stay(pool));
	pool->allowed.mode = MODE_TRANSACTION;
	pool->allowed.state = STATE_OFF;
	CHECK(!notify_server_may_stay(pool));
	pool->allowed.state = STATE_FULL;
	pool->allowed.size = 2;
	whole_close();
}

UNIT_MAIN
