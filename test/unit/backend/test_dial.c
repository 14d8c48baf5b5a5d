/* Opening a server connection: TLS negotiation, the methods of connecting one after another, and their timeouts. */
#include "backend/dial.h"

#include "core/lifecycle.h"
#include "backend/server_login.h"
#include "logins.h"
#include "whole.h"

#define INI WHOLE_INI("", "server_connect_timeout=4\n")
#define TWO_INI "[databases]\nd = host=127.0.0.1,127.0.0.2 port=5432 user=u" HOUSE_SETTINGS "auth_type=any\nserver_connect_timeout=4\n"
#define TLS_INI(mode) "[databases]\nd = " HOUSE_SERVER "user=u" HOUSE_SETTINGS_SSL "server_tls_sslmode=" mode "\nauth_type=any\n"
#define PREFER_INI TLS_INI("prefer")
#define REQUIRE_INI TLS_INI("require")
#define DIRECT_INI TLS_INI("require\nserver_tls_sslnegotiation=direct")
#define NO_SOCKET_INI "[databases]\nd = host=/nonexistent port=5432 user=u" HOUSE_SETTINGS "auth_type=any\n"

static struct house_end *client, *server;
static struct server *s;

static void begin(const char *ini)
{
	login_open(ini, "");
	whole.servers_answer = false;
	client = login_name("v", "d");
	server = house_server(&whole);
	s = whole_last_server();
}

static void says(const void *data, size_t size)
{
	house_send(&whole, server, data, size);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
}

static void ended(enum close_reason why, const char *detail)
{
	CHECK(peer_is_ending(&s->peer));
	CHECK_INT(s->peer.end_reason, why);
	if (detail)
		CHECK_TEXT(s->peer.end_detail, detail);
	whole_close();
}

/* ---- TLS ---- */

TEST(without_tls)
{
	begin(INI);
	CHECK_INT(s->dial->step, DIAL_STARTUP);
	CHECK(!s->dial->tls && !s->tls_direct);
	whole_close();
}

TEST(answers_to_ssl_request)
{
	static const uint8_t request[] = { 0, 0, 0, 8, 4, 210, 22, 47 };

	begin(PREFER_INI);
	CHECK_INT(s->dial->step, DIAL_SSL_ANSWER);
	CHECK(bytes_size(&server->got) == 8 && memcmp(bytes_front(&server->got), request, 8) == 0);
	says("N", 1);
	CHECK_INT(s->dial->step, DIAL_STARTUP);
	whole_close();
	begin(PREFER_INI);
	says("S", 1);
	CHECK_INT(s->dial->step, DIAL_TLS);
	whole_close();
	begin(REQUIRE_INI);
	says("N", 1);
	ended(REASON_SERVER_TLS, "server does not support SSL, but SSL was required");
	begin(PREFER_INI);
	says("E", 1);
	ended(REASON_SERVER_LOGIN_BROKEN, "unexpected answer to SSLRequest");
	begin(PREFER_INI);
	house_hang_up(server);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
	ended(REASON_SERVER_CRASHED, NULL);
}

/* Cleartext after the answer must not be treated as TLS data. */
TEST(only_the_answer_is_read_in_clear)
{
	begin(PREFER_INI);
	says("SZ\0\0\0\5I", 7);
	CHECK_INT(s->dial->step, DIAL_TLS);
	CHECK_INT(bytes_size(&s->peer.held), 0);
	house_settle(&whole);
	CHECK(server->is_gone);
	whole_close();
}

TEST(direct_tls)
{
	begin(DIRECT_INI);
	CHECK_INT(s->dial->step, DIAL_TLS);
	CHECK(s->tls_direct);
	CHECK_INT(*bytes_front(&server->got), 0x16);
	whole_close();
}

TEST(failed_tls_handshake)
{
	begin(PREFER_INI);
	says("S", 1);
	dial_secured(s, "no cipher");
	ended(REASON_SERVER_TLS, "no cipher");
}

