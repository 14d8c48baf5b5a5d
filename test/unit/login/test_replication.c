/*
 * Replication connections: the replication parameter, the other start-up parameters, and the exclusive link of client and server from queue to end.
 */
#include "login/replication.h"

#include "backend/server_login.h"
#include "conn/world.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "")
#define FAIL_INI WHOLE_INI("pool_size=2", "server_down=fail\n")
#define PAIRS(...) (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)

static struct house_end *end;

static const char *ask(const char *const *pairs, size_t count)
{
	struct bytes out = BYTES_EMPTY;

	end = house_connect(&whole);
	pg_build_startup(&out, 3u << 16, pairs, count);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return whole_client_got(end);
}

/* Returns the replication kind for this value of a welcomed client; -1: the client was refused. */
static int kind_of(const char *value)
{
	const char *told;
	int kind = -1;

	whole_open(INI);
	told = ask(PAIRS("user", "u", "database", "d", "replication", value));
	if (end->is_gone)
		CHECK_TEXT(told, "E(22023 invalid value for startup parameter: replication)");
	else
		kind = whole_last_client()->replication;
	whole_close();
	return kind;
}

TEST(replication_parameter_values)
{
	static const char *const yes[] = { "true", "t", "TRUE", "tr", "yes", "y", "on", "1" };
	static const char *const no[] = { "false", "f", "no", "n", "off", "of", "0" };
	static const char *const other[] = { "", "o", "2", "truee", "databas", "Database", "maybe" };

	CHECK_INT(kind_of("database"), REPLICATION_LOGICAL);
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		CHECK_INT(kind_of(yes[i]), REPLICATION_PHYSICAL);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		CHECK_INT(kind_of(no[i]), REPLICATION_NONE);
	/* an empty value is not an abbreviation of a boolean word */
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		CHECK_INT(kind_of(other[i]), -1);
}

TEST(server_is_exclusive)
{
	struct house_end *first, *plain;
	struct client *c;
	struct server *s;

	whole_open(INI);
	CHECK(strstr(ask(PAIRS("user", "u", "database", "d", "replication", "database")), " Z(I)"));
	first = end;
	c = whole_last_client();
	s = whole_last_server();
	REQUIRE(c->pooled.link == &s->pooled);
	CHECK(c->pooled.dedicated != 0 && s->pooled.dedicated == c->pooled.dedicated);
	CHECK_INT(s->replication, REPLICATION_LOGICAL);
	CHECK(!c->shares_server);
	/* the client keeps its server between commands */
	CHECK_TEXT(whole_ask(first, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	CHECK(c->pooled.link == &s->pooled);
	/* another client gets another server */
	REQUIRE(whole_login(&plain));
	CHECK_TEXT(whole_ask(plain, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	CHECK(c->pooled.link == &s->pooled);
	/* client and server end together */
	house_hang_up(first);
	house_settle(&whole);
	CHECK_INT(whole.world->pools->clients, 1);
	LIST_EACH(node, &whole.world->servers)
		CHECK_INT(LIST_OBJECT(node, struct server, peer.node)->pooled.dedicated, 0);
	whole_close();
}

TEST(parameters_are_forwarded_unchanged)
{
	static const char want[] = "work_mem\0" "64kB\0" "options\0" "-c a=b";
	struct bytes got;

	whole_open(INI);
	CHECK(strstr(ask(PAIRS("user", "u", "database", "d", "replication", "database", "work_mem", "64kB", "options", "-c a=b")), " Z(I)"));
	got = house_server(&whole)->got;
	CHECK(memmem(bytes_front(&got), bytes_size(&got), "replication\0database", 21));
	/* `options` is processed before the other parameters */
	CHECK(memmem(bytes_front(&got), bytes_size(&got), want, 14));
	CHECK(memmem(bytes_front(&got), bytes_size(&got), want + 14, 15));
	whole_close();
}

TEST(many_parameters)
{
	const char *pairs[6 + 2 * (REPLICATION_PAIRS + 1)] = { "user", "u", "database", "d", "replication", "true" };
	static char names[REPLICATION_PAIRS + 1][16];

	for (int i = 0; i <= REPLICATION_PAIRS; i++) {
		snprintf(names[i], sizeof(names[i]), "a.p%d", i);
		pairs[6 + 2 * i] = names[i];
		pairs[7 + 2 * i] = "1";
	}
	whole_open(INI);
	CHECK(strstr(ask(pairs, 6 + 2 * REPLICATION_PAIRS), " Z(I)"));
	CHECK_TEXT(ask(pairs, 8 + 2 * REPLICATION_PAIRS), "E(08P01 unsupported startup parameter: a.p32)");
	whole_close();
}

TEST(out_of_memory_for_a_parameter)
{
	struct client *c;

	whole_open(INI);
	end = house_connect(&whole);
	c = whole_last_client();
	whole_memory_ends(0);
	CHECK(!replication_keep(c, "a", "b"));
	CHECK(whole_memory_is_back() > 0);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(53200 out of memory)");
	whole_close();
}

/* The server refuses the login: the client gets the error message, and the pool's other clients do not. */
TEST(server_refuses_the_login)
{
	struct bytes out = BYTES_EMPTY;
	struct house_end *other;

	whole_open(INI);
	REQUIRE(whole_login(&other));
	whole.servers_answer = false;
	CHECK_TEXT(ask(PAIRS("user", "u", "database", "d", "replication", "database")), "");
	CHECK_INT(whole_last_client()->pooled.state, CLIENT_WAITING);
	pg_build_error(&out, "FATAL", "28000", "no walsender for you", NULL, NULL);
	house_send(&whole, house_server(&whole), bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	CHECK(end->is_gone);
	CHECK_TEXT(whole_client_got(end), "E(28000 no walsender for you)");
	CHECK_TEXT(whole_ask(other, "SELECT 1"), "T D C(SELECT 1) Z(I)");
	whole_close();
}

/* A temporary failure: the client waits for the next attempt, unless server_down = fail. */
static bool waits_after(const char *ini)
{
	bool waits;

	whole_open(ini);
	whole.servers_answer = false;
	ask(PAIRS("user", "u", "database", "d", "replication", "database"));
	house_hang_up(house_server(&whole));
	house_settle(&whole);
	waits = !end->is_gone;
	whole_close();
	return waits;
}

TEST(server_is_unavailable)
{
	CHECK(waits_after(INI));
	CHECK(!waits_after(FAIL_INI));
}

UNIT_MAIN
