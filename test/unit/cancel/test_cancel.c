/* Cancel requests: matching of keys, the effect in each state of the client, and the limit of requests per server. */
#include "cancel/cancel.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")
#define MOST 16		/* limit of simultaneous requests for one server */

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

	pg_build_cancel(&out, pid, key, size);
	house_send(&whole, e, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return e;
}

static struct house_end *cancel(const struct client *c)
{
	return cancel_with(c->cancel_pid, c->cancel_key, c->cancel_key_size);
}

/* Counts of each close reason since the test began. */
static uint64_t counted_before[REASONS];

static void count_from_here(void)
{
	for (int i = 0; i < REASONS; i++)
		counted_before[i] = close_reason_counted((enum close_reason)i);
}

#define CHECK_ENDED(reason, times) CHECK_INT(close_reason_counted(reason) - counted_before[reason], times)

/* ---- keys ---- */

TEST(each_client_has_its_own_cancel_key)
{
	struct house_end *other_end;
	struct client *other;

	REQUIRE(begin());
	other = whole_login(&other_end);
	REQUIRE(other);
	CHECK(client->cancel_pid != 0 && client->cancel_pid <= INT32_MAX && other->cancel_pid != client->cancel_pid);
	CHECK_INT(client->cancel_key_size, CANCEL_KEY);
	CHECK(cancel_find(whole.world, client->cancel_pid, client->cancel_key, CANCEL_KEY) == client);
	CHECK(cancel_find(whole.world, other->cancel_pid, other->cancel_key, CANCEL_KEY) == other);
	CHECK(!cancel_find(whole.world, client->cancel_pid, other->cancel_key, CANCEL_KEY));
	CHECK(!cancel_find(whole.world, client->cancel_pid, client->cancel_key, CANCEL_KEY - 1));
	CHECK(!cancel_find(whole.world, client->cancel_pid + 1, client->cancel_key, CANCEL_KEY));
	end();
}

/* With session_link = login, servers of several machines may have the same process ID. */
TEST(clients_with_the_same_process_id)
{
	struct client *others[3];
	struct house_end *e;

	REQUIRE(begin());
	for (int i = 0; i < 3; i++) {
		others[i] = whole_login(&e);
		REQUIRE(others[i]);
		cancel_forget_client(others[i]);
		CHECK(cancel_make_key(others[i], 4711));
		CHECK_INT(others[i]->cancel_pid, 4711);
	}
	for (int i = 0; i < 3; i++)
		CHECK(cancel_find(whole.world, 4711, others[i]->cancel_key, others[i]->cancel_key_size) == others[i]);
	end();
}

TEST(key_is_removed_with_its_client)
{
	REQUIRE(begin());
	cancel_forget_client(client);
	CHECK(!client->has_cancel_key);
	CHECK(!cancel_find(whole.world, client->cancel_pid, client->cancel_key, client->cancel_key_size));
	end();
}

/* ---- requests ---- */

TEST(running_query_is_cancelled)
{
	struct house_end *canceller;

	REQUIRE(begin());
	count_from_here();
	canceller = cancel(client);
	CHECK_INT(server->pooled.cancels, 1);
	CHECK(!canceller->is_gone);
	/* the newest connection carries the request and has sent the server's own key */
	CHECK(whole_last_server() != server && whole_last_server()->pooled.is_cancel);
	CHECK_INT(whole_last_server()->pooled.state, SERVER_ACTIVE_CANCEL);
	house_hang_up(house_server(&whole));
	house_settle(&whole);
	CHECK(canceller->is_gone);
	CHECK_INT(server->pooled.cancels, 0);
	CHECK_ENDED(REASON_CANCEL_SENT, 1);
	end();
}