/* ---- ways ---- */

static void refuse(const char *sqlstate)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_report(&out, 'E', "FATAL", sqlstate, "go away", NULL, NULL);
	house_send(&whole, server, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	dispatch_ops.server_stream->on_readable(&s->peer.stream);
}

/* A host that is not ready is skipped: the same connection tries the next host without state of the first. */
TEST(the_next_host)
{
	struct bytes out = BYTES_EMPTY;

	begin(TWO_INI);
	CHECK_TEXT(s->dial->host, "127.0.0.1");
	CHECK(s->dial->way_ends > 0);
	pg_build_auth(&out, 0, NULL, 0);
	pg_build_key(&out, 'K', 4711, (const uint8_t *)"key!", 4);
	login_send(server, &out);
	CHECK_INT(s->backend_pid, 4711);
	refuse("57P03");
	CHECK_INT(s->dial->step, DIAL_NEXT);
	CHECK(!peer_is_ending(&s->peer));
	CHECK(s->backend_pid == 0 && !s->cancel_key && s->dial->way_ends == 0);
	house_settle(&whole);
	CHECK(server->is_gone && house_server(&whole) != server);
	CHECK_TEXT(s->dial->host, "127.0.0.2");
	CHECK_INT(s->dial->step, DIAL_STARTUP);
	/* this is the last host */
	CHECK_INT(s->dial->way_ends, 0);
	server = house_server(&whole);
	refuse("57P03");
	ended(REASON_SERVER_SAID, "go away");
}

/* After a final refusal, no other host is tried. */
TEST(final_refusal)
{
	begin(TWO_INI);
	refuse("28P01");
	ended(REASON_SERVER_SAID, "go away");
}

TEST(missing_unix_socket)
{
	begin(NO_SOCKET_INI);
	CHECK(!server);
	CHECK(!client->is_gone);
	CHECK(whole_last_client()->pooled.pool->login_failed);
	whole_close();
}

/* ---- time ---- */

TEST(connect_timeout)
{
	begin(INI);
	whole.world->now = s->pooled.since + 4 * USEC - 1;
	dial_tick(s);
	CHECK(!peer_is_ending(&s->peer));
	whole.world->now++;
	dial_tick(s);
	ended(REASON_CONNECT_TIMEOUT, NULL);
}

/* Each of two methods has half of the time. */
TEST(timeout_of_each_connection_method)
{
	begin(TWO_INI);
	CHECK_INT(s->dial->way_ends, s->pooled.since + 2 * USEC);
	whole.world->now = s->pooled.since + 2 * USEC - 1;
	dial_tick(s);
	CHECK_INT(s->dial->step, DIAL_STARTUP);
	whole.world->now++;
	dial_tick(s);
	CHECK_INT(s->dial->step, DIAL_NEXT);
	CHECK(!peer_is_ending(&s->peer));
	whole_close();
}

/* A connection that would be closed as soon as it is open gets one second. */
TEST(connection_that_is_no_longer_needed)
{
	begin(TWO_INI);
	s->pooled.close_reason = REASON_CONNECT_STRING;
	whole.world->now = s->pooled.since + USEC - 1;
	dial_tick(s);
	CHECK(!peer_is_ending(&s->peer));
	whole.world->now++;
	dial_tick(s);
	ended(REASON_CONNECT_STRING, NULL);
}

/* ---- memory ---- */

TEST(out_of_memory)
{
	for (int more = 0, failed = 1; failed > 0; more++) {
		struct pool *pool;

		begin(INI);
		pool = s->pooled.pool;
		whole_memory_ends(more);
		dial_begin(pool, whole.world, NULL, NULL);
		failed = whole_memory_is_back();
		house_settle(&whole);
		CHECK_INT(pool->login_failed, failed > 0);
		whole_close();
	}
}

UNIT_MAIN
