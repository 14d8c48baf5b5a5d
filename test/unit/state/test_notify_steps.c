/* A client that LISTENs moves from its server to the LISTEN server of its pool. */
#include "state/notify.h"
#include "state/server_session.h"

#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=3", "session_state=full\n")
#define ONE_INI WHOLE_INI("pool_size=1", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction. */
static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	return client && server;
}

/* The client has sent LISTEN "c", and its server has become the pool's LISTEN server. */
static bool begin_listening(void)
{
	if (!begin(INI))
		return false;
	whole_query(near, "ALISTEN");
	whole_query(near, "C");
	whole_client_got(near);
	return client->pooled.listens && !client->pooled.link && server->pooled.state == SERVER_LISTENING;
}

/* A notification that arrives from this server. */
static void notify(struct house_end *to, const char *channel, const char *payload)
{
	struct bytes m = BYTES_EMPTY;

	bytes_append_u8(&m, 'A');
	bytes_append_u32(&m, (uint32_t)(4 + 4 + strlen(channel) + 1 + strlen(payload) + 1));
	bytes_append_u32(&m, 77);
	bytes_append_string(&m, channel);
	bytes_append_string(&m, payload);
	house_send(&whole, to, bytes_front(&m), bytes_size(&m));
	bytes_free(&m);
	house_settle(&whole);
}

/* Returns the number in the marker that was sent on this server; the name of its channel is stored in `channel`. */
static const char *marker_of(const char *said, char *channel)
{
	static char number[20];
	const char *at = strstr(said, "NOTIFY \"");

	if (!at || sscanf(at, "NOTIFY \"%23[^\"]\",'%19[0-9]'", channel, number) != 2)
		return NULL;
	return number;
}

/* From now on the test answers for this server. */
static void fall_silent(struct house_end *e)
{
	backend_free(e->backend);
	free(e->backend);
	e->backend = NULL;
}

/* ---- the first one ---- */

TEST(first_server_becomes_the_listener)
{
	struct notify_server *l;

	REQUIRE(begin_listening());
	l = notify_server_of(client->pooled.pool);
	CHECK(l && l->server == server && l->marker_is_heard);
	CHECK_INT(client->pooled.pins, 0);
	CHECK(strstr(whole_server_got(far), "Q(LISTEN \"pgweir_"));
	notify(far, "c", "x");
	CHECK_TEXT(whole_client_got(near), "A");
	notify(far, "d", "x");
	CHECK_TEXT(whole_client_got(near), "");
	whole_close();
}

TEST(pool_of_one_keeps_the_server_for_the_client)
{
	REQUIRE(begin(ONE_INI));
	whole_query(near, "ALISTEN");
	whole_query(near, "C");
	CHECK_INT(client->pooled.pins, PIN_LISTENING);
	CHECK(client->pooled.link == &server->pooled && client->pooled.listens);
	whole_client_got(near);
	notify(far, "c", "x");
	CHECK_TEXT(whole_client_got(near), "A");
	whole_query(near, "one");
	CHECK_TEXT(whole_client_got(near), "T D C(SELECT 1) Z(I)");
	whole_close();
}

/* ---- the second one ---- */

TEST(later_client_moves_to_the_listener)
{
	struct house_end *second, *other;
	struct client *c;

	REQUIRE(begin_listening());
	c = whole_in_transaction(&second, &other);
	REQUIRE(c && whole_last_server() != server);
	whole_query(second, "ALISTEN");
	whole_query(second, "C");
	CHECK(!c->pooled.link && c->pooled.listens && c->pooled.pins == 0);
	CHECK(list_is_empty(&notify_server_of(c->pooled.pool)->movers));
	whole_client_got(near);
	whole_client_got(second);
	notify(far, "c", "x");
	CHECK_TEXT(whole_client_got(second), "A");
	CHECK_TEXT(whole_client_got(near), "A");
	whole_close();
}

TEST(marker_does_not_arrive)
{
	struct house_end *second, *other;

	REQUIRE(begin_listening());
	REQUIRE(whole_in_transaction(&second, &other));
	fall_silent(far);
	whole_query(second, "ALISTEN");
	whole_query(second, "C");
	whole_client_got(second);
	house_send(&whole, far, "I\0\0\0\4Z\0\0\0\5I", 11);
	house_settle(&whole);
	CHECK(strstr(whole_client_got(second), "the client has LISTENed on another server"));
	CHECK(second->is_gone && !near->is_gone);
	whole_close();
}

TEST(notifications_before_the_marker_come_from_the_own_server)
{
	struct house_end *second, *other;
	struct client *c;
	const char *number;
	char marker[LISTENER_MARKER];

	REQUIRE(begin_listening());
	c = whole_in_transaction(&second, &other);
	REQUIRE(c);
	whole_query(second, "ALISTEN");
	whole_server_got(other);
	whole.holds_answers = true;
	whole_query(second, "C");
	/* COMMIT and the query for the channels; the test plays the answer to the marker */
	house_send(&whole, other, "C\0\0\0\x0b" "COMMIT\0Z\0\0\0\5I", 18);
	house_settle(&whole);
	CHECK(strstr(whole_client_got(second), "C(COMMIT) Z(I)"));
	house_send(&whole, other, "D\0\0\0\x1a\0\4\0\0\0\1c\0\0\0\1" "0\0\0\0\1" "0\0\0\0\1" "0C\0\0\0\x0bSELECT\0Z\0\0\0\5I", 45);
	house_settle(&whole);
	number = marker_of(whole_server_got(other), marker);
	REQUIRE(number);
	notify(other, "c", "before");
	CHECK_TEXT(whole_client_got(second), "A");
	notify(far, marker, number);
	notify(far, "c", "behind");
	notify(other, marker, number);
	notify(other, "c", "behind");
	CHECK_TEXT(whole_client_got(second), "");
	house_send(&whole, other, "C\0\0\0\x0bNOTIFY\0Z\0\0\0\5I", 18);
	house_settle(&whole);
	CHECK(strstr(whole_server_got(other), "Q(UNLISTEN *)"));
	house_send(&whole, other, "C\0\0\0\x0dUNLISTEN\0Z\0\0\0\5I", 20);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(second), "A");
	CHECK(!c->pooled.link && c->pooled.pins == 0);
	whole.holds_answers = false;
	whole_close();
}