TEST(unknown_key_is_ignored)
{
	struct house_end *canceller;
	uint8_t other[CANCEL_KEY];

	REQUIRE(begin());
	count_from_here();
	memcpy(other, client->cancel_key, sizeof(other));
	other[CANCEL_KEY - 1] ^= 1;
	canceller = cancel_with(client->cancel_pid, other, sizeof(other));
	CHECK(canceller->is_gone && bytes_size(&canceller->got) == 0);
	CHECK_INT(server->pooled.cancels, 0);
	CHECK_ENDED(REASON_CANCEL_UNKNOWN, 1);
	end();
}

TEST(idle_client_is_not_cancelled)
{
	struct house_end *idle, *canceller;
	struct client *c;

	REQUIRE(begin());
	c = whole_login(&idle);
	REQUIRE(c);
	whole_client_got(idle);
	count_from_here();
	canceller = cancel(c);
	CHECK(canceller->is_gone);
	CHECK_ENDED(REASON_CANCEL_IDLE, 1);
	CHECK_TEXT(whole_client_got(idle), "");
	end();
}

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

/* No server ever gets the cancelled query; the next query is answered. */
TEST(queued_query_is_cancelled)
{
	struct house_end *waits;
	struct client *c;

	REQUIRE(begin());
	c = whole_login(&waits);
	REQUIRE(c);
	whole_client_got(waits);
	whole_query(waits, "two");
	CHECK_INT(c->pooled.state, CLIENT_WAITING);
	count_from_here();
	CHECK(cancel(c)->is_gone);
	CHECK_TEXT(whole_client_got(waits), "E(57014 canceling statement due to user request) Z(I)");
	CHECK_INT(c->pooled.state, CLIENT_IDLE);
	CHECK_ENDED(REASON_CANCEL_DONE, 1);
	whole_server_got(far);
	whole.holds_answers = false;
	whole_query(near, "C");
	house_settle(&whole);
	whole_client_got(waits);
	CHECK_TEXT(whole_ask(waits, "three"), "T D C(SELECT 1) Z(I)");
	CHECK(!strstr(whole_server_got(far), "two"));
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
	CHECK_INT(c->refused_until, 'S');
	whole_say(waits, 'E', "\0\0\0\0\0", 5);
	CHECK_TEXT(whole_client_got(waits), "");
	whole_say(waits, 'S', "", 0);
	CHECK_TEXT(whole_client_got(waits), "Z(I)");
	CHECK_INT(c->refused_until, 0);
	end();
}

/* Each request would cancel whichever query the server runs on arrival, so a few requests have the same effect as many. */
TEST(requests_beyond_the_limit_are_dropped)
{
	REQUIRE(begin());
	count_from_here();
	server->pooled.cancels = MOST;
	CHECK(cancel(client)->is_gone);
	CHECK_INT(server->pooled.cancels, MOST);
	CHECK_ENDED(REASON_CANCEL_CROWD, 1);
	server->pooled.cancels = 0;
	end();
}

/* The server is not lent again before the request ends, and the canceller is not told of success. */
TEST(query_ends_before_the_request_arrives)
{
	struct house_end *canceller;

	REQUIRE(begin());
	canceller = cancel(client);
	CHECK_INT(server->pooled.cancels, 1);
	whole.holds_answers = false;
	whole_query(near, "C");
	house_settle(&whole);
	CHECK(!client->pooled.link);
	CHECK_INT(server->pooled.state, SERVER_BEING_CANCELED);
	for (int i = 0; i < whole.end_count; i++)
		if (whole.ends[i].is_server && &whole.ends[i] != far)
			house_hang_up(&whole.ends[i]);
	house_settle(&whole);
	CHECK(canceller->is_gone);
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	end();
}

TEST(target_client_disconnects)
{
	struct house_end *canceller;

	REQUIRE(begin());
	canceller = cancel(client);
	house_hang_up(near);
	house_settle(&whole);
	CHECK(whole.world->cancels->by_pid == NULL);
	house_tick(&whole, USEC);
	for (int i = 0; i < whole.end_count; i++)
		if (whole.ends[i].is_server)
			house_hang_up(&whole.ends[i]);
	house_settle(&whole);
	CHECK(canceller->is_gone);
	end();
}

UNIT_MAIN
