/*
 * Named statements on a server that clients share: the messages to the server for a client's Parse, Bind, Describe and Close, and the answers to the
 * client.
 */
#include "prepared/prepared.h"

#include "sql/statement.h"
#include "two_clients.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=2\n")
#define SMALL_INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\nmax_prepared_memory=4096\n")

static void about(struct house_end *end, uint8_t type, const char *name)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_u8(&body, 'S');
	bytes_append_text(&body, name);
	bytes_append_u8(&body, 0);
	whole_say(end, type, bytes_front(&body), bytes_size(&body));
	bytes_free(&body);
}

/* Sends Parse and Sync. Returns the messages to the server. */
static const char *prepare(struct house_end *end, const char *name, const char *text)
{
	send_parse(end, name, text);
	send_sync(end);
	return server_got();
}

/* Sends Bind, Execute and Sync. Returns the messages to the server. */
static const char *use(struct house_end *end, const char *name)
{
	send_run(end, name);
	return server_got();
}

TEST(server_side_statement_name)
{
	REQUIRE(begin_with(INI));
	CHECK_TEXT(prepare(one, "a", "SELECT 1"), "P(#2/SELECT 1) D(S/#2) S");
	CHECK_TEXT(whole_client_got(one), "1 Z(I)");
	CHECK_TEXT(use(one, "a"), "B(/#2) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	about(one, 'D', "a");
	send_sync(one);
	CHECK_TEXT(server_got(), "D(S/#2) S");
	whole_client_got(one);
	whole_close();
}

/* The server has the text already: the server gets no Parse, and the client gets ParseComplete. */
TEST(clients_share_a_statement)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	CHECK_TEXT(prepare(two, "b", "SELECT 1"), "S");
	CHECK_TEXT(whole_client_got(two), "1 Z(I)");
	CHECK_TEXT(use(two, "b"), "B(/#2) E() S");
	CHECK_TEXT(whole_client_got(two), "2 D C(SELECT 1) Z(I)");
	/* a name belongs to one client */
	CHECK_TEXT(use(two, "a"), "B(/#0) E() S");
	CHECK_TEXT(whole_client_got(two), "E(26000 prepared statement does not exist) Z(I)");
	whole_close();
}

/* In a failed transaction the server refuses Parse, even of a known statement. */
TEST(known_statement_in_a_failed_transaction)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	whole_ask(two, "BEGIN");
	whole_ask(two, "ERROR");
	whole_server_got(server);
	CHECK_TEXT(prepare(two, "b", "SELECT 1"), "C(S/#2) P(#2/SELECT 1) D(S/#2) S");
	whole_client_got(two);
	whole_close();
}

/* The client gets the server's error for a name in use; the existing statement is unchanged. */
TEST(name_in_use)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	whole_client_got(one);
	CHECK_TEXT(prepare(one, "a", "SELECT 2"), "C(S/#again) P(#again/) P(#again/SELECT 2) S");
	CHECK_TEXT(whole_client_got(one), "E(42P05 prepared statement already exists) Z(I)");
	CHECK_TEXT(use(one, "a"), "B(/#2) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	whole_close();
}

TEST(unknown_name)
{
	REQUIRE(begin_with(INI));
	CHECK_TEXT(use(one, "a"), "B(/#0) E() S");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	about(one, 'D', "a");
	send_sync(one);
	CHECK_TEXT(server_got(), "D(S/#0) S");
	CHECK_TEXT(whole_client_got(one), "E(26000 it does not exist) Z(I)");
	whole_close();
}

/* PREPARE may have created the statement in this transaction. */
TEST(name_that_sql_prepare_may_have_made)
{
	REQUIRE(begin_with(INI));
	whole_ask(one, "BEGIN");
	whole_server_got(server);
	CHECK_TEXT(use(one, "a"), "B(/a) E() S");
	whole_client_got(one);
	whole_ask(one, "COMMIT");
	whole_server_got(server);
	/* except names of pgweir */
	whole_ask(one, "BEGIN");
	whole_server_got(server);
	prepare(two, "x", "SELECT 1");
	CHECK_TEXT(use(one, "PGWEIR_1"), "B(/#0) E() S");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(E)");
	whole_close();
}

