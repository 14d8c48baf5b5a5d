/* The channels of LISTEN clients, their queued notifications, and the LISTEN server of a pool: its allowed states, its statements, and delivery. */
#include "state/notify.h"

#include "state/server_session.h"
#include "state/session_question.h"
#include "state/session_restore.h"
#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client with a server in an open transaction, so that no channel moves to the listener. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	return client && server && client->session;
}

/* The client's server has executed LISTEN for these names, each with its NUL. Returns false if the client has ended. */
static bool learns(const char *names, size_t size, bool is_exact)
{
	struct session_answer answer = { .count = 0 };
	bool lives;

	bytes_append(&answer.channels, names, size);
	lives = notify_client_learn(client, &answer, is_exact);
	bytes_free(&answer.channels);
	return lives;
}
#define LEARNS(names, is_exact) learns(names, sizeof(names) - 1, is_exact)

static struct notify_client *hearing(void) { return client->session->notify_client; }

/* Returns the channels of the client, in order: a letter for each, in upper case if the listener delivers its notifications. */
static const char *subscribed(void)
{
	static char text[20];
	size_t used = 0;

	text[0] = '\0';
	if (!hearing())
		return "none";
	LIST_EACH(node, &hearing()->subscriptions) {
		const struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		text[used++] = (char)(s->channel->name[0] - (s->from_listener ? 'a' - 'A' : 0));
		text[used] = '\0';
		CHECK(s->from_listener != s->from_server);
	}
	return text;
}

/* Marks all channels as delivered by the listener. */
static void all_have_moved(void)
{
	LIST_EACH(node, &hearing()->subscriptions) {
		struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		s->from_listener = true;
		s->from_server = false;
	}
}

static bool passes(const char *channel)
{
	struct bytes body = BYTES_EMPTY;
	struct pg_frame f = { .type = 'A' };
	bool does;

	bytes_append_u32(&body, 7);
	bytes_append_string(&body, channel);
	bytes_append_string(&body, "");
	f.body = bytes_front(&body);
	f.size = f.here = (uint32_t)bytes_size(&body);
	does = notify_client_passes(server, client, &f);
	bytes_free(&body);
	return does;
}

TEST(channels_of_the_server_are_added)
{
	REQUIRE(begin());
	CHECK(LEARNS("", false));
	CHECK_TEXT(subscribed(), "none");
	CHECK(LEARNS("a\0b\0", false));
	CHECK_TEXT(subscribed(), "ab");
	CHECK(client->pooled.listens);
	CHECK_INT(hearing()->step, NOTIFY_WAITS);
	/* only the client's server listens to these channels */
	CHECK(LEARNS("b\0c\0", false));
	CHECK_TEXT(subscribed(), "bc");
	all_have_moved();
	CHECK(LEARNS("d\0", false));
	CHECK_TEXT(subscribed(), "BCd");
	CHECK(LEARNS("", false));
	CHECK_TEXT(subscribed(), "BC");
	CHECK_INT(hearing()->step, NOTIFY_RESTS);
	whole_close();
}

TEST(channels_missing_in_an_exact_answer_are_removed)
{
	REQUIRE(begin());
	CHECK(LEARNS("a\0b\0", false));
	all_have_moved();
	CHECK(LEARNS("b\0", true));
	CHECK_TEXT(subscribed(), "B");
	/* the server still listens */
	CHECK_INT(hearing()->step, NOTIFY_LEAVES);
	CHECK(LEARNS("", true));
	CHECK_TEXT(subscribed(), "none");
	CHECK(!client->pooled.listens && !notify_server_of(client->pooled.pool));
	whole_close();
}

TEST(queued_notifications_are_dropped_after_unlisten)
{
	static const uint8_t two[] = "A\0\0\0\x0b\0\0\0\7a\0\0A\0\0\0\x0b\0\0\0\7b\0\0";

	REQUIRE(begin());
	CHECK(LEARNS("a\0b\0", false));
	all_have_moved();
	bytes_append(&hearing()->pending, two, sizeof(two) - 1);
	CHECK(LEARNS("b\0", true));
	CHECK_INT(bytes_size(&hearing()->pending), (sizeof(two) - 1) / 2);
	whole_client_got(near);
	notify_client_flush(client);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "A");
	whole_close();
}

TEST(each_notification_is_delivered_once)
{
	char marker[LISTENER_MARKER];

	REQUIRE(begin());
	CHECK(LEARNS("a\0", false));
	CHECK(passes("a") && passes("unknown"));
	snprintf(marker, sizeof(marker), "%s", hearing()->notify_server->marker);
	CHECK(!passes(marker));
	CHECK(!passes("a"));
	whole_close();
}

static const uint8_t message[] = "A\0\0\0\x0b\0\0\0\7a\0";
#define MESSAGE (sizeof(message))

/* A client that listens, and has no server. */
static bool listens_alone(void)
{
	if (!begin() || !LEARNS("a\0", false))
		return false;
	all_have_moved();
	whole_ask(near, "COMMIT");
	whole_client_got(near);
	return client->session && hearing();
}

/* The listener receives the message. */
static void deliver(void)
{
	struct notify_server *l = hearing()->notify_server;
	struct pg_frame f = { .type = 'A', .body = message + PG_HEADER, .size = MESSAGE - PG_HEADER, .here = MESSAGE - PG_HEADER };
	struct server *had = l->server;

	l->server = whole_last_server();
	CHECK(notify_clients_deliver(l->server, &f));
	l->server = had;
}

TEST(notifications_of_a_turn_are_sent_together)
{
	REQUIRE(listens_alone());
	for (int i = 0; i < 3; i++)
		deliver();
	CHECK_INT(bytes_size(&hearing()->pending), 3 * MESSAGE);
	CHECK(world_has_again(whole.world));
	notify_clients_flush(whole.world);
	CHECK_INT(bytes_size(&hearing()->pending), 0);
	CHECK(!world_has_again(whole.world));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "A A A");
	whole_close();
}

TEST(a_turn_has_a_share_of_notifications)
{
	REQUIRE(listens_alone());
	for (int i = 0; i < NOTIFY_DELIVERIES; i++) {
		CHECK(notify_clients_have_share(whole.world));
		deliver();
	}
	CHECK(!notify_clients_have_share(whole.world));
	notify_clients_flush(whole.world);
	CHECK(notify_clients_have_share(whole.world));
	whole_close();
}

TEST(names_are_quoted)
{
	REQUIRE(begin());
	CHECK(LEARNS("a\"b\0c\0d\0", false));
	all_have_moved();
	/* a channel that the server already listens to is omitted */
	LIST_OBJECT(hearing()->subscriptions.prev, struct subscription, of_client)->from_server = true;
	whole_server_got(far);
	whole.holds_answers = true;
	server->status = 'I';
	session_restore_channels(server, client);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(LISTEN \"a\"\"b\";LISTEN \"c\";)");
	whole.holds_answers = false;
	server->task = NULL;
	whole_close();
}

TEST(out_of_memory_ends_the_client)
{
	int failed;

	/* the first allocation is for the answer */
	for (int more = 1; more < 5; more++) {
		REQUIRE(begin());
		whole_memory_ends(more);
		CHECK(!LEARNS("a\0", false));
		failed = whole_memory_is_back();
		CHECK(failed > 0);
		house_settle(&whole);
		CHECK(near->is_gone);
		whole_close();
	}
}

/* ---- the LISTEN server ---- */

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
	CHECK(!notify_server_of(client->pooled.pool) && !client->pooled.listens);
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

UNIT_MAIN
