/* The authentication methods that a server may request: server_require_auth and require_auth. */
#include "backend/server_auth.h"

#include "backend/server_login.h"
#include "conf/value.h"
#include "logins.h"
#include "whole.h"

#include <string.h>

#define INI WHOLE_INI("", "")

static char detail[512];

/* The connection to the server, and the lists ("": none). */
static struct {
	int family;
	uint8_t first, last;		/* bytes of its address */
	bool with_tls;
	const char *setting, *key;
} scene;

/* Returns whether the server may request this method. No secret is stored: an allowed request fails later, with another reason. */
static bool allows(enum server_method method)
{
	uint8_t body[8] = { 0, 0, 0, method == METHOD_PASSWORD ? 3 : method == METHOD_MD5 ? 5 : method == METHOD_SCRAM ? 10 : 0 };
	uint32_t size = method == METHOD_MD5 ? 8 : 4;
	struct pg_frame f = { .type = 'R', .body = body, .size = size, .here = size };
	struct brief_address remote;
	struct server *s;
	bool is_refused;

	login_open(INI, "");
	whole.servers_answer = false;
	login_name("v", "d");
	s = whole_last_server();
	FUZZ_CHECK(s && s->dial && s->dial->step == DIAL_STARTUP);
	CHECK_INT(value_read(value_find(&setting_table, "server_require_auth"), &whole.world->conf->settings, scene.setting, NULL), VALUE_READ_OK);
	CHECK_INT(value_read(value_find(&database_table, "require_auth"), (void *)(uintptr_t)s->pooled.pool->database->conf, scene.key, NULL),
		  VALUE_READ_OK);
	remote = s->peer.remote;
	memset(&s->peer.remote.u, 0, sizeof(s->peer.remote.u));
	s->peer.remote.family = (uint8_t)scene.family;
	s->peer.remote.u.ip[0] = scene.first;
	s->peer.remote.u.ip[scene.family == AF_INET ? 3 : 15] = scene.last;
	s->peer.stream.ssl = scene.with_tls ? (void *)&scene : NULL;
	server_auth_request(s, &f);
	s->peer.stream.ssl = NULL;
	s->peer.remote = remote;
	is_refused = peer_is_ending(&s->peer) && s->peer.end_reason == REASON_SERVER_AUTH;
	snprintf(detail, sizeof(detail), "%s", is_refused && s->peer.end_detail ? s->peer.end_detail : "");
	whole_close();
	return !is_refused;
}

static void begin(int family, bool with_tls, const char *setting, const char *key)
{
	memset(&scene, 0, sizeof(scene));
	scene.family = family;
	scene.first = 10;
	scene.with_tls = with_tls;
	scene.setting = setting;
	scene.key = key;
}

TEST(without_a_list_cleartext_password_needs_a_private_connection)
{
	begin(AF_INET, false, "", "");
	CHECK(!allows(METHOD_PASSWORD));
	CHECK(allows(METHOD_MD5) && allows(METHOD_SCRAM) && allows(METHOD_NONE));
	begin(AF_INET, true, "", "");
	CHECK(allows(METHOD_PASSWORD));
	begin(AF_UNIX, false, "", "");
	CHECK(allows(METHOD_PASSWORD));
	begin(AF_INET, false, "", "");
	scene.first = 127;
	scene.last = 9;
	CHECK(allows(METHOD_PASSWORD));
	scene.first = 128;
	CHECK(!allows(METHOD_PASSWORD));
	begin(AF_INET6, false, "", "");
	scene.first = 0;
	scene.last = 1;
	CHECK(allows(METHOD_PASSWORD));
	scene.first = 127;
	CHECK(!allows(METHOD_PASSWORD));
}

TEST(a_list_that_names_password_allows_it_everywhere)
{
	begin(AF_INET, false, "password, scram-sha-256", "");
	CHECK(allows(METHOD_PASSWORD) && allows(METHOD_SCRAM) && allows(METHOD_NONE));
	CHECK(!allows(METHOD_MD5));
	CHECK_TEXT(detail, "server asks for an MD5 hash of the password, but server_require_auth is \"password,scram-sha-256\"");
}

TEST(a_list_that_forbids_others_does_not_name_password)
{
	begin(AF_INET6, false, "!none", "");
	CHECK(!allows(METHOD_NONE));
	CHECK(!allows(METHOD_PASSWORD));
	CHECK_TEXT(detail, "server asks for the password in clear text over a connection without TLS, and server_require_auth "
			   "does not name \"password\"");
}

TEST(database_key_overrides_the_setting)
{
	begin(AF_INET, false, "md5", "scram-sha-256");
	CHECK(allows(METHOD_SCRAM));
	CHECK(!allows(METHOD_MD5));
	CHECK_TEXT(detail, "server asks for an MD5 hash of the password, but require_auth of database \"d\" is \"scram-sha-256\"");
}

UNIT_MAIN
