/* Information that a pool has about its servers: when it becomes invalid, and the effect of a failed server login on later logins. */
#include "backend/server_info.h"
#include "backend/server_login.h"
#include "base/mem.h"
#include "pg/build.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "server_lifetime=1000000\nserver_check_query=\n")

static struct client *client;
static struct server *server;
static struct pool *pool;
static struct server_info *info;

/* The server has logged in, and no client has used it. */
static bool begin(void)
{
	struct house_end *end;

	whole_open(INI);
	client = whole_login(&end);
	server = whole_last_server();
	pool = client ? client->pooled.pool : NULL;
	info = pool ? pool->server_info : NULL;
	CHECK(info && server);
	return info && server;
}

TEST(changed_address_invalidates_the_information)
{
	REQUIRE(begin());
	CHECK(info->reported.welcome);
	CHECK(server_info_get(pool, whole.world->params) == info);
	CHECK(info->reported.welcome);
	info->reported.known = 5;
	info->failure.text = mem_copy_string("no");
	pool->generation++;
	CHECK(server_info_get(pool, whole.world->params) == info);
	CHECK(!info->reported.welcome && info->reported.known == 0);
	CHECK_INT(info->generation, pool->generation);
	/* the last error is kept */
	CHECK_TEXT(pool_login_error(pool), "no");
	whole_close();
}

/* Returns the state of a new client that asks for a value of DateStyle, or for nothing. */
static enum client_state state_of_login(bool asks)
{
	const char *const pairs[] = { "user", "u", "database", "d", "DateStyle", "ISO" };
	struct house_end *end = house_connect(&whole);
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, 3u << 16, pairs, asks ? 6 : 4);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return (enum client_state)whole_last_client()->pooled.state;
}

TEST(parameters_cover_the_request)
{
	REQUIRE(begin());
	whole.servers_answer = false;
	info->reported.known = ~(uint64_t)0;
	CHECK_INT(state_of_login(false), CLIENT_IDLE);
	info->reported.known = ~((uint64_t)1 << PARAM_DATESTYLE);
	CHECK_INT(state_of_login(true), CLIENT_IDLE);
	CHECK_INT(state_of_login(false), CLIENT_WAITING_LOGIN);
	welcome_drop(&info->reported.welcome);
	CHECK_INT(state_of_login(true), CLIENT_WAITING_LOGIN);
	whole_close();
}

/* ---- a login that ends without success ---- */

static const char *const failures[] = { "lasting", "passing", "away", "busy", "full" };

/*
 * Returns the kind of login failure for a server that ended for this reason; "none": not a failure. `refusal` is OTHER for a server whose login is
 * over (dial is NULL), and for a server that sent no error.
 */
static const char *failure(enum close_reason why, bool is_logging_in, enum server_refusal refusal)
{
	struct dial dial = { .refusal = refusal };
	enum login_failure got;
	const char *name = "none";

	if (!begin())
		return "";
	dial.generation = pool->generation;
	server->dial = is_logging_in ? &dial : NULL;
	if (server_info_failed(server, why, "the words", &got)) {
		name = failures[got];
		CHECK_TEXT(pool_login_error(pool), "the words");
		CHECK(pool->login_failed);
		CHECK_INT(info->failure.refused, why == REASON_SERVER_SAID);
	} else {
		CHECK(!pool->login_failed && !pool_login_error(pool));
	}
	server->dial = NULL;
	whole_close();
	return name;
}

TEST(kinds_of_login_failures)
{
	CHECK_TEXT(failure(REASON_CONNECT_FAILED, true, SERVER_REFUSAL_OTHER), "away");
	CHECK_TEXT(failure(REASON_SERVER_CRASHED, true, SERVER_REFUSAL_OTHER), "away");
	CHECK_TEXT(failure(REASON_CONNECT_TIMEOUT, true, SERVER_REFUSAL_OTHER), "passing");
	CHECK_TEXT(failure(REASON_DNS_FAILED, true, SERVER_REFUSAL_OTHER), "passing");
	CHECK_TEXT(failure(REASON_SERVER_TLS, true, SERVER_REFUSAL_OTHER), "passing");
	CHECK_TEXT(failure(REASON_NO_MEMORY, true, SERVER_REFUSAL_OTHER), "passing");
	CHECK_TEXT(failure(REASON_SERVER_SAID, true, SERVER_REFUSAL_OTHER), "lasting");
	CHECK_TEXT(failure(REASON_SERVER_SAID, true, SERVER_REFUSAL_FULL), "full");
	CHECK_TEXT(failure(REASON_SERVER_SAID, true, SERVER_REFUSAL_AWAY), "busy");
	CHECK_TEXT(failure(REASON_SERVER_AUTH, true, SERVER_REFUSAL_OTHER), "lasting");
	/* the login succeeds, but the server cannot be used */
	CHECK_TEXT(failure(REASON_SERVER_CRASHED, false, SERVER_REFUSAL_OTHER), "lasting");
}

TEST(ends_that_are_not_failures)
{
	CHECK_TEXT(failure(REASON_OBSOLETE, true, SERVER_REFUSAL_OTHER), "none");
	CHECK_TEXT(failure(REASON_CLIENT_EOF, true, SERVER_REFUSAL_OTHER), "none");
	CHECK_TEXT(failure(REASON_QUERY_WAIT_TIMEOUT, true, SERVER_REFUSAL_OTHER), "none");
}

TEST(servers_at_the_old_address_are_ignored)
{
	struct dial dial = { .refusal = SERVER_REFUSAL_OTHER };
	enum login_failure got;

	REQUIRE(begin());
	server->dial = &dial;
	dial.generation = pool->generation - 1;
	CHECK(!server_info_failed(server, REASON_CONNECT_FAILED, "x", &got));
	dial.generation = pool->generation;
	server->pooled.close_reason = REASON_OBSOLETE;
	CHECK(!server_info_failed(server, REASON_CONNECT_FAILED, "x", &got));
	CHECK(!pool->login_failed);
	server->pooled.close_reason = REASON_NONE;
	server->dial = NULL;
	whole_close();
}

TEST(refusal_of_a_replication_client)
{
	struct dial dial = { .refusal = SERVER_REFUSAL_OTHER };
	enum login_failure got;

	REQUIRE(begin());
	server->dial = &dial;
	dial.generation = pool->generation;
	server->pooled.dedicated = 1;
	CHECK(server_info_failed(server, REASON_SERVER_SAID, "x", &got));
	CHECK_INT(got, FAILURE_LASTING);
	/* other clients may succeed */
	CHECK(!pool->login_failed && !pool_login_error(pool));
	CHECK(server_info_failed(server, REASON_CONNECT_FAILED, "x", &got));
	CHECK(pool->login_failed);
	server->pooled.dedicated = 0;
	server->dial = NULL;
	whole_close();
}

TEST(sqlstate_is_of_the_last_answer)
{
	struct dial dial = { .refusal = SERVER_REFUSAL_OTHER };
	enum login_failure got;

	REQUIRE(begin());
	server->dial = &dial;
	dial.generation = pool->generation;
	snprintf(info->failure.sqlstate, sizeof(info->failure.sqlstate), "28P01");
	CHECK(server_info_failed(server, REASON_SERVER_SAID, "x", &got));
	CHECK_TEXT(info->failure.sqlstate, "28P01");
	CHECK(server_info_failed(server, REASON_CONNECT_FAILED, "x", &got));
	CHECK_TEXT(info->failure.sqlstate, "");
	server->dial = NULL;
	whole_close();
}

UNIT_MAIN
