/* SQL that names prepared statements of the protocol, on a server that clients share: the messages to the server and to the client. */
#include "prepared/prepared.h"

#include "two_clients.h"
#include "unit.h"
#include "whole.h"

#include <string.h>

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")

static void prepare(struct house_end *end, const char *name, const char *text)
{
	send_parse(end, name, text);
	send_sync(end);
	CHECK_TEXT(whole_client_got(end), "1 Z(I)");
	whole_server_got(server);
}

static void ask(struct house_end *end, const char *text)
{
	whole_say(end, 'Q', text, strlen(text) + 1);
}

/* The server deallocates an empty statement, and keeps the original for other clients. */
TEST(deallocate)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	prepare(two, "a", "SELECT 1");
	ask(one, "DEALLOCATE a");
	CHECK_TEXT(server_got(), "C(S/#gone0) P(#gone0/) S Q(DEALLOCATE \"#gone0\")");
	CHECK_TEXT(whole_client_got(one), "C(DEALLOCATE) Z(I)");
	send_run(one, "a");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	send_run(two, "a");
	CHECK_TEXT(whole_client_got(two), "2 D C(SELECT 1) Z(I)");
	whole_server_got(server);
	/* the client no longer has a statement of this name */
	ask(one, "DEALLOCATE \"a\"");
	CHECK_TEXT(server_got(), "Q(DEALLOCATE \"a\")");
	CHECK_TEXT(whole_client_got(one), "E(26000 DEALLOCATE \"a\") Z(I)");
	whole_close();
}

/* The server has the statement, or gets its Parse. */
TEST(execute)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	ask(one, "EXECUTE a");
	CHECK_TEXT(server_got(), "S Q(EXECUTE \"#2\")");
	CHECK_TEXT(whole_client_got(one), "T D C(SELECT 1) Z(I)");
	ask(two, "DEALLOCATE ALL");
	whole_client_got(two);
	whole_server_got(server);
	ask(one, "EXECUTE a");
	CHECK_TEXT(server_got(), "P(#2/SELECT 1) D(S/#2) S S Q(EXECUTE \"#2\")");
	CHECK_TEXT(whole_client_got(one), "T D C(SELECT 1) Z(I)");
	whole_close();
}

TEST(in_a_failed_transaction)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	ask(one, "BEGIN");
	ask(one, "ERROR");
	whole_client_got(one);
	whole_server_got(server);
	ask(one, "DEALLOCATE a");
	CHECK_TEXT(server_got(), "Q(DEALLOCATE a)");
	CHECK(strstr(whole_client_got(one), "25P02"));
	ask(one, "COMMIT");
	whole_client_got(one);
	send_run(one, "a");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	whole_close();
}

/* In the extended protocol the client's Sync ends the inserted messages. The portal takes the name away. */
TEST(extended)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	send_parse(one, "", "DEALLOCATE a");
	send_run(one, "");
	CHECK_TEXT(server_got(), "C(S/#gone0) P(#gone0/) P(/DEALLOCATE \"#gone0\") B(/) E() S");
	CHECK_TEXT(whole_client_got(one), "1 2 C(DEALLOCATE) Z(I)");
	send_run(one, "a");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	whole_close();
}

/* The text of a statement is parsed again, with the current meaning of the names in it. */
TEST(statement_that_names_another)
{
	REQUIRE(begin_with(INI));
	prepare(one, "a", "SELECT 1");
	prepare(one, "e", "EXECUTE a");
	ask(one, "DEALLOCATE a");
	CHECK_TEXT(whole_client_got(one), "C(DEALLOCATE) Z(I)");
	prepare(one, "a", "SELECT 2");
	send_run(one, "e");
	CHECK_TEXT(server_got(), "C(S/#3) P(#3/EXECUTE \"#4\") B(/#3) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	whole_close();
}

UNIT_MAIN
