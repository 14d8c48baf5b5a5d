/*
 * The query of a look-up: what a server is asked, what becomes of the server and of the clients that wait with each answer, and what is
 * made of an answer that is none.
 */
#include "auth/lookup_parts.h"

#include "login/startup.h"
#include "logins.h"
#include "whole.h"

#define ASKS "auth_user=look\nauth_query=SELECT a, b FROM c WHERE a = $1\n"
#define SETTINGS "[databases]\nd = " HOUSE_SERVER "pool_size=2" HOUSE_SETTINGS "auth_type=plain\npool_mode=transaction\n" ASKS
#define INI SETTINGS
#define LIMIT_INI SETTINGS "query_timeout=3\nclient_login_timeout=9\n"
#define LOGIN_LIMIT_INI SETTINGS "client_login_timeout=4\n"
#define NO_LIMIT_INI SETTINGS "client_login_timeout=0\nserver_connect_timeout=5\n"
#define USERS "\"look\" \"secret\"\n"
#define LAST " P(/SELECT a, b FROM c WHERE a = $1) B(/) D(P/) E() S"

static struct house_end *client, *server;

static void begin_with(const char *ini)
{
	login_open(ini, USERS);
	whole.holds_answers = true;
	client = login_name("v", "d");
	server = house_server(&whole);
	CHECK(server && whole_last_server()->task == TASK_LOOKUP);
}

static void begin(void)
{
	begin_with(INI);
}

static bool is_over(void)
{
	const struct server *s = whole_last_server();

	return s && s->task == TASK_NONE && !s->lookup && s->policy.state != SERVER_LOOKUP && s->status == 'I';
}

/* ---- what is asked ---- */

TEST(what_is_asked)
{
	static const char first[] = "P(/SELECT pg_catalog.set_config('session_authorization', NULL, true), ";
	const char *got, *last;

	begin();
	got = whole_server_got(server);
	last = strstr(got, LAST);
	CHECK(strncmp(got, first, strlen(first)) == 0);
	CHECK(last && strlen(last) == strlen(LAST));
	CHECK_INT(whole_last_server()->policy.state, SERVER_LOOKUP);
	CHECK_INT(whole_last_client()->policy.state, CLIENT_LOOKUP);
	CHECK_INT(whole_last_client()->login->wait.lookup->phase, LOOKUP_RUNNING);
	whole_close();
}

/* What an earlier client has set is taken back, but for what the other statements set. */
TEST(parameters_that_differ_are_set_back)
{
	struct house_end *before;
	const char *got;

	login_open(INI, USERS);
	before = login_name("look", "d");
	CHECK(login_is_welcome(login_password(before, "secret")));
	whole_ask(before, "SELECT set_config('application_name',E'x'), set_config('client_encoding',E'LATIN1'), set_config('search_path',E'p')");
	server = house_server(&whole);
	whole_server_got(server);
	whole.holds_answers = true;
	client = login_name("v", "d");
	CHECK(house_server(&whole) == server);
	got = whole_server_got(server);
	CHECK(strncmp(got, "P(/SELECT pg_catalog.set_config('application_name', NULL, true), pg_catalog.set_config('session_auth", 100) == 0);
	whole_close();
}

/* Each allocation from one on fails: the client waits for an answer, or is told why there is none. */
TEST(no_memory)
{
	static const char *const pairs[] = { "user", "v", "database", "d" };
	int ended = 0, lost = 0, failed = 1;

	for (int more = 0; failed > 0; more++) {
		struct bytes out = BYTES_EMPTY;

		login_open(INI, USERS);
		CHECK(login_is_welcome((client = login_name("look", "d"), login_password(client, "secret"))));
		server = house_server(&whole);
		whole.holds_answers = true;
		client = house_connect(&whole);
		pg_build_startup(&out, 3u << 16, pairs, 4);
		whole_memory_ends(more);
		startup_packet(whole_last_client(), bytes_front(&out), bytes_size(&out));
		failed = whole_memory_is_back();
		bytes_free(&out);
		house_settle(&whole);
		lost += server->is_gone;
		ended += client->is_gone;
		if (!client->is_gone) {
			CHECK(whole_last_server()->lookup);
		} else {
			const char *told = login_told(client);

			/* the server has ended for it: clients hear that, as they would of one that went */
			CHECK(strcmp(told, "E(53200 out of memory)") == 0 || (server->is_gone && strcmp(told, "E(08P01 server conn crashed?)") == 0));
			CHECK(!whole.world->lookups->by_key);
		}
		whole_close();
	}
	CHECK(ended > 5 && lost > 0);
}

