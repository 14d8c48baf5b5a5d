/*
 * User look-ups: the queried database, one query at a time per user, clients that arrive or disconnect during a query, and look-ups that fail before
 * their query.
 */
#include "auth/lookup_parts.h"

#include "login/startup.h"
#include "logins.h"
#include "whole.h"

#define DATABASE "[databases]\nd = " HOUSE_SERVER "pool_size=2"
#define SETTINGS HOUSE_SETTINGS "auth_type=plain\npool_mode=transaction\nauth_user=look\nauth_query=SELECT $1\n"
#define INI DATABASE SETTINGS
#define ONE_INI INI "max_auth_query_connections=1\n"
#define OTHER_INI DATABASE "\ne = " HOUSE_SERVER SETTINGS "auth_dbname=e\n"
#define NO_OTHER_INI DATABASE SETTINGS "auth_dbname=none\n"
#define NO_USER_INI DATABASE HOUSE_SETTINGS "auth_type=plain\n"
#define QUEUE_INI ONE_INI "max_auth_queue=2\n"
#define FALLBACK_INI DATABASE "\n* = " HOUSE_SERVER SETTINGS
#define USERS "\"look\" \"secret\"\n"

static struct house_end *client, *server;

static void begin(const char *ini)
{
	login_open(ini, USERS);
	whole.holds_answers = true;
	client = login_name("v", "d");
	server = house_server(&whole);
}

static struct lookups *lookups(void)
{
	return whole.world->lookups;
}

static const struct lookup *lookup_of_last(void)
{
	return whole_last_client()->login->wait.lookup;
}

static unsigned lookup_count(void)
{
	return HASH_COUNT(lookups()->by_key);
}

/* ---- one query at a time ---- */

/* Clients that arrive during a query wait together for the next query, so their result is never older than their login. */
TEST(clients_that_arrive_during_a_query_share_the_next)
{
	struct house_end *second, *third;

	begin(INI);
	CHECK_INT(lookup_of_last()->phase, LOOKUP_RUNNING);
	second = login_name("v", "d");
	third = login_name("v", "d");
	CHECK_INT(lookup_count(), 1);
	CHECK(house_server(&whole) == server);
	CHECK(lookup_of_last()->waiting.next != lookup_of_last()->waiting.prev);
	login_found(server, "v", "old");
	CHECK_INT(login_asked(client), 3);
	CHECK_INT(login_asked(second), -1);
	CHECK_INT(login_asked(third), -1);
	CHECK_INT(lookup_of_last()->phase, LOOKUP_RUNNING);
	login_found(server, "v", "new");
	CHECK_INT(login_asked(second), 3);
	CHECK_INT(login_asked(third), 3);
	CHECK_INT(lookups()->answers, 2);
	CHECK_INT(lookup_count(), 0);
	CHECK_INT(lookups()->turns->taken_count, 0);
	login_told(second);
	CHECK_TEXT(login_password(second, "old"), "E(28P01 password authentication failed)");
	whole.holds_answers = false;
	CHECK(login_is_welcome(login_password(third, "new")));
	CHECK(login_is_welcome(login_password(client, "old")));
	whole_close();
}

TEST(each_user_has_its_own_look_up)
{
	struct house_end *other;

	begin(INI);
	other = login_name("w", "d");
	CHECK_INT(lookup_count(), 2);
	CHECK_TEXT(lookup_of_last()->user, "w");
	CHECK_TEXT(lookup_of_last()->sql, "SELECT $1");
	CHECK(house_server(&whole) != server);
	login_found(house_server(&whole), "w", "x");
	CHECK(login_asked(other) == 3 && login_asked(client) == -1);
	CHECK_INT(lookup_count(), 1);
	whole_close();
}

/* ---- where ---- */

TEST(nothing_is_configured)
{
	begin(NO_USER_INI);
	CHECK(!server);
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_LISTED);
	CHECK_INT(login_asked(client), 3);
	whole_close();
}

TEST(auth_dbname_is_queried)
{
	begin(OTHER_INI);
	CHECK_TEXT(lookup_of_last()->pool->database->name, "e");
	CHECK_TEXT(lookup_of_last()->pool->user->name, "look");
	whole_close();
}

