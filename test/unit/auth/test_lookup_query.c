/*
 * The query of a look-up: the statements that the server gets, the effect of each answer on the server and on waiting clients, and malformed answers.
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
	CHECK(server && whole_last_server()->task && strcmp(whole_last_server()->task->name, "auth_query") == 0);
}

static void begin(void)
{
	begin_with(INI);
}

static bool is_over(void)
{
	const struct server *s = whole_last_server();

	return s && !s->task && !s->lookup && s->pooled.state != SERVER_LOOKUP && s->status == 'I';
}

/* ---- the statements ---- */

TEST(statements_of_a_look_up)
{
	static const char first[] = "P(/SELECT pg_catalog.set_config('session_authorization', NULL, true), ";
	const char *got, *last;

	begin();
	got = whole_server_got(server);
	last = strstr(got, LAST);
	CHECK(strncmp(got, first, strlen(first)) == 0);
	CHECK(last && strlen(last) == strlen(LAST));
	CHECK_INT(whole_last_server()->pooled.state, SERVER_LOOKUP);
	CHECK_INT(whole_last_client()->pooled.state, CLIENT_LOOKUP);
	CHECK_INT(whole_last_client()->login->wait.lookup->phase, LOOKUP_RUNNING);
	whole_close();
}

/* Parameters that an earlier client has set are reset, except those that the other statements set. */
TEST(changed_parameters_are_reset)
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

/* The nth and every later allocation fails: the client waits for an answer or gets an error. */
TEST(out_of_memory)
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

			/* the server was closed after the failure: clients get the error of a lost server connection */
			CHECK(strcmp(told, "E(53200 out of memory)") == 0 || (server->is_gone && strcmp(told, "E(08P01 server conn crashed?)") == 0));
			CHECK(!whole.world->lookups->by_key);
		}
		whole_close();
	}
	CHECK(ended > 5 && lost > 0);
}

/* ---- answers ---- */

TEST(known_user)
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

/* An unknown user gets the same authentication request and the same error message as a known user. */
TEST(unknown_user)
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

/* PostgreSQL truncates long names. */
TEST(row_of_another_user)
{
	begin();
	login_found(server, "w", "pass");
	CHECK(is_over());
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_FOUND);
	whole_close();
}

/* The server connection is kept. */
TEST(error_response)
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

TEST(fragmented_answer)
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

/* A ParameterStatus applies to the session, and notices are ignored. */
TEST(asynchronous_messages)
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

/* ---- invalid answers: the server is not used again ---- */

static const char *breaks(struct bytes *out)
{
	begin();
	login_send(server, out);
	CHECK(server->is_gone);
	CHECK(!whole.world->lookups->by_key);
	return login_told(client);
}

TEST(unexpected_message)
{
	struct bytes out = BYTES_EMPTY;

	login_put_short(&out, '3');
	CHECK_TEXT(breaks(&out), "E(57P03 auth_query failed)");
	whole_close();
}

TEST(message_too_long)
{
	static const uint8_t head[] = { 'D', 0, 1, 3, 255 };
	struct bytes out = BYTES_EMPTY;

	login_put_short(&out, '1');
	login_put_short(&out, '2');
	bytes_append(&out, head, sizeof(head));
	/* the query is wrong, not the connection */
	CHECK_TEXT(breaks(&out), "E(28000 bouncer config error)");
	whole_close();
	/* the longest valid message is waited for */
	begin();
	login_put_short(&out, '1');
	login_put_short(&out, '2');
	bytes_append(&out, head, 4);
	bytes_append_u8(&out, 254);
	login_send(server, &out);
	CHECK(!server->is_gone && !client->is_gone);
	whole_close();
}

TEST(invalid_message_length)
{
	struct bytes out = BYTES_EMPTY;

	bytes_append(&out, "1\0\0\0\3", 5);
	CHECK_TEXT(breaks(&out), "E(57P03 auth_query failed)");
	whole_close();
}

TEST(open_transaction_after_the_query)
{
	struct bytes out = BYTES_EMPTY;

	login_put_found(&out, "v", "pass");
	bytes_front(&out)[bytes_size(&out) - 1] = 'T';
	CHECK_TEXT(breaks(&out), "E(28000 bouncer config error)");
	whole_close();
}

/* ---- the end of the server ---- */

TEST(server_disconnects)
{
	begin();
	house_hang_up(server);
	house_settle(&whole);
	CHECK_TEXT(login_told(client), "E(08P01 server conn crashed?)");
	CHECK(!whole.world->lookups->by_key);
	whole_close();
}

/* A server that was idle before the client arrived may be dead: the query is repeated once on another server. */
TEST(dead_idle_server_is_replaced_once)
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

/* The query is not repeated if the server had begun to answer. */
TEST(server_disconnects_during_its_answer)
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

/* Checks that the look-up ends after `limit`, not earlier, for this reason. */
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

TEST(look_up_timeouts)
{
	lasts(LIMIT_INI, 3 * USEC);
	lasts(LOGIN_LIMIT_INI, 4 * USEC);
	lasts(NO_LIMIT_INI, 5 * USEC);
}

TEST(query_timeout_ends_a_look_up)
{
	begin_with(LIMIT_INI);
	house_tick(&whole, 3 * USEC);
	CHECK(server->is_gone);
	CHECK_TEXT(login_told(client), "E(08P01 query timeout)");
	whole_close();
}

/* All clients disconnect: the query of a configured database continues, because the server can be used afterwards. */
TEST(look_up_without_waiting_clients_continues)
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
