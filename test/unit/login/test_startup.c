/*
 * Start-up packets: accepted and refused packets with their error messages, each encryption request once, and no processing of an incomplete packet.
 */
#include "login/startup.h"

#include "conn/world.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("", "ignore_startup_parameters=extra_float_digits,geqo_seed\n")
#define HOST_INI WHOLE_INI("", "application_name_add_host=1\n")
#define TLS_INI "[databases]\nd = " HOUSE_SERVER HOUSE_SETTINGS_SSL "client_tls_sslmode=require\nclient_tls_cert_file=cert\n" \
	"client_tls_key_file=key\nauth_type=any\n"
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

TEST(parameters)
{
	struct client *c;

	whole_open(INI);
	c = let_in(V3(0), PAIRS("user", "u", "database", "d", "DateStyle", "German", "application_name", "a", "extra_float_digits", "2"));
	REQUIRE(c);
	CHECK_TEXT(params_get(c->params, PARAM_DATESTYLE), "German, DMY");
	CHECK_TEXT(params_get(c->params, PARAM_APPLICATION_NAME), "a");
	whole_close();
}

TEST(last_value_of_a_parameter_applies)
{
	struct client *c;

	whole_open(INI);
	c = let_in(V3(0), PAIRS("user", "v", "DateStyle", "SQL", "database", "d", "user", "u", "DateStyle", "German, DMY"));
	REQUIRE(c);
	CHECK_TEXT(c->pooled.login_user->name, "u");
	CHECK_TEXT(params_get(c->params, PARAM_DATESTYLE), "German, DMY");
	whole_close();
}

TEST(options)
{
	struct client *c;

	whole_open(INI);
	c = let_in(V3(0), PAIRS("user", "u", "database", "d", "options", "-c DateStyle=SQL --application-name=o\\ p -c geqo_seed=1"));
	REQUIRE(c);
	CHECK_TEXT(params_get(c->params, PARAM_DATESTYLE), "SQL, MDY");
	CHECK_TEXT(params_get(c->params, PARAM_APPLICATION_NAME), "o p");
	/* a parameter overrides `options`, in any order */
	c = let_in(V3(0), PAIRS("user", "u", "database", "d", "DateStyle", "German", "options", "-c DateStyle=SQL"));
	REQUIRE(c);
	CHECK_TEXT(params_get(c->params, PARAM_DATESTYLE), "German, DMY");
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", "d", "options", "-d 5")),
		   "E(08P01 unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed)");
	whole_close();
}

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

/* ---- versions ---- */

TEST(versions)
{
	struct client *c;

	whole_open(INI);
	c = let_in(V3(0), PAIRS("user", "u", "database", "d"));
	CHECK(c && c->minor == 0);
	c = let_in(V3(2), PAIRS("user", "u", "database", "d"));
	CHECK(c && c->minor == 2);
	CHECK_TEXT(refused(2u << 16, PAIRS("user", "u", "database", "d")), "E(08P01 old V2 protocol not supported)");
	CHECK_TEXT(refused(4u << 16 | 5, PAIRS("user", "u", "database", "d")), "E(08P01 unsupported protocol version 4.5)");
	whole_close();
}

/* Returns the body of NegotiateProtocolVersion, which comes before all other messages. */
static struct pg_frame negotiated(uint32_t version, const char *const *pairs, size_t count)
{
	struct pg_frame f = { .type = 0 };

	connect_anew();
	ask(version, pairs, count);
	CHECK_INT(pg_frame_look(bytes_front(&end->got), bytes_size(&end->got), 1000, &f), PG_OK);
	return f;
}

TEST(unsupported_version_and_options_are_negotiated)
{
	static const char newest[] = "\0\3\0\2\0\0\0\0", options[] = "\0\3\0\0\0\0\0\2_pq_.a\0_pq_.bb";
	struct pg_frame f;

	whole_open(INI);
	f = negotiated(V3(9), PAIRS("user", "u", "database", "d"));
	CHECK_INT(f.type, 'v');
	CHECK(f.size == 8 && memcmp(f.body, newest, 8) == 0);
	/* each unknown option is listed */
	f = negotiated(V3(0), PAIRS("_pq_.a", "1", "user", "u", "_pq_.bb", "2", "database", "d"));
	CHECK_INT(f.type, 'v');
	CHECK(f.size == sizeof(options) && memcmp(f.body, options, sizeof(options)) == 0);
	f = negotiated(V3(0), PAIRS("user", "u", "database", "d"));
	CHECK_INT(f.type, 'R');
	whole_close();
}