TEST(databases_that_cannot_be_queried)
{
	begin(NO_OTHER_INI);
	CHECK_TEXT(login_told(client), "E(28000 bouncer config error)");
	CHECK(!server && lookup_count() == 0);
	whole_close();
	login_open(OTHER_INI, USERS);
	database_get(whole.world->pools, "e", whole.world->now)->disabled = true;
	client = login_name("v", "d");
	CHECK_TEXT(login_told(client), "E(57P03 authentication database \"e\" is disabled)");
	whole_close();
	/* the error about the client's own disabled database is sent after authentication */
	login_open(INI, USERS);
	whole.holds_answers = true;
	database_get(whole.world->pools, "d", whole.world->now)->disabled = true;
	client = login_name("v", "d");
	CHECK(!client->is_gone && lookup_count() == 1);
	whole_close();
}

/* ---- clients that leave ---- */

TEST(only_client_disconnects_before_the_query)
{
	login_open(INI, USERS);
	whole.servers_answer = false;
	client = login_name("v", "d");
	CHECK_INT(lookup_of_last()->phase, LOOKUP_QUEUED);
	CHECK_INT(lookups()->turns->taken_count, 1);
	house_hang_up(client);
	house_settle(&whole);
	CHECK_INT(lookup_count(), 0);
	CHECK_INT(lookups()->turns->taken_count, 0);
	CHECK(!list_is_empty(&lookups()->dead));
	house_tick(&whole, USEC / 10);
	CHECK(list_is_empty(&lookups()->dead));
	whole_close();
}

TEST(one_of_two_clients_disconnects_before_the_query)
{
	struct house_end *second;

	login_open(INI, USERS);
	whole.servers_answer = false;
	client = login_name("v", "d");
	second = login_name("v", "d");
	house_hang_up(client);
	house_settle(&whole);
	CHECK_INT(lookup_count(), 1);
	CHECK(lookup_first_waiting(lookup_of_last())->client == whole_last_client());
	CHECK(!second->is_gone);
	whole_close();
}

/* The client that owns the next query has disconnected: another client begins it. */
TEST(owner_of_the_next_query_disconnects)
{
	struct house_end *second, *third;

	begin(INI);
	second = login_name("v", "d");
	third = login_name("v", "d");
	house_hang_up(second);
	house_settle(&whole);
	login_found(server, "v", "x");
	CHECK_INT(login_asked(client), 3);
	CHECK_INT(lookup_of_last()->phase, LOOKUP_RUNNING);
	login_found(server, "v", "x");
	CHECK_INT(login_asked(third), 3);
	whole_close();
}

/* ---- turns ---- */

TEST(look_up_waits_for_its_turn)
{
	struct house_end *other;

	begin(ONE_INI);
	other = login_name("w", "d");
	CHECK_INT(lookup_of_last()->phase, LOOKUP_HELD);
	CHECK_INT(lookup_of_last()->turn.state, TURN_WAITS);
	/* the look-up continues on the same server after the first has ended */
	login_found(server, "v", "x");
	CHECK_INT(lookup_of_last()->phase, LOOKUP_RUNNING);
	CHECK_INT(lookup_of_last()->turn.state, TURN_HAS);
	login_found(server, "w", "x");
	CHECK_INT(login_asked(other), 3);
	CHECK(house_server(&whole) == server);
	whole_close();
}

TEST(client_disconnects_while_it_waits_for_a_turn)
{
	struct house_end *other;

	begin(ONE_INI);
	other = login_name("w", "d");
	house_hang_up(other);
	house_settle(&whole);
	CHECK_INT(lookup_count(), 1);
	CHECK_INT(lookups()->turns->waiting.waiting, 0);
	whole_close();
}