/* ---- clients that notify ---- */

/* The next client of its server may not be taken for the one that has notified. */
TEST(server_of_a_notifier_waits_for_the_listener)
{
	struct house_end *second, *other;
	struct server *s;

	REQUIRE(begin_listening());
	REQUIRE(whole_in_transaction(&second, &other));
	s = whole_last_server();
	REQUIRE(s != server);
	whole_query(second, "ANOTIFY notify");
	CHECK(s->notifies);
	fall_silent(far);
	whole_server_got(far);
	whole_client_got(second);
	whole_query(second, "C");
	CHECK_TEXT(whole_client_got(second), "C(COMMIT) Z(I)");
	CHECK_TEXT(whole_server_got(far), "Q()");
	CHECK_INT(s->pooled.state, SERVER_TESTED);
	CHECK(s->task == &task_hear);
	house_send(&whole, far, "I\0\0\0\4Z\0\0\0\5I", 11);
	house_settle(&whole);
	CHECK_INT(s->pooled.state, SERVER_IDLE);
	CHECK(!s->task && !s->notifies);
	whole_close();
}

TEST(server_of_a_notifier_does_not_wait_for_a_listener_that_ends)
{
	struct house_end *second, *other;
	struct server *s;

	REQUIRE(begin_listening());
	REQUIRE(whole_in_transaction(&second, &other));
	s = whole_last_server();
	whole_query(second, "ANOTIFY notify");
	fall_silent(far);
	whole_query(second, "C");
	CHECK(s->task == &task_hear);
	server_end(server, REASON_SERVER_CRASHED, NULL);
	house_settle(&whole);
	CHECK_INT(s->pooled.state, SERVER_IDLE);
	whole_close();
}

/* ---- before a ReadyForQuery ---- */

TEST(a_ready_for_query_waits_for_the_listener)
{
	struct house_end *other;

	REQUIRE(begin_listening());
	whole_query(near, "B");
	other = house_server(&whole);
	whole_client_got(near);
	notify(far, "c", "in the transaction");
	CHECK_TEXT(whole_client_got(near), "");
	whole_server_got(far);
	fall_silent(far);
	whole_query(near, "C");
	CHECK_TEXT(whole_client_got(near), "C(COMMIT)");
	CHECK_TEXT(whole_server_got(far), "Q()");
	CHECK(server_of(client->pooled.link)->task == &task_hear);
	notify(far, "c", "committed");
	CHECK_TEXT(whole_client_got(near), "");
	house_send(&whole, far, "I\0\0\0\4Z\0\0\0\5I", 11);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "A A Z(I)");
	CHECK(!client->pooled.link && other);
	whole_close();
}

TEST(later_messages_wait_too)
{
	REQUIRE(begin_listening());
	whole_server_got(far);
	fall_silent(far);
	house_send(&whole, near, "Q\0\0\0\x08one\0Q\0\0\0\x08two\0", 18);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "T D C(SELECT 1)");
	house_send(&whole, far, "I\0\0\0\4Z\0\0\0\5I", 11);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "Z(I) T D C(SELECT 1)");
	house_send(&whole, far, "I\0\0\0\4Z\0\0\0\5I", 11);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "Z(I)");
	whole_close();
}

TEST(end_of_the_listener_ends_waiting_clients)
{
	REQUIRE(begin_listening());
	fall_silent(far);
	whole_query(near, "one");
	whole_client_got(near);
	house_hang_up(far);
	house_settle(&whole);
	CHECK(strstr(whole_client_got(near), "the server connection that listens for notifications has ended: server conn crashed?"));
	CHECK(near->is_gone);
	whole_close();
}

/* ---- UNLISTEN ---- */

TEST(server_listens_before_an_unlisten)
{
	struct house_end *other;

	REQUIRE(begin_listening());
	whole_query(near, "AUNLISTEN unlisten");
	other = house_server(&whole);
	CHECK(strstr(whole_server_got(other), "Q(LISTEN \"c\";) Q(AUNLISTEN unlisten)"));
	/* the server is asked, and listens to nothing now */
	CHECK(!client->pooled.listens);
	house_settle(&whole);
	CHECK(!notify_server_of(client->pooled.pool) && server->pooled.state == SERVER_IDLE);
	CHECK(strstr(whole_server_got(far), "Q(UNLISTEN *)"));
	whole_close();
}

TEST(server_listens_before_a_transaction)
{
	struct house_end *other;

	REQUIRE(begin_listening());
	whole_query(near, "B begin");
	other = house_server(&whole);
	CHECK(strstr(whole_server_got(other), "Q(LISTEN \"c\";) Q(B begin)"));
	whole_query(near, "unlisten *");
	CHECK(!strstr(whole_server_got(other), "LISTEN \"c\";"));
	whole_close();
}

UNIT_MAIN
