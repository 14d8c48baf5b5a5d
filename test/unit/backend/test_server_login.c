/* Logging in at a server: the start-up message, and each server message in and out of order. The test plays the server. */
#include "backend/server_login.h"

#include "core/lifecycle.h"
#include "state/server_session.h"
#include "backend/dial.h"
#include "logins.h"
#include "whole.h"

#define INI WHOLE_INI("", "")
#define ENTRY_INI WHOLE_INI("dbname=other client_encoding=LATIN1 application_name=mine timezone=UTC", "server_max_protocol_version=3.2\n")
#define NEWEST_INI WHOLE_INI("max_protocol_version=latest", "")
#define QUERY_INI WHOLE_INI("connect_query='SELECT 7'", "")

static struct house_end *client, *server;
static struct server *s;

/* A server that has received its start-up message. */
static void begin(const char *ini)
{
	login_open(ini, "");
	whole.servers_answer = false;
	client = login_name("v", "d");
	server = house_server(&whole);
	s = whole_last_server();
	CHECK_INT(s->dial->step, DIAL_STARTUP);
}

/* The server sends this message, and pgweir reads it; ended connections are not reaped yet. */
static void says(struct bytes *out)
{
	house_send(&whole, server, bytes_front(out), bytes_size(out));
	bytes_free(out);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
}

static struct bytes proven(void)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_auth(&out, 0, NULL, 0);
	return out;
}

/* The message violates the protocol, with this error detail. */
static void breaks(struct bytes *out, const char *detail)
{
	says(out);
	CHECK(peer_is_ending(&s->peer));
	CHECK_INT(s->peer.end_reason, REASON_SERVER_LOGIN_BROKEN);
	CHECK_TEXT(s->peer.end_detail, detail);
	whole_close();
}

/* ---- the start-up message ---- */

static bool has(const char *bytes, size_t size)
{
	return memmem(bytes_front(&server->got), bytes_size(&server->got), bytes, size) != NULL;
}

TEST(startup_message)
{
	static const char want[] = "\0\0\0\x1b\0\3\0\0user\0u\0database\0d\0";

	begin(INI);
	CHECK_INT(bytes_size(&server->got), sizeof(want));
	CHECK(memcmp(bytes_front(&server->got), want, sizeof(want)) == 0);
	CHECK_INT(s->minor, 0);
	whole_close();
	begin(ENTRY_INI);
	CHECK(has("\0\3\0\2user\0u\0database\0other\0client_encoding\0LATIN1\0timezone\0UTC\0application_name\0mine\0", 80));
	CHECK_INT(s->minor, 2);
	whole_close();
}

/* ---- a login ---- */

TEST(login)
{
	struct bytes out = proven();

	begin(INI);
	says(&out);
	CHECK_INT(s->dial->step, DIAL_PROVEN);
	pg_build_parameter_status(&out, "server_version", "15.9");
	pg_build_parameter_status(&out, "DateStyle", "ISO, MDY");
	pg_build_report(&out, 'N', "NOTICE", "00000", "welcome", NULL, NULL);
	pg_build_key(&out, 'K', 4711, (const uint8_t *)"key!", 4);
	says(&out);
	CHECK_INT(s->pooled.state, SERVER_LOGIN);
	CHECK_INT(s->backend_pid, 4711);
	CHECK(s->cancel_key_size == 4 && memcmp(s->cancel_key, "key!", 4) == 0);
	pg_build(&out, 'Z', "I", 1);
	says(&out);
	CHECK(!s->dial && !peer_is_stopped(&s->peer));
	CHECK(s->pooled.state != SERVER_LOGIN);
	CHECK_INT(s->status, 'I');
	CHECK_TEXT(params_get(s->params, PARAM_DATESTYLE), "ISO, MDY");
	house_settle(&whole);
	CHECK(strstr(login_told(client), " S(server_version=15.9)"));
	whole_close();
}

TEST(fragmented_login)
{
	struct bytes out = proven();

	begin(INI);
	pg_build_key(&out, 'K', 4711, (const uint8_t *)"key!", 4);
	pg_build(&out, 'Z', "I", 1);
	for (size_t i = 0; i < bytes_size(&out); i++) {
		CHECK(s->dial);
		house_send(&whole, server, bytes_front(&out) + i, 1);
		dispatch_ops.server_stream->on_readable(&s->peer.stream);
	}
	bytes_free(&out);
	CHECK(!s->dial);
	whole_close();
}

TEST(connect_query)
{
	struct bytes out = proven();

	begin(QUERY_INI);
	whole_server_got(server);
	pg_build(&out, 'Z', "I", 1);
	says(&out);
	CHECK_INT(s->pooled.state, SERVER_TESTED);
	CHECK(s->task == &task_connect_query);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(server), "Q(SELECT 7)");
	whole_close();
}

