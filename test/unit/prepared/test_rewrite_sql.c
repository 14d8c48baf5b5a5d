/* SQL that names prepared statements of the protocol, on a server that clients share: the messages to the server and to the client. */
#include "prepared/prepared.h"

#include "unit.h"
#include "whole.h"

#include <string.h>

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=10\n")

static struct house_end *one, *two, *server;

static bool begin(void)
{
	whole_open(INI);
	CHECK(whole_login(&one) && whole_login(&two));
	server = house_server(&whole);
	CHECK(server);
	if (server)
		whole_server_got(server);
	return server;
}

/* Returns the messages to the server: "#" is the prefix of pgweir's statement names. */
static const char *server_got(void)
{
	static char text[1000];
	const char *from = whole_server_got(server);
	char *to = text;

	while (*from && to < text + sizeof(text) - 1)
		if (strncmp(from, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) == 0 && strchr(from + strlen(STATEMENT_PREFIX), '_')) {
			*to++ = '#';
			from = strchr(from + strlen(STATEMENT_PREFIX), '_') + 1;
		} else {
			*to++ = *from++;
		}
	*to = 0;
	return text;
}

static void parse(struct house_end *end, const char *name, const char *text)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_text(&body, name);
	bytes_append_u8(&body, 0);
	bytes_append_text(&body, text);
	bytes_append(&body, "\0\0\0", 3);
	whole_say(end, 'P', bytes_front(&body), bytes_size(&body));
	bytes_free(&body);
}

static void send_bind(struct house_end *end, const char *name)
{
	struct bytes body = BYTES_EMPTY;

	bytes_append_u8(&body, 0);
	bytes_append_text(&body, name);
	bytes_append(&body, "\0\0\0\0\0\0\0", 7);
	whole_say(end, 'B', bytes_front(&body), bytes_size(&body));
	bytes_free(&body);
}

static void run(struct house_end *end, const char *name)
{
	send_bind(end, name);
	whole_say(end, 'E', "\0\0\0\0\0", 5);
	whole_say(end, 'S', NULL, 0);
}

static void prepare(struct house_end *end, const char *name, const char *text)
{
	parse(end, name, text);
	whole_say(end, 'S', NULL, 0);
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
	REQUIRE(begin());
	prepare(one, "a", "SELECT 1");
	prepare(two, "a", "SELECT 1");
	ask(one, "DEALLOCATE a");
	CHECK_TEXT(server_got(), "C(S/#gone0) P(#gone0/) S Q(DEALLOCATE \"#gone0\")");
	CHECK_TEXT(whole_client_got(one), "C(DEALLOCATE) Z(I)");
	run(one, "a");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	run(two, "a");
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
	REQUIRE(begin());
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
	REQUIRE(begin());
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
	run(one, "a");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	whole_close();
}

/* In the extended protocol the client's Sync ends the inserted messages. The portal takes the name away. */
TEST(extended)
{
	REQUIRE(begin());
	prepare(one, "a", "SELECT 1");
	parse(one, "", "DEALLOCATE a");
	run(one, "");
	CHECK_TEXT(server_got(), "C(S/#gone0) P(#gone0/) P(/DEALLOCATE \"#gone0\") B(/) E() S");
	CHECK_TEXT(whole_client_got(one), "1 2 C(DEALLOCATE) Z(I)");
	run(one, "a");
	CHECK_TEXT(whole_client_got(one), "E(26000 prepared statement does not exist) Z(I)");
	whole_close();
}

/* The text of a statement is parsed again, with the current meaning of the names in it. */
TEST(statement_that_names_another)
{
	REQUIRE(begin());
	prepare(one, "a", "SELECT 1");
	prepare(one, "e", "EXECUTE a");
	ask(one, "DEALLOCATE a");
	CHECK_TEXT(whole_client_got(one), "C(DEALLOCATE) Z(I)");
	prepare(one, "a", "SELECT 2");
	run(one, "e");
	CHECK_TEXT(server_got(), "C(S/#3) P(#3/EXECUTE \"#4\") B(/#3) E() S");
	CHECK_TEXT(whole_client_got(one), "2 D C(SELECT 1) Z(I)");
	whole_close();
}

UNIT_MAIN
