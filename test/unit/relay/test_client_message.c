/* Processing of a client's messages: messages that need no server, are discarded, end the client, or wait. */
#include "relay/client_message.h"

#include "relay/relay.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")
#define NO_QUERY_INI WHOLE_INI("pool_size=1", "disable_pqexec=1\n")

static struct house_end *end, *server;
static struct client *client;

/* A client without a server; the logged-in server is idle. */
static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_login(&end);
	server = house_server(&whole);
	CHECK(client && server);
	if (server)
		whole_server_got(server);
	return client && server;
}

static bool begin_transaction(void)
{
	whole_open(INI);
	client = whole_in_transaction(&end, &server);
	CHECK(client);
	return client;
}

static void say(const char *bytes, size_t size)
{
	house_send(&whole, end, bytes, size);
	house_settle(&whole);
}

#define SAY(bytes) say(bytes, sizeof(bytes) - 1)
#define SYNC "S\0\0\0\4"
#define FLUSH "H\0\0\0\4"

/* ---- without a server ---- */

TEST(sync_needs_no_server)
{
	REQUIRE(begin(INI));
	SAY(SYNC SYNC SYNC);
	CHECK_TEXT(whole_client_got(end), "Z(I) Z(I) Z(I)");
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
}

TEST(flush_needs_no_server)
{
	REQUIRE(begin(INI));
	SAY(FLUSH FLUSH);
	CHECK_TEXT(whole_client_got(end), "");
	CHECK_TEXT(whole_server_got(server), "");
	CHECK(!end->is_gone);
	whole_close();
}

/* Data left over from a COPY that has failed. */
TEST(copy_data_without_a_copy_is_discarded)
{
	REQUIRE(begin(INI));
	SAY("d\0\0\0\5x" "c\0\0\0\4" "f\0\0\0\5\0" SYNC);
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
}

TEST(incomplete_messages_before_a_sync_are_discarded)
{
	REQUIRE(begin(INI));
	SAY(SYNC FLUSH "d\0\0\0\6x");
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	SAY("y" SYNC "d\0\0\0");
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	SAY("\5x" SYNC);
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
}

TEST(a_query_gets_a_server)
{
	REQUIRE(begin(INI));
	CHECK_TEXT(whole_ask(end, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	CHECK_TEXT(whole_server_got(server), "Q(SELECT 1)");
	whole_close();
}

TEST(query_waits_for_a_busy_server)
{
	struct house_end *second;
	struct client *waits;

	REQUIRE(begin_transaction());
	waits = whole_login(&second);
	REQUIRE(waits);
	CHECK_TEXT(whole_ask(second, "SELECT 2"), "");
	CHECK_INT(waits->pooled.state, CLIENT_WAITING);
	CHECK_TEXT(whole_server_got(server), "");
	CHECK_TEXT(whole_ask(end, "COMMIT"), "C(COMMIT) Z(I)");
	CHECK_TEXT(whole_client_got(second), "T D C(SELECT 1) Z(I)");
	whole_close();
}

/* ---- with a server ---- */

TEST(copy_data_without_a_copy_does_not_reach_the_server)
{
	REQUIRE(begin_transaction());
	SAY("d\0\0\0\5x" "c\0\0\0\4" "f\0\0\0\5\0");
	CHECK_TEXT(whole_server_got(server), "");
	CHECK_TEXT(whole_ask(end, "COMMIT"), "C(COMMIT) Z(I)");
	whole_close();
}

TEST(copy_data_of_a_copy_reaches_the_server)
{
	REQUIRE(begin_transaction());
	CHECK_TEXT(whole_ask(end, "GO"), "G");
	whole_server_got(server);
	SAY("d\0\0\0\5x" "c\0\0\0\4");
	CHECK_TEXT(whole_server_got(server), "d c");
	whole_close();
}

TEST(a_batch_ends_with_each_sync)
{
	struct server *s;
	uint32_t batch;

	REQUIRE(begin_transaction());
	s = server_of(client->pooled.link);
	batch = s->batch;
	SAY(SYNC SYNC);
	CHECK_INT(s->batch, batch + 2);
	CHECK_TEXT(whole_server_got(server), "S S");
	CHECK_TEXT(whole_client_got(end), "Z(T) Z(T)");
	whole_close();
}

/* PostgreSQL would skip to the next Sync after the error. */
TEST(a_flush_with_a_body_ends_the_client)
{
	REQUIRE(begin(INI));
	SAY("H\0\0\0\5x");
	CHECK(strstr(whole_client_got(end), "E(08P01"));
	CHECK(end->is_gone);
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
	REQUIRE(begin_transaction());
	SAY("H\0\0\0\5x");
	CHECK(end->is_gone && server->is_gone);
	CHECK_TEXT(whole_server_got(server), "X");
	whole_close();
}

TEST(simple_queries_can_be_disabled)
{
	REQUIRE(begin(NO_QUERY_INI));
	SAY("P\0\0\0\x10\0SELECT 1\0\0\0" SYNC);
	CHECK_TEXT(whole_client_got(end), "1 Z(I)");
	whole_query(end, "SELECT 1");
	CHECK(strstr(whole_client_got(end), "E("));
	CHECK(end->is_gone);
	CHECK(!strstr(whole_server_got(server), "Q("));
	whole_close();
}

TEST(refused_message_is_skipped_to_its_end)
{
	REQUIRE(begin(INI));
	client->minds.refused_until = 'S';
	SAY("P\0\0\0\x10\0SELECT 1\0\0\0" "E\0\0\0\x9\0\0\0\0\0");
	CHECK_TEXT(whole_client_got(end), "");
	SAY(SYNC);
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	CHECK_INT(client->minds.refused_until, 0);
	CHECK_TEXT(whole_server_got(server), "");
	CHECK_TEXT(whole_ask(end, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	whole_close();
}

/* ---- times ---- */

TEST(request_begins_with_its_first_message)
{
	REQUIRE(begin(INI));
	SAY(SYNC);
	CHECK(client->activity.query_started == 0 && client->activity.transaction_started == 0);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	CHECK(client->activity.query_started == whole.world->now && client->activity.transaction_started == whole.world->now);
	whole_close();
}

/* ---- depth ---- */

/* The server is asked to flush its buffer, because the later Sync is not forwarded before answers arrive. */
TEST(deep_pipeline_waits_for_answers)
{
	static const uint8_t execute[] = { 'E', 0, 0, 0, 9, 0, 0, 0, 0, 0 };
	struct bytes out = BYTES_EMPTY;
	struct server *s;

	REQUIRE(begin_transaction());
	s = server_of(client->pooled.link);
	whole.holds_answers = true;
	for (int i = 0; i < RELAY_DEEPEST + 100; i++)
		bytes_append(&out, execute, sizeof(execute));
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	CHECK_INT(ledger_depth(&s->ledger), RELAY_DEEPEST);
	CHECK(client->peer.blocked & FLOW_ANSWERS);
	out = server->got;
	CHECK(memcmp(out.data + out.end - 5, FLUSH, 5) == 0);
	whole_close();
}

UNIT_MAIN