/* After the first error of a batch, the server skips the other messages. */
TEST(unknown_names_in_one_batch)
{
	static const char batch[] = "B\0\0\0\15\0a\0\0\0\0\0\0\0" "B\0\0\0\15\0b\0\0\0\0\0\0\0" "S\0\0\0\4";

	REQUIRE(begin_with(INI));
	house_send(&whole, one, batch, sizeof(batch) - 1);
	house_settle(&whole);
	CHECK_TEXT(server_got(), "B(/#0) B(/#0) S");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	whole_close();
}

TEST(close_message)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	prepare(two, "a", "SELECT 1");
	whole_client_got(one);
	whole_client_got(two);
	about(one, 'C', "a");
	about(one, 'C', "never");
	send_sync(one);
	CHECK_TEXT(server_got(), "S");
	CHECK_TEXT(whole_client_got(one), "3 3 Z(I)");
	CHECK_TEXT(use(one, "a"), "B(/#0) E() S");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	/* the statement of the other client is unchanged */
	CHECK_TEXT(use(two, "a"), "B(/#2) E() S");
	CHECK_TEXT(whole_client_got(two), "2 D C(SELECT 1) Z(I)");
	/* the name is free */
	CHECK_TEXT(prepare(one, "a", "SELECT 2"), "P(#3/SELECT 2) D(S/#3) S");
	CHECK_TEXT(whole_client_got(one), "1 Z(I)");
	whole_close();
}

/* The names of the client are known only after the answer. */
TEST(deallocate_all_in_flight)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	whole_client_got(one);
	whole.holds_answers = true;
	whole_query(one, "DEALLOCATE ALL");
	CHECK_TEXT(server_got(), "Q(DEALLOCATE ALL)");
	CHECK_TEXT(use(one, "a"), "H");
	whole.holds_answers = false;
	house_settle(&whole);
	CHECK_TEXT(server_got(), "B(/#0) E() S");
	CHECK_TEXT(whole_client_got(one), "C(DEALLOCATE ALL) Z(I) E(26000 prepared statement does not exist) Z(I)");
	whole_close();
}

/* max_prepared_statements is 2: the third statement replaces the least recently used, which is prepared again when needed. */
TEST(server_statement_limit)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	prepare(one, "b", "SELECT 2");
	use(one, "a");
	CHECK_TEXT(prepare(one, "c", "SELECT 3"), "C(S/#3) P(#4/SELECT 3) D(S/#4) S");
	whole_client_got(one);
	CHECK_TEXT(use(one, "a"), "B(/#2) E() S");
	CHECK_TEXT(use(one, "b"), "C(S/#4) P(#3/SELECT 2) D(S/#3) H B(/#3) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I) 2 D C(SELECT 1) Z(I)");
	whole_close();
}

TEST(client_statement_limit)
{
	static char text[4096];

	REQUIRE(begin_with(SMALL_INI));
	memset(text, 'x', sizeof(text) - 1);
	send_parse(one, "a", text);
	CHECK(one->is_gone);
	CHECK_TEXT(whole_client_got(one), "E(08P01 prepared statements of one client take too much memory (max_prepared_memory))");
	CHECK_TEXT(server_got(), "");
	whole_close();
}

/* The malformed body is forwarded unchanged: the server reports the error. */
TEST(malformed_body)
{
	REQUIRE(begin_with(INI));
	whole_say(one, 'P', "a\0SELECT 1\0\0\1", 13);
	send_sync(one);
	CHECK_TEXT(server_got(), "P(a/SELECT 1) S");
	whole_client_got(one);
	CHECK_TEXT(use(one, "a"), "B(/#0) E() S");
	whole_close();
}

UNIT_MAIN