/* ---- answers ---- */

TEST(a_user_that_is_found)
{
	begin();
	login_found(server, "v", "pass");
	CHECK(is_over());
	CHECK_INT(whole.world->lookups->answers, 1);
	CHECK(!whole.world->lookups->by_key);
	CHECK_INT(whole_last_client()->login->sought, USER_FOUND);
	CHECK_INT(whole_last_client()->login->answer, 1);
	CHECK_INT(login_asked(client), 3);
	whole.holds_answers = false;
	CHECK(login_is_welcome(login_password(client, "pass")));
	whole_close();
}

/* It is asked like one that is known, and fails with the same words. */
TEST(a_user_that_is_not_found)
{
	begin();
	login_found(server, NULL, NULL);
	CHECK(is_over());
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_FOUND);
	CHECK_INT(login_asked(client), 3);
	login_told(client);
	CHECK_TEXT(login_password(client, "pass"), "E(28P01 password authentication failed)");
	whole_close();
}

/* PostgreSQL cuts off long names. */
TEST(another_user_than_was_asked_for)
{
	begin();
	login_found(server, "w", "pass");
	CHECK(is_over());
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_FOUND);
	whole_close();
}

/* The server has done nothing wrong, and stays. */
TEST(an_error)
{
	struct bytes out = BYTES_EMPTY;

	begin();
	login_put_prepared(&out);
	pg_build_error(&out, "ERROR", "42P01", "relation \"c\" does not exist", NULL, NULL);
	pg_build_ready(&out, 'I');
	login_send(server, &out);
	CHECK(is_over());
	CHECK_TEXT(login_told(client), "E(28000 bouncer config error)");
	CHECK(client->is_gone && !server->is_gone);
	whole_close();
}

TEST(an_answer_in_pieces)
{
	struct bytes out = BYTES_EMPTY;

	begin();
	login_put_found(&out, "v", "pass");
	for (size_t i = 0; i < bytes_size(&out); i++) {
		CHECK_INT(login_asked(client), -1);
		house_send(&whole, server, bytes_front(&out) + i, 1);
		house_settle(&whole);
	}
	bytes_free(&out);
	CHECK(is_over());
	CHECK_INT(login_asked(client), 3);
	CHECK_INT(bytes_size(&whole_last_server()->peer.held), 0);
	whole_close();
}

/* A parameter of the session counts for the session, and notices for nothing. */
TEST(what_comes_unasked)
{
	struct bytes out = BYTES_EMPTY;

	begin();
	pg_build_notice(&out, "NOTICE", "00000", "look out", NULL);
	pg_build_parameter_status(&out, "application_name", "other");
	login_put_found(&out, "v", "pass");
	login_send(server, &out);
	CHECK(is_over());
	CHECK_TEXT(params_get(whole_last_server()->params, PARAM_APPLICATION_NAME), "other");
	CHECK_INT(whole_last_client()->login->sought, USER_FOUND);
	whole_close();
}

/* ---- answers that are none: the server is not used again ---- */

static const char *breaks(struct bytes *out)
{
	begin();
	login_send(server, out);
	CHECK(server->is_gone);
	CHECK(!whole.world->lookups->by_key);
	return login_told(client);
}

TEST(a_message_that_nothing_asked_for)
{
	struct bytes out = BYTES_EMPTY;

	login_put_short(&out, '3');
	CHECK_TEXT(breaks(&out), "E(57P03 auth_query failed)");
	whole_close();
}