/* Look-ups that make no progress, and max_auth_queue waiting logins. */
TEST(max_auth_queue_refuses_logins)
{
	begin(QUEUE_INI);
	login_name("w", "d");
	whole.world->now += USEC - 1;
	CHECK_INT(whole.world->pools->unauthenticated_count[CLIENT_LOOKUP], 2);
	sandbox_sleep(USEC - 1);
	CHECK(!login_name("x", "d")->is_gone);
	whole_close();
	begin(QUEUE_INI);
	login_name("w", "d");
	sandbox_sleep(USEC);
	client = login_name("x", "d");
	CHECK_TEXT(login_told(client), "E(53300 too many logins wait for a look-up or verifier (max_auth_queue))");
	whole_close();
	/* PAUSE holds the look-ups in the queue */
	begin(QUEUE_INI);
	login_name("w", "d");
	database_get(whole.world->pools, "d", whole.world->now)->paused = true;
	sandbox_sleep(USEC);
	CHECK(!login_name("x", "d")->is_gone);
	whole_close();
}

/* ---- no query ---- */

static void server_refuses(const char *sqlstate)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_error(&out, "FATAL", sqlstate, "go away", NULL, NULL);
	login_send(house_server(&whole), &out);
}

/* Error messages of the server are not forwarded to unauthenticated clients, because they may contain auth_user and other details. */
TEST(the_server_refuses_auth_user)
{
	login_open(INI, USERS);
	whole.servers_answer = false;
	client = login_name("v", "d");
	server_refuses("28P01");
	CHECK_TEXT(login_told(client), "E(57P03 auth_query failed)");
	CHECK_INT(lookup_count(), 0);
	CHECK_INT(lookups()->turns->taken_count, 0);
	whole_close();
}

/* Only the server knows whether the database exists: an unknown user of the database gets a password request like every other user. */
TEST(the_server_does_not_have_the_database)
{
	login_open(FALLBACK_INI, USERS);
	whole.servers_answer = false;
	client = login_name("v", "f");
	CHECK(lookup_of_last()->pool->database->stray);
	server_refuses("3D000");
	CHECK_INT(login_asked(client), 3);
	CHECK_INT(whole_last_client()->login->sought, USER_NOT_FOUND);
	CHECK(!whole_last_client()->login->source);
	login_told(client);
	CHECK_TEXT(login_password(client, "x"), "E(28P01 password authentication failed)");
	whole_close();
}

TEST(error_messages_of_failed_look_ups)
{
	static const enum close_reason told[] = { REASON_QUERY_WAIT_TIMEOUT, REASON_QUERY_TIMEOUT, REASON_QUERY_TIMEOUT_WAITING, REASON_SERVER_CRASHED,
		REASON_NO_MEMORY, REASON_SERVER_SHUTTING_DOWN, REASON_POOLER_SHUTTING_DOWN, REASON_ADMIN_KILL };

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		CHECK_INT(lookup_reason_for_client(told[i]), told[i]);
	CHECK_INT(lookup_reason_for_client(REASON_SERVER_SAID), REASON_AUTH_QUERY);
	CHECK_INT(lookup_reason_for_client(REASON_LOGIN_FAILING), REASON_AUTH_QUERY);
	CHECK_INT(lookup_reason_for_client(REASON_CONNECT_FAILED), REASON_AUTH_QUERY);
}

/* The nth and every later allocation fails. A second client joins a look-up that waits for its turn. */
TEST(out_of_memory)
{
	static const char *const pairs[] = { "user", "w", "database", "d" };
	int ended = 0, failed = 1;

	for (int more = 0; failed > 0; more++) {
		struct bytes out = BYTES_EMPTY;
		struct house_end *other;

		begin(ONE_INI);
		other = login_name("w", "d");
		client = house_connect(&whole);
		pg_build_startup(&out, 3u << 16, pairs, 4);
		whole_memory_ends(more);
		startup_packet(whole_last_client(), bytes_front(&out), bytes_size(&out));
		failed = whole_memory_is_back();
		bytes_free(&out);
		house_settle(&whole);
		ended += client->is_gone;
		if (client->is_gone)
			CHECK_TEXT(login_told(client), "E(53200 out of memory)");
		else
			CHECK_INT(lookup_of_last()->phase, LOOKUP_HELD);
		CHECK(!other->is_gone);
		CHECK_INT(lookup_count(), 2);
		whole_close();
	}
	CHECK(ended >= 3);
}

UNIT_MAIN
