/*
 * Clients that get a server before they are welcomed, according to session_link: the queue, the process ID in BackendKeyData, and the initial
 * parameters.
 */
#include "login/login_link.h"

#include "conn/world.h"
#include "pg/build.h"
#include "pg/startup.h"
#include "unit.h"
#include "whole.h"

#define INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=1" HOUSE_SETTINGS "auth_type=any\npool_mode=session\nsession_link=login\n" \
	"server_reset_query=\n"
#define FIRST_INI "[databases]\nd = " HOUSE_SERVER "user=u pool_size=1" HOUSE_SETTINGS "auth_type=any\npool_mode=session\n"
#define TRANSACTION_INI WHOLE_INI("pool_size=1", "session_link=login\n")
#define PAIRS(...) (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)

static const char *ask(struct house_end *end, const char *const *pairs, size_t count)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_startup(&out, 3u << 16, pairs, count);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	return whole_client_got(end);
}

/* Returns the process ID in the client's BackendKeyData; 0: there was no BackendKeyData. */
static uint32_t key_names(const struct house_end *end)
{
	static const uint8_t head[] = { 'K', 0, 0, 0, 12 };
	const uint8_t *k = memmem(bytes_front(&end->got), bytes_size(&end->got), head, sizeof(head));

	return k ? pg_u32_at(k + sizeof(head)) : 0;
}

TEST(clients_that_need_a_server_at_login)
{
	struct house_end *end;

	whole_open(INI);
	REQUIRE(whole_login(&end));
	CHECK(login_link_is_wanted(whole_last_client()));
	CHECK(whole_last_client()->pooled.link);
	whole_close();
	whole_open(FIRST_INI);
	REQUIRE(whole_login(&end));
	CHECK(!login_link_is_wanted(whole_last_client()));
	CHECK(!whole_last_client()->pooled.link);
	whole_close();
	/* in transaction mode, the client does not keep its server */
	whole_open(TRANSACTION_INI);
	REQUIRE(whole_login(&end));
	CHECK(!login_link_is_wanted(whole_last_client()));
	CHECK(!whole_last_client()->pooled.link);
	whole_close();
}

TEST(key_has_the_process_id_of_the_server)
{
	struct house_end *end;

	whole_open(INI);
	end = house_connect(&whole);
	CHECK(strstr(ask(end, PAIRS("user", "u", "database", "d")), " Z(I)"));
	CHECK_INT(key_names(end), BACKEND_PID);
	CHECK(!whole_last_client()->pooled.is_login && !whole_last_client()->login);
	whole_close();
	whole_open(FIRST_INI);
	end = house_connect(&whole);
	CHECK(strstr(ask(end, PAIRS("user", "u", "database", "d")), " Z(I)"));
	CHECK(key_names(end) != 0 && key_names(end) != BACKEND_PID);
	whole_close();
}

/* The second client waits, without a welcome, until the first disconnects; then its parameters are set on the server too. */
TEST(client_waits_for_its_server)
{
	struct house_end *one, *two;
	struct client *c;
	struct server *s;

	whole_open(INI);
	one = house_connect(&whole);
	CHECK(strstr(ask(one, PAIRS("user", "u", "database", "d", "application_name", "first")), " Z(I)"));
	s = whole_last_server();
	two = house_connect(&whole);
	CHECK_TEXT(ask(two, PAIRS("user", "u", "database", "d", "application_name", "second")), "");
	c = whole_last_client();
	CHECK_INT(c->pooled.state, CLIENT_WAITING);
	CHECK(c->pooled.is_login && c->login && !c->params);
	house_hang_up(one);
	house_settle(&whole);
	CHECK(strstr(whole_client_got(two), " Z(I)"));
	c = whole_last_client();
	CHECK(c->pooled.link && server_of(c->pooled.link) == s);
	CHECK_TEXT(params_get(c->params, PARAM_APPLICATION_NAME), "second");
	CHECK_TEXT(params_get(s->params, PARAM_APPLICATION_NAME), "second");
	whole_close();
}

UNIT_MAIN
