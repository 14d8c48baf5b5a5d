/*
 * The unnamed statement on a server that clients share: the messages to the server for a client's Bind after another client has used the server's
 * unnamed statement.
 */
#include "prepared/prepared.h"

#include "two_clients.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")
#define TOO_LONG (READ_BUFFER + 1)

static void prepare(struct house_end *end, const char *text)
{
	send_parse(end, "", text);
	send_sync(end);
	whole_client_got(end);
	whole_server_got(server);
}

/* Returns the messages to the server for a client's Bind. */
static const char *use(struct house_end *end)
{
	send_run(end, "");
	return whole_server_got(server);
}

TEST(unnamed_statement_of_one_client)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	CHECK_TEXT(use(one), "B(/) E() S");
	CHECK_TEXT(use(one), "B(/) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I) 2 D C(SELECT 1) Z(I)");
	whole_close();
}

/* Parse is sent again, and the client does not see its answer. */
TEST(another_client_has_prepared)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	prepare(two, "SELECT 2");
	CHECK_TEXT(use(one), "P(/SELECT 1) D(S/) B(/) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	CHECK_TEXT(use(one), "B(/) E() S");
	CHECK_TEXT(use(two), "P(/SELECT 2) D(S/) B(/) E() S");
	whole_close();
}

TEST(another_client_has_run_a_query)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	whole_ask(two, "SELECT 2");
	whole_server_got(server);
	CHECK_TEXT(use(one), "P(/SELECT 1) D(S/) B(/) E() S");
	whole_close();
}

/* A Query ends the unnamed statement: the server reports that there is none. */
TEST(query_ends_the_unnamed_statement)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	whole_ask(one, "SELECT 2");
	prepare(two, "SELECT 3");
	CHECK_TEXT(use(one), "C(S/) B(/) E() S");
	CHECK(strstr(whole_client_got(one), "E("));
	/* the client does not get the other client's statement either */
	CHECK_TEXT(use(two), "P(/SELECT 3) D(S/) B(/) E() S");
	whole_close();
}

TEST(client_does_not_get_the_statement_of_another)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	CHECK_TEXT(use(two), "C(S/) B(/) E() S");
	CHECK(strstr(whole_client_got(two), "E("));
	whole_close();
}

TEST(close_ends_the_unnamed_statement)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	whole_say(one, 'C', "S\0", 2);
	whole_say(one, 'S', NULL, 0);
	CHECK_TEXT(whole_server_got(server), "C(S/) S");
	prepare(two, "SELECT 2");
	CHECK_TEXT(use(one), "C(S/) B(/) E() S");
	whole_close();
}

/* PostgreSQL drops the statement before it parses the new text. */
TEST(failed_parse)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	prepare(one, "ERROR");
	prepare(two, "SELECT 2");
	use(one);
	CHECK(strstr(whole_client_got(one), "E("));
	CHECK_TEXT(use(two), "P(/SELECT 2) D(S/) B(/) E() S");
	whole_close();
}

TEST(text_too_long_to_keep)
{
	static char text[TOO_LONG + 1];

	REQUIRE(begin_with(INI));
	memset(text, 'x', TOO_LONG);
	prepare(one, text);
	CHECK_TEXT(use(one), "B(/) E() S");
	prepare(two, "SELECT 2");
	CHECK_TEXT(use(one), "C(S/) B(/) E() S");
	whole_close();
}

TEST(last_text_is_used)
{
	REQUIRE(begin_with(INI));
	prepare(one, "SELECT 1");
	prepare(one, "SELECT 3");
	prepare(two, "SELECT 2");
	CHECK_TEXT(use(one), "P(/SELECT 3) D(S/) B(/) E() S");
	whole_close();
}

UNIT_MAIN
