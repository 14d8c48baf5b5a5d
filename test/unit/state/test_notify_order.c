/* The order of a client's notifications: those that its pool's listener has received, and its own. */
#include "state/notify.h"

#include "state/session_question.h"
#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "session_state=full\n")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static struct notify_client *hearing(void) { return client->session->notify_client; }

/* A client in an open transaction has executed LISTEN a, and the listener delivers the channel. */
static bool begins_to_hear(void)
{
	struct session_answer answer = { .count = 0 };
	bool lives;

	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server || !client->session)
		return false;
	bytes_append(&answer.channels, "a", 2);
	lives = notify_client_learn(client, &answer, false);
	bytes_free(&answer.channels);
	if (!lives)
		return false;
	LIST_EACH(node, &hearing()->subscriptions) {
		struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		s->from_listener = true;
		s->from_server = false;
	}
	return true;
}

/* Pends messages, two letters each: 'h' heard, 'e' echo, 'o' own, 'n' own without an echo, and the payload. */
static void pend_all(const char *messages)
{
	for (const char *at = messages; *at; at += at[2] ? 3 : 2) {
		uint8_t body[] = "pid_a\0x";
		const struct pg_frame f = { .type = 'A', .body = body, .size = sizeof(body), .here = sizeof(body) };

		body[6] = (uint8_t)at[1];
		if (at[0] == 'h')
			notify_pend_heard(hearing(), &f, 7);
		else if (at[0] == 'e')
			notify_pend_echo(hearing(), &f);
		else
			notify_pend_own(hearing(), &f, 7, at[0] == 'o');
	}
}

/* Sends what is pending. Returns the payloads of the NotificationResponses that the client gets. */
static const char *payloads_sent(void)
{
	static char text[20];
	size_t used = 0, from = bytes_size(&near->got);
	struct pg_frames frames;
	struct pg_frame f;

	notify_client_flush(client);
	notify_clients_flush(whole.world);
	house_settle(&whole);
	frames = pg_frames_of(&near->got);
	frames.at += from;
	frames.left -= from;
	while (pg_frames_next(&frames, PG_LENGTH_LIMIT, &f) == PG_OK) {
		CHECK_INT(f.type, 'A');
		CHECK(f.size == 8 && memcmp(f.body, "\0\0\0\7a", 6) == 0);
		text[used++] = (char)f.body[6];
	}
	text[used] = '\0';
	return text;
}

TEST(own_notifications_are_sent_in_the_place_of_their_echoes)
{
	static const struct { const char *pending, *sent; } cases[] = {
		{ "hx hy", "xy" },
		{ "oy hx ey hz", "xyz" },
		{ "hx ey hz oy", "xyz" },
		{ "ob od ha eb hc ed he", "abcde" },
		/* two with the same text */
		{ "ob ob ha eb hc eb", "abcb" },
		/* a channel that the transaction leaves */
		{ "oc ha eb ec hd", "acd" },
		{ "ha eb hc", "ac" },
		/* a channel that it begins to listen to: beside its other notifications, or else after the others */
		{ "nb oc nd ha ec he", "abcde" },
		{ "oc nd ha ec he nf", "acdfe" },
		{ "nc ha hb", "abc" },
		/* echoes are missing */
		{ "ob oc ha ec hd", "adbc" },
	};

	REQUIRE(begins_to_hear());
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pend_all(cases[i].pending);
		CHECK_TEXT(payloads_sent(), cases[i].sent);
		CHECK_INT(bytes_size(&hearing()->pending), 0);
	}
	whole_close();
}

TEST(echoes_of_later_transactions_wait_for_their_notifications)
{
	REQUIRE(begins_to_hear());
	CHECK(ledger_sent_query(&server->ledger));
	pend_all("ob ha eb hc ed he");
	CHECK_TEXT(payloads_sent(), "abc");
	pend_all("od");
	ledger_clear(&server->ledger);
	CHECK_TEXT(payloads_sent(), "de");
	CHECK_INT(bytes_size(&hearing()->pending), 0);
	whole_close();
}

static bool keeps_nothing(const struct notify_client *h, const char *name)
{
	CHECK(h == hearing() && strcmp(name, "a") == 0);
	return false;
}

TEST(too_many_own_notifications_end_the_client)
{
	REQUIRE(begins_to_hear());
	for (int i = 0; i < 100000 && !peer_is_stopped(&client->peer); i++)
		pend_all("oa");
	CHECK(peer_is_stopped(&client->peer));
	whole_close();
}

/* A place that the listener knows stays with the client when it leaves a channel; what it has heard there does not. */
TEST(a_channel_that_the_client_leaves)
{
	REQUIRE(begins_to_hear());
	pend_all("ha oc hb ec");
	notify_pending_leave(hearing(), keeps_nothing);
	CHECK_TEXT(payloads_sent(), "c");
	whole_close();
}

TEST(an_order_without_memory_ends_the_client)
{
	REQUIRE(begins_to_hear());
	pend_all("ha");
	hearing()->pending.failed = true;
	notify_client_flush(client);
	house_settle(&whole);
	CHECK(near->is_gone);
	whole_close();
}

UNIT_MAIN
