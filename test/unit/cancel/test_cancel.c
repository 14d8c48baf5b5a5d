/* Cancel requests of clients without a running query. test/wire/test_cancel.py has the requests. */
#include "cancel/cancel.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client with a running query, which its server does not answer. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	whole.holds_answers = true;
	/* a backend would close the connection of a request at once */
	whole.servers_answer = false;
	whole_query(near, "one");
	return true;
}

static void end(void)
{
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

/* Opens a connection that requests to cancel the process `pid` with this key. */
static struct house_end *cancel_with(uint32_t pid, const uint8_t *key, size_t size)
{
	struct house_end *e = house_connect(&whole);
	struct bytes out = BYTES_EMPTY;

	pg_build_key(&out, 0, pid, key, size);
	house_send(&whole, e, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return e;
}

static struct house_end *cancel(const struct client *c)
{
	return cancel_with(c->cancel_key.pid, c->cancel_key.secret, c->cancel_key.size);
}

/* Counts of each close reason since the test began. */
static uint64_t counted_before[REASONS];

static void count_from_here(void)
{
	for (int i = 0; i < REASONS; i++)
		counted_before[i] = whole.world->pools->ended[i];
}

#define CHECK_ENDED(reason, times) CHECK_INT(whole.world->pools->ended[reason] - counted_before[reason], times)

/* ---- requests ---- */

/* The client has a server without pending answers. */
TEST(client_between_queries_is_not_cancelled)
{
	REQUIRE(begin());
	whole.holds_answers = false;
	house_settle(&whole);
	CHECK(client->pooled.link);
	count_from_here();
	CHECK(cancel(client)->is_gone);
	CHECK_ENDED(REASON_CANCEL_IDLE, 1);
	CHECK_INT(server->pooled.cancels, 0);
	end();
}

/* A batch of the extended protocol ends at its Sync. */
TEST(queued_batch_is_cancelled)
{
	struct house_end *waits;
	struct client *c;

	REQUIRE(begin());
	c = whole_login(&waits);
	REQUIRE(c);
	whole_client_got(waits);
	whole_say(waits, 'P', "\0two\0\0", 7);
	CHECK_INT(c->pooled.state, CLIENT_WAITING);
	CHECK(cancel(c)->is_gone);
	CHECK_TEXT(whole_client_got(waits), "E(57014 canceling statement due to user request)");
	CHECK_INT(c->minds.refused_until, 'S');
	whole_say(waits, 'E', "\0\0\0\0\0", 5);
	CHECK_TEXT(whole_client_got(waits), "");
	whole_say(waits, 'S', "", 0);
	CHECK_TEXT(whole_client_got(waits), "Z(I)");
	CHECK_INT(c->minds.refused_until, 0);
	end();
}

UNIT_MAIN
