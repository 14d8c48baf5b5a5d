/* Server messages to the client: statistics, invalid messages, and the end of a server. */
#include "relay/relay.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")
#define STATEMENT_INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=1" HOUSE_SETTINGS "auth_type=any\npool_mode=statement\n"

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client whose query the test answers. */
static bool begin(const char *ini)
{
	whole_open(ini);
	client = whole_login(&near);
	server = whole_last_server();
	far = house_server(&whole);
	if (!client || !server || !far)
		return false;
	whole.holds_answers = true;
	whole_client_got(near);
	whole_query(near, "one");
	whole_server_got(far);
	return client->pooled.link == &server->pooled;
}

static void end(void)
{
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

static void says(const char *bytes, size_t size)
{
	house_send(&whole, far, bytes, size);
	house_settle(&whole);
}

#define SAYS(bytes) says(bytes, sizeof(bytes) - 1)
#define COMPLETE "C\0\0\0\15SELECT 1\0"
#define READY "Z\0\0\0\5I"
#define IN_TRANSACTION "Z\0\0\0\5T"
#define FATAL "E\0\0\0\34SFATAL\0C57P01\0Mthe end\0\0"
#define NOTICE "N\0\0\0\5\0"

static const struct stats *total(void)
{
	return &client->pooled.pool->database->stats.total;
}

TEST(answer_is_counted)
{
	uint64_t queries, transactions;

	REQUIRE(begin(INI));
	queries = total()->query_count;
	transactions = total()->xact_count;
	SAYS(COMPLETE);
	CHECK_INT(total()->query_count, queries);
	CHECK(client->activity.query_started != 0);
	SAYS(READY);
	CHECK_TEXT(whole_client_got(near), "C(SELECT 1) Z(I)");
	CHECK_INT(total()->query_count, queries + 1);
	CHECK_INT(total()->xact_count, transactions + 1);
	CHECK(client->activity.query_started == 0 && client->activity.transaction_started == 0 && !client->activity.in_transaction);
	CHECK(!client->pooled.link);
	end();
}

TEST(query_within_a_transaction)
{
	uint64_t queries, transactions;

	REQUIRE(begin(INI));
	queries = total()->query_count;
	transactions = total()->xact_count;
	SAYS(COMPLETE IN_TRANSACTION);
	CHECK_INT(total()->query_count, queries + 1);
	CHECK_INT(total()->xact_count, transactions);
	CHECK(client->activity.query_started == 0 && client->activity.transaction_started != 0 && client->activity.in_transaction);
	CHECK(client->pooled.link == &server->pooled);
	end();
}

/* The second query is measured from the end of the first. */
TEST(two_queries_in_a_row)
{
	REQUIRE(begin(INI));
	whole_query(near, "two");
	SAYS(COMPLETE READY);
	CHECK(client->activity.query_started != 0 && client->activity.query_started == client->activity.transaction_started);
	CHECK(client->pooled.link == &server->pooled);
	SAYS(COMPLETE READY);
	CHECK_TEXT(whole_client_got(near), "C(SELECT 1) Z(I) C(SELECT 1) Z(I)");
	CHECK(!client->pooled.link);
	end();
}

TEST(answer_in_single_bytes)
{
	REQUIRE(begin(INI));
	house_feed(&whole, far, NOTICE COMPLETE READY, sizeof(NOTICE COMPLETE READY) - 1, FUZZ_SINGLE);
	CHECK(strstr(whole_client_got(near), "C(SELECT 1) Z(I)"));
	CHECK(!client->pooled.link);
	end();
}

/* ---- invalid messages ---- */

TEST(unexpected_answer)
{
	REQUIRE(begin(INI));
	SAYS(COMPLETE READY);
	SAYS(READY);
	CHECK_TEXT(whole_client_got(near), "C(SELECT 1) Z(I)");
	CHECK(far->is_gone && !near->is_gone);
	end();
}

TEST(unknown_message_type)
{
	REQUIRE(begin(INI));
	SAYS("?\0\0\0\4");
	CHECK(far->is_gone && near->is_gone);
	CHECK_TEXT(whole_client_got(near), "E(08P01 server sent an answer that nothing asked for)");
	end();
}

TEST(invalid_transaction_status)
{
	REQUIRE(begin(INI));
	SAYS(COMPLETE "Z\0\0\0\5?");
	CHECK(far->is_gone && near->is_gone);
	end();
}

TEST(a_transaction_in_statement_mode)
{
	REQUIRE(begin(STATEMENT_INI));
	SAYS(COMPLETE IN_TRANSACTION);
	CHECK(far->is_gone && near->is_gone);
	CHECK(strstr(whole_client_got(near), "C(SELECT 1) E(08P01 "));
	end();
}

/* ---- the end of a server ---- */

/* Earlier answers are sent to the client first. */
TEST(server_disconnects_during_its_answer)
{
	REQUIRE(begin(INI));
	house_send(&whole, far, COMPLETE, sizeof(COMPLETE) - 1);
	house_hang_up(far);
	house_settle(&whole);
	CHECK(near->is_gone);
	CHECK(strncmp(whole_client_got(near), "C(SELECT 1) E(", 14) == 0);
	end();
}

TEST(fatal_error_is_sent_to_the_client)
{
	REQUIRE(begin(INI));
	SAYS(FATAL);
	CHECK_TEXT(whole_client_got(near), "E(57P01 the end)");
	house_hang_up(far);
	house_settle(&whole);
	/* the client already has the reason */
	CHECK_TEXT(whole_client_got(near), "");
	CHECK(near->is_gone);
	end();
}

TEST(fatal_error_without_a_client)
{
	REQUIRE(begin(INI));
	SAYS(COMPLETE READY);
	whole_client_got(near);
	SAYS(FATAL);
	CHECK(far->is_gone && !near->is_gone);
	CHECK_TEXT(whole_client_got(near), "");
	end();
}

/* Sends bytes of an idle server, and handles them without the reap. */
static void idle_server_says(const char *bytes, size_t size)
{
	SAYS(COMPLETE READY);
	house_send(&whole, far, bytes, size);
	relay_from_server(server, true);
}

#define IDLE_SAYS(bytes) idle_server_says(bytes, sizeof(bytes) - 1)

/* A new server probably works after an administrator or a shutdown has ended the last one. */
TEST(sqlstate_of_a_fatal_error_tells_whether_the_server_was_ended)
{
	REQUIRE(begin(INI));
	IDLE_SAYS(FATAL);
	CHECK(server->was_ended);
	CHECK_INT(server->peer.end_reason, REASON_SERVER_CRASHED);
	end();
	REQUIRE(begin(INI));
	IDLE_SAYS("E\0\0\0\34SFATAL\0C58000\0Mthe end\0\0");
	CHECK(!server->was_ended);
	CHECK_INT(server->peer.end_reason, REASON_SERVER_CRASHED);
	end();
}

TEST(unexpected_message_of_an_idle_server)
{
	REQUIRE(begin(INI));
	IDLE_SAYS("T\0\0\0\6\0\0");
	CHECK_INT(server->peer.end_reason, REASON_IDLE_DIRTY);
	CHECK_TEXT(server->peer.end_detail, server->peer.ended_in == SERVER_USED ? "SV_USED" : "SV_IDLE");
	end();
}

UNIT_MAIN
