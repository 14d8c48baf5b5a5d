/* The authentication methods that a server may request. */
#include "backend/require_auth.h"
#include "conf/value.h"
#include "unit.h"

#include <string.h>

static struct {
	struct world world;
	struct conf conf;
	struct conf_database of_database;
	struct database database;
	struct pool pool;
	struct server server;
	char detail[512];
} scene;

void server_end(struct server *s, enum close_reason why, const char *detail)
{
	CHECK(s == &scene.server);
	CHECK_INT(why, REASON_SERVER_AUTH);
	snprintf(scene.detail, sizeof(scene.detail), "%s", detail);
}

/* A server over `family`, with these lists ("": none). */
static void begin(int family, bool with_tls, const char *setting, const char *key)
{
	static char name[] = "shop";
	memset(&scene, 0, sizeof(scene));
	CHECK_INT(value_read(value_find(&setting_table, "server_require_auth"), &scene.conf.settings, setting, NULL), VALUE_READ_OK);
	CHECK_INT(value_read(value_find(&database_table, "require_auth"), &scene.of_database, key, NULL), VALUE_READ_OK);
	scene.world.conf = &scene.conf;
	scene.database.conf = &scene.of_database;
	scene.database.name = name;
	scene.pool.database = &scene.database;
	scene.server.pooled.pool = &scene.pool;
	scene.server.peer.world = &scene.world;
	scene.server.peer.remote.family = (uint8_t)family;
	scene.server.peer.stream.ssl = with_tls ? (void *)&scene : NULL;
}

static bool allows(enum server_method method)
{
	scene.detail[0] = '\0';
	return require_auth_allows(&scene.server, method);
}

TEST(without_a_list_cleartext_password_needs_a_private_connection)
{
	begin(AF_INET, false, "", "");
	for (int method = 0; method < SERVER_METHODS; method++)
		CHECK_INT(allows((enum server_method)method), method != METHOD_PASSWORD);
	begin(AF_INET, true, "", "");
	CHECK(allows(METHOD_PASSWORD));
	begin(AF_UNIX, false, "", "");
	CHECK(allows(METHOD_PASSWORD));
	begin(AF_INET, false, "", "");
	scene.server.peer.remote.u.ip[0] = 127;
	scene.server.peer.remote.u.ip[3] = 9;
	CHECK(allows(METHOD_PASSWORD));
	scene.server.peer.remote.u.ip[0] = 128;
	CHECK(!allows(METHOD_PASSWORD));
	begin(AF_INET6, false, "", "");
	scene.server.peer.remote.u.ip[15] = 1;
	CHECK(allows(METHOD_PASSWORD));
	scene.server.peer.remote.u.ip[0] = 127;
	CHECK(!allows(METHOD_PASSWORD));
}

TEST(a_list_that_names_password_allows_it_everywhere)
{
	begin(AF_INET, false, "password, scram-sha-256", "");
	CHECK(allows(METHOD_PASSWORD) && allows(METHOD_SCRAM) && allows(METHOD_NONE));
	CHECK(!allows(METHOD_MD5));
	CHECK_TEXT(scene.detail, "server asks for an MD5 hash of the password, but server_require_auth is \"password,scram-sha-256\"");
}

TEST(a_list_that_forbids_others_does_not_name_password)
{
	begin(AF_INET6, false, "!none", "");
	CHECK(!allows(METHOD_NONE));
	CHECK(!allows(METHOD_PASSWORD));
	CHECK_TEXT(scene.detail, "server asks for the password in clear text over a connection without TLS, and server_require_auth "
				 "does not name \"password\"");
}

TEST(database_key_overrides_the_setting)
{
	begin(AF_INET, false, "md5", "scram-sha-256");
	CHECK(allows(METHOD_SCRAM));
	CHECK(!allows(METHOD_MD5));
	CHECK_TEXT(scene.detail, "server asks for an MD5 hash of the password, but require_auth of database \"shop\" is \"scram-sha-256\"");
}

UNIT_MAIN