TEST(a_message_that_is_too_long)
{
	static const uint8_t head[] = { 'D', 0, 1, 0, 5 };
	struct bytes out = BYTES_EMPTY;

	login_put_short(&out, '1');
	login_put_short(&out, '2');
	bytes_append(&out, head, sizeof(head));
	/* the query is wrong, not the connection */
	CHECK_TEXT(breaks(&out), "E(28000 bouncer config error)");
	whole_close();
	/* the longest is waited for */
	begin();
	login_put_short(&out, '1');
	login_put_short(&out, '2');
	bytes_append(&out, head, 4);
	bytes_append_u8(&out, 4);
	login_send(server, &out);
	CHECK(!server->is_gone && !client->is_gone);
	whole_close();
}

TEST(a_length_that_cannot_be)
{
	struct bytes out = BYTES_EMPTY;

	bytes_append(&out, "1\0\0\0\3", 5);
	CHECK_TEXT(breaks(&out), "E(57P03 auth_query failed)");
	whole_close();
}

TEST(a_transaction_that_is_left_open)
{
	struct bytes out = BYTES_EMPTY;

	login_put_found(&out, "v", "pass");
	bytes_front(&out)[bytes_size(&out) - 1] = 'T';
	CHECK_TEXT(breaks(&out), "E(28000 bouncer config error)");
	whole_close();
}

/* ---- the end of the server ---- */

TEST(a_server_that_goes)
{
	begin();
	house_hang_up(server);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(08P01 server conn crashed?)");
	CHECK(!whole.world->lookups->by_key);
	whole_close();
}

/* One that was idle before the client came may have been gone for long: the next is asked, once. */
TEST(a_server_that_had_gone)
{
	struct house_end *before;

	login_open(INI, USERS);
	before = login_name("look", "d");
	CHECK(login_is_welcome(login_password(before, "secret")));
	server = house_server(&whole);
	house_tick(&whole, USEC);
	whole.holds_answers = true;
	client = login_name("v", "d");
	CHECK(house_server(&whole) == server && whole_last_server()->lookup);
	house_hang_up(server);
	house_settle(&whole);
	CHECK(!client->is_gone);
	CHECK(house_server(&whole) != server && whole_last_server()->lookup);
	server = house_server(&whole);
	login_found(server, "v", "pass");
	CHECK_INT(whole_last_client()->login->sought, USER_FOUND);
	whole_close();
}

/* ... but not when it had begun to answer. */
TEST(a_server_that_goes_in_its_answer)
{
	struct bytes out = BYTES_EMPTY;
	struct house_end *before;

	login_open(INI, USERS);
	before = login_name("look", "d");
	CHECK(login_is_welcome(login_password(before, "secret")));
	house_tick(&whole, USEC);
	whole.holds_answers = true;
	client = login_name("v", "d");
	server = house_server(&whole);
	login_put_short(&out, '1');
	login_send(server, &out);
	house_hang_up(server);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(08P01 server conn crashed?)");
	whole_close();
}

/* ---- how long it may last ---- */

/* Where it ends after so long, and not before, with this reason. */
static void lasts(const char *ini, usec_t limit)
{
	struct server *s;

	begin_with(ini);
	s = whole_last_server();
	whole.world->now = s->task_since + limit - 1;
	CHECK_INT(lookup_overdue(s), REASON_NONE);
	whole.world->now++;
	CHECK_INT(lookup_overdue(s), REASON_QUERY_TIMEOUT);
	whole_close();
}

TEST(how_long_it_may_last)
{
	lasts(LIMIT_INI, 3 * USEC);
	lasts(LOGIN_LIMIT_INI, 4 * USEC);
	lasts(NO_LIMIT_INI, 5 * USEC);
}

TEST(one_that_lasts_too_long)
{
	begin_with(LIMIT_INI);
	house_tick(&whole, 3 * USEC);
	CHECK(server->is_gone);
	CHECK_TEXT(login_told(client), "E(08P01 query timeout)");
	whole_close();
}

/* Its clients leave: the query of a database that is configured goes on, for the server is of use afterwards. */
TEST(one_that_no_client_waits_for)
{
	begin();
	house_hang_up(client);
	house_settle(&whole);
	CHECK_INT(lookup_overdue(whole_last_server()), REASON_NONE);
	login_found(server, "v", "pass");
	CHECK(is_over() && !server->is_gone);
	CHECK(!whole.world->lookups->by_key);
	whole_close();
}

UNIT_MAIN
