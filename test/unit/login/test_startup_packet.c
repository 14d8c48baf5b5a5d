/*
 * Start-up packets: names, application_name_add_host, incomplete packets, a shutdown, lack of memory. test/wire/test_startup.py, test_protocol.py and
 * test_packets.py have the other packets.
 */
#include "login/startup_packet.h"

#include "conn/world.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("", "ignore_startup_parameters=extra_float_digits,geqo_seed\n")
#define HOST_INI WHOLE_INI("", "application_name_add_host=1\n")
#define V3(minor) (3u << 16 | (minor))
#define PAIRS(...) (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)

static struct house_end *end;

static void connect_anew(void)
{
	end = house_connect(&whole);
	CHECK(end);
}

static void say(const void *bytes, size_t size)
{
	house_send(&whole, end, bytes, size);
	house_settle(&whole);
}

static const char *ask(uint32_t version, const char *const *pairs, size_t count)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, version, pairs, count);
	say(bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return whole_client_got(end);
}

/* Connects, sends this start-up packet, and returns the error message; the connection is closed. */
static const char *refused(uint32_t version, const char *const *pairs, size_t count)
{
	const char *told;

	connect_anew();
	told = ask(version, pairs, count);
	CHECK(end->is_gone);
	return told;
}

/* Connects a client whose start-up packet is accepted. */
static struct client *let_in(uint32_t version, const char *const *pairs, size_t count)
{
	const char *told;

	connect_anew();
	told = ask(version, pairs, count);
	CHECK(!end->is_gone && strstr(told, " Z(I)"));
	return end->is_gone ? NULL : whole_last_client();
}

/* ---- names ---- */

TEST(user_and_database_names)
{
	struct client *c;

	whole_open(INI);
	CHECK_TEXT(refused(V3(0), PAIRS("database", "d")), "E(28000 no username supplied)");
	CHECK_TEXT(refused(V3(0), PAIRS("user", "", "database", "d")), "E(28000 no username supplied)");
	/* without a database name, the database is the user name */
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u")), "E(3D000 no such database: u)");
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", "")), "E(3D000 no such database: u)");
	c = let_in(V3(0), PAIRS("user", "d"));
	REQUIRE(c);
	CHECK_TEXT(c->pooled.pool->database->name, "d");
	whole_close();
}

TEST(names_are_truncated_as_in_postgresql)
{
	char name[1100], cut[64];
	struct client *c;

	whole_open(INI);
	memset(name, 'n', sizeof(name));
	memset(cut, 'n', sizeof(cut));
	cut[63] = name[1024] = 0;
	c = let_in(V3(0), PAIRS("user", name, "database", "d"));
	REQUIRE(c);
	CHECK_TEXT(c->pooled.login_user->name, cut);
	name[1024] = 'n';
	name[1025] = 0;
	CHECK_TEXT(refused(V3(0), PAIRS("user", name, "database", "d")), "E(22023 invalid value for startup parameter: user)");
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", name)), "E(22023 invalid value for startup parameter: database)");
	whole_close();
}

/* ---- parameters ---- */

TEST(application_name_with_host)
{
	struct client *c;

	whole_open(HOST_INI);
	c = let_in(V3(0), PAIRS("user", "u", "database", "d", "application_name", "a"));
	REQUIRE(c);
	CHECK_TEXT(params_get(c->params, PARAM_APPLICATION_NAME), "a - 127.0.0.1:40000");
	c = let_in(V3(0), PAIRS("user", "u", "database", "d"));
	REQUIRE(c);
	CHECK(strncmp(params_get(c->params, PARAM_APPLICATION_NAME), "app - 127.0.0.1:4000", 20) == 0);
	whole_close();
}

/* ---- incomplete packets ---- */

TEST(incomplete_packet_is_not_processed)
{
	struct bytes out = BYTES_EMPTY;
	struct client *c;

	whole_open(INI);
	connect_anew();
	c = whole_last_client();
	pg_build_startup(&out, V3(0), PAIRS("user", "u", "database", "d"));
	for (size_t n = 1; n < bytes_size(&out); n++) {
		CHECK_INT(startup_packet(c, bytes_front(&out), n), 0);
		CHECK(!peer_is_stopped(&c->peer) && c->pooled.state == CLIENT_STARTUP);
	}
	bytes_append_text(&out, "more");
	CHECK_INT(startup_packet(c, bytes_front(&out), bytes_size(&out)), bytes_size(&out) - 4);
	bytes_free(&out);
	house_settle(&whole);
	CHECK(!end->is_gone);
	whole_close();
}

TEST(shutdown)
{
	whole_open(INI);
	whole.world->drain.step = DRAIN_WAIT_SERVERS;
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", "d")), "E(57P01 pooler is shutting down)");
	/* a client that connected before the shutdown is waited for */
	whole.world->drain.step = DRAIN_WAIT_CLIENTS;
	whole.world->drain.since = whole.world->now;
	CHECK(let_in(V3(0), PAIRS("user", "u", "database", "d")));
	whole_close();
}

/* Each allocation fails once: the client is welcomed all the same, or gets an error message. */
TEST(out_of_memory)
{
	static const char *const pairs[] = { "user", "u", "database", "d", "DateStyle", "German", "options", "-c TimeZone=UTC", "_pq_.a", "1" };
	int ended = 0, failed = 1;

	for (int more = 0; failed > 0; more++) {
		struct bytes out = BYTES_EMPTY;

		whole_open(INI);
		CHECK(let_in(V3(0), PAIRS("user", "u", "database", "d")));
		connect_anew();
		pg_build_startup(&out, V3(0), pairs, sizeof(pairs) / sizeof(pairs[0]));
		whole_memory_ends(more);
		startup_packet(whole_last_client(), bytes_front(&out), bytes_size(&out));
		failed = whole_memory_is_back();
		bytes_free(&out);
		house_settle(&whole);
		if (end->is_gone) {
			ended++;
			CHECK(strstr(whole_client_got(end), " out of memory)"));
		} else {
			CHECK(strstr(whole_client_got(end), " Z(I)"));
		}
		whole_close();
	}
	CHECK(ended > 5);
}

UNIT_MAIN