/* ---- the version of the protocol ---- */

static struct bytes negotiation(uint32_t version, uint32_t options)
{
	struct bytes out = BYTES_EMPTY;
	size_t mark = pg_begin(&out, 'v');

	bytes_append_u32(&out, version);
	bytes_append_u32(&out, options);
	pg_end(&out, mark);
	return out;
}

TEST(older_protocol_version)
{
	struct bytes out = negotiation(3 << 16, 0);

	begin(ENTRY_INI);
	says(&out);
	CHECK_INT(s->minor, 0);
	CHECK_INT(s->dial->step, DIAL_NEGOTIATED);
	/* a second NegotiateProtocolVersion is an error */
	out = negotiation(3 << 16, 0);
	breaks(&out, "NegotiateProtocolVersion out of order");
	/* PostgreSQL sends the full version; the documentation mentions the minor version only */
	begin(ENTRY_INI);
	out = negotiation(0, 0);
	says(&out);
	CHECK_INT(s->dial->step, DIAL_NEGOTIATED);
	whole_close();
}

TEST(unrequested_protocol_versions)
{
	struct bytes out = negotiation(3 << 16 | 2, 0);

	begin(INI);
	breaks(&out, "server wants to speak protocol 3.2");
	begin(NEWEST_INI);
	out = negotiation(2 << 16, 0);
	breaks(&out, "server wants to speak protocol 2.0");
	begin(ENTRY_INI);
	out = negotiation(3 << 16 | 1, 0);
	breaks(&out, "server wants to speak protocol 3.1");
	begin(INI);
	out = negotiation(3 << 16, 1);
	breaks(&out, "malformed NegotiateProtocolVersion");
}

/* ---- messages out of their place ---- */

TEST(protocol_violations)
{
	struct bytes out = BYTES_EMPTY;

	begin(INI);
	pg_build(&out, 'Z', "I", 1);
	breaks(&out, "ReadyForQuery out of order");
	begin(INI);
	out = proven();
	pg_build(&out, 'Z', "T", 1);
	breaks(&out, "ReadyForQuery out of order");
	begin(INI);
	out = proven();
	pg_build_string(&out, 'C', "SELECT 1");
	breaks(&out, "unexpected message type 0x43");
	begin(INI);
	out = proven();
	pg_build(&out, 'Z', "I", 1);
	pg_build_string(&out, 'C', "SELECT 1");
	breaks(&out, "message type 0x43 behind ReadyForQuery");
	begin(INI);
	bytes_append(&out, "Z\0\0\0\3", 5);
	breaks(&out, "malformed message");
	begin(INI);
	out = proven();
	pg_build_key(&out, 'K', 1, (const uint8_t *)"k", 1);
	breaks(&out, "malformed BackendKeyData");
	begin(INI);
	out = proven();
	bytes_append(&out, "S\0\0\0\6ab", 7);
	breaks(&out, "malformed ParameterStatus");
}

/* ---- refusals ---- */

/* The server refuses the login with this SQLSTATE. */
static void refuses(const char *sqlstate)
{
	struct bytes out = BYTES_EMPTY;

	begin(INI);
	pg_build_report(&out, 'E', "FATAL", sqlstate, "go away", NULL, NULL);
	says(&out);
	CHECK(peer_is_ending(&s->peer));
	CHECK_INT(s->peer.end_reason, REASON_SERVER_SAID);
	CHECK_TEXT(s->peer.end_detail, "go away");
	CHECK_TEXT(server_info_get(s->pooled.pool, whole.world->params)->failure.sqlstate, sqlstate);
}

TEST(refusals)
{
	refuses("28P01");
	CHECK_INT(s->dial->refusal, SERVER_REFUSAL_OTHER);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(28P01 go away)");
	whole_close();
	refuses("53300");
	CHECK_INT(s->dial->refusal, SERVER_REFUSAL_FULL);
	whole_close();
	refuses("57P03");
	CHECK_INT(s->dial->refusal, SERVER_REFUSAL_AWAY);
	whole_close();
}

TEST(server_disconnects)
{
	struct bytes out = proven();

	begin(INI);
	house_hang_up(server);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
	CHECK_INT(s->peer.end_reason, REASON_SERVER_CRASHED);
	whole_close();
	/* a server that completes the login and then disconnects within a message would do so again */
	begin(INI);
	pg_build(&out, 'Z', "I", 1);
	bytes_append_u8(&out, 'N');
	says(&out);
	house_hang_up(server);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
	CHECK_INT(s->peer.end_reason, REASON_SERVER_LOGIN_BROKEN);
	CHECK_TEXT(s->peer.end_detail, "end of the connection within a message behind ReadyForQuery");
	whole_close();
}

UNIT_MAIN
