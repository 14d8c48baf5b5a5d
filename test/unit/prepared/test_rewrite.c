/* Messages to a server about prepared statements: headers and names, evictions, and statements in doubt. */
#include "prepared/rewrite.h"

#include "base/bytes.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "max_prepared_statements=2\n")
#define PARSE(name, text) whole_say(near, 'P', name "\0" text "\0\0", sizeof(name "\0" text "\0\0"))
#define SYNC() whole_say(near, 'S', "", 0)

static struct house_end *near, *far;
static struct client *client;
static struct server *server;
static struct prepared_request x;

/* A client in a transaction that has prepared "a" and "b", as many as its server may have. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server)
		return false;
	PARSE("a", "one");
	PARSE("b", "two");
	SYNC();
	CHECK_TEXT(whole_client_got(near), "1 1 Z(T)");
	whole_server_got(far);
	x = (struct prepared_request){ .c = client, .s = server, .pc = client->prepared, .ps = server->prepared };
	return x.pc && x.ps;
}

static struct prepared_name *name(const char *text)
{
	return name_find(x.pc, text, strlen(text) + 1);
}

static struct prepared_entry *entry(const char *text)
{
	return entry_find(x.ps, name(text)->sent);
}

TEST(message_header)
{
	uint8_t to[PG_HEADER] = { 0 };
	struct unpack in = unpack_of(to, sizeof(to));

	message_header(to, 'P', 0x01020304);
	CHECK_INT(unpack_u8(&in), 'P');
	/* the length includes itself */
	CHECK_INT(unpack_u32(&in), 0x01020308);
}

TEST(place_of_a_database)
{
	uint64_t place;

	REQUIRE(begin());
	place = request_place(&x);
	CHECK(place != 0 && place == request_place(&x));
	client->pooled.pool->database->statements = 0;
	CHECK(request_place(&x) != place && request_place(&x) != 0);
	CHECK(request_world(&x) == whole.world);
	whole_close();
}

TEST(statements_in_doubt)
{
	REQUIRE(begin());
	CHECK(!request_name_in_doubt(&x, NULL) && !request_entry_in_doubt(&x, NULL));
	name("a")->in_flight = entry("a")->in_flight = 1;
	name("a")->batch = entry("a")->batch = server->batch;
	/* in the same batch nothing is in doubt: an error skips the later messages as well */
	CHECK(!request_name_in_doubt(&x, name("a")) && !request_entry_in_doubt(&x, entry("a")));
	name("a")->batch = entry("a")->batch = server->batch - 1;
	CHECK(request_name_in_doubt(&x, name("a")) && request_entry_in_doubt(&x, entry("a")));
	name("a")->in_flight = entry("a")->in_flight = 0;
	CHECK(!request_name_in_doubt(&x, name("a")) && !request_entry_in_doubt(&x, entry("a")));
	whole_close();
}

TEST(known_statements)
{
	struct prepared_entry *e;

	REQUIRE(begin());
	e = entry("a");
	CHECK(!entry_is_usable(NULL) && entry_is_usable(e));
	entry_confirm(x.ps, e, true, PARSE_INVALID);
	CHECK(!entry_is_usable(e));
	e->in_flight = 1;
	CHECK(entry_is_usable(e));
	e->in_flight = 0;
	entry_confirm(x.ps, e, true, PARSE_VALID);
	whole_close();
}

/* A third statement replaces the least recently used. */
TEST(least_recently_used_statement_is_evicted)
{
	uint64_t first;

	REQUIRE(begin());
	first = name("a")->sent->number;
	PARSE("c", "three");
	SYNC();
	CHECK_TEXT(whole_client_got(near), "1 Z(T)");
	CHECK(strstr(whole_server_got(far), "C(S/"));
	CHECK_INT(prepared_server_count(server), 2);
	CHECK(!entry("a") && entry("b") && entry("c"));
	/* the client still has the name, and the statement is prepared on the server again */
	CHECK_INT(name("a")->sent->number, first);
	whole_say(near, 'B', "\0a\0\0\0\0\0\0\0", 9);
	SYNC();
	CHECK_TEXT(whole_client_got(near), "2 Z(T)");
	CHECK(entry("a") && !entry("b") && entry("c"));
	whole_close();
}

UNIT_MAIN