/* ---- requests ---- */

static const uint8_t ssl[] = { 0, 0, 0, 8, 4, 210, 22, 47 }, gss[] = { 0, 0, 0, 8, 4, 210, 22, 48 };

/* Returns the answer to an encryption request. */
static char answer_to(const uint8_t *request)
{
	struct bytes news;

	say(request, 8);
	news = house_news(end);
	return bytes_size(&news) == 1 ? (char)*bytes_front(&news) : '?';
}

TEST(each_encryption_request_is_allowed_once)
{
	whole_open(INI);
	connect_anew();
	CHECK_INT(answer_to(ssl), 'N');
	CHECK_INT(answer_to(gss), 'N');
	CHECK(strstr(ask(V3(0), PAIRS("user", "u", "database", "d")), " Z(I)"));
	connect_anew();
	CHECK_INT(answer_to(gss), 'N');
	CHECK_INT(answer_to(ssl), 'N');
	say(ssl, 8);
	CHECK_TEXT(whole_client_got(end), "E(08P01 unexpected packet type during login: SSLRequest)");
	connect_anew();
	CHECK_INT(answer_to(gss), 'N');
	say(gss, 8);
	CHECK_TEXT(whole_client_got(end), "E(08P01 unexpected packet type during login: GSSENCRequest)");
	whole_close();
}

/* Cleartext after SSLRequest must not be treated as TLS data. */
TEST(nothing_may_follow_an_ssl_request)
{
	uint8_t more[9];

	memcpy(more, ssl, 8);
	more[8] = 0;
	whole_open(INI);
	connect_anew();
	say(more, 9);
	CHECK_TEXT(whole_client_got(end), "E(08P01 received unencrypted data after SSL request)");
	CHECK(end->is_gone);
	whole_close();
}

TEST(tls_is_not_offered)
{
	whole_open(INI);
	connect_anew();
	say("\x16\3\1\0", 4);
	CHECK(end->is_gone && bytes_size(&end->got) == 0);
	/* after a declined SSLRequest, a TLS record is read as the length of a packet */
	connect_anew();
	CHECK_INT(answer_to(ssl), 'N');
	say("\x16\3\1\0\0\0\0\0", 8);
	CHECK(strncmp(whole_client_got(end), "E(08P01 bad packet header: '1603", 32) == 0);
	whole_close();
}

TEST(tls_is_required)
{
	whole_open(TLS_INI);
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", "d")), "E(28000 SSL required)");
	whole_close();
}

TEST(terminate)
{
	whole_open(INI);
	connect_anew();
	say("X\0\0", 3);
	CHECK(!end->is_gone);
	say("\0\4", 2);
	CHECK(end->is_gone && bytes_size(&end->got) == 0);
	whole_close();
}

/* ---- packets that are not whole, or none ---- */

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

TEST(invalid_packets)
{
	whole_open(INI);
	connect_anew();
	say("\0\0\x27\x11\0\3\0\0", 8);			/* one byte more than the maximum */
	CHECK_TEXT(whole_client_got(end), "E(08P01 bad packet header: '0000271100030000')");
	connect_anew();
	say("\0\0\x27\x10\0\3\0\0", 8);
	CHECK(!end->is_gone);
	connect_anew();
	say("\0\0\0\16\0\3\0\0user\0u", 14);		/* the terminator is missing */
	CHECK_TEXT(whole_client_got(end), "E(08P01 invalid startup packet layout: expected terminator as last byte)");
	whole_close();
}

TEST(shutdown)
{
	whole_open(INI);
	whole.world->drain = DRAIN_WAIT_SERVERS;
	CHECK_TEXT(refused(V3(0), PAIRS("user", "u", "database", "d")), "E(57P01 pooler is shutting down)");
	/* a client that connected before the shutdown is waited for */
	whole.world->drain = DRAIN_WAIT_CLIENTS;
	whole.world->drain_since = whole.world->now;
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
