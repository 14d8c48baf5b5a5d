/* User look-ups: the database, user and query; turns; clients that disconnect; lack of memory. test/wire/test_auth_query.py has the answers. */
#include "auth/lookup.h"

#include "login/startup_packet.h"
#include "logins.h"
#include "whole.h"

#define DATABASE "[databases]\nd = " HOUSE_SERVER "pool_size=2"
#define SETTINGS HOUSE_SETTINGS "auth_type=plain\npool_mode=transaction\nauth_user=look\nauth_query=SELECT $1\n"
#define INI DATABASE SETTINGS
#define ONE_INI INI "max_auth_query_connections=1\n"
#define QUEUE_INI ONE_INI "max_auth_queue=2\n"
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
	return whole.world->logins.lookups;
}

static const struct lookup *lookup_of_last(void)
{
	return whole_last_client()->login->wait.lookup;
}

static unsigned lookup_count(void)
{
	return HASH_COUNT(lookups()->by_key);
}

/* ---- where ---- */

#define SOURCE_INI(entry, asked, settings) "[databases]\nd = " HOUSE_SERVER "user=u " entry "\nx = " HOUSE_SERVER asked HOUSE_SETTINGS "auth_type=plain\n" settings

/* Returns "database as user: query" of the look-up for a client of this database, with * if no schema is in the path; "none": no look-up. */
static const char *source_of(const char *ini, const char *database)
{
	static char text[200];
	const struct lookup *l;

	login_open(ini, USERS);
	whole.servers_answer = false;
	login_name("v", database);
	l = lookup_of_last();
	if (l)
		snprintf(text, sizeof(text), "%s%s as %s: %s", l->pool->database->name, *l->path ? "" : "*", l->pool->user->name, l->sql);
	else
		snprintf(text, sizeof(text), "none");
	whole_close();
	return text;
}

TEST(without_auth_user_there_is_no_look_up)
{
	CHECK_TEXT(source_of(SOURCE_INI("", "", ""), "d"), "none");
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_dbname=x\n"), "d"), "none");
}

TEST(own_database_is_queried)
{
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\n"), "d"), "d* as a: Q");
	CHECK_TEXT(source_of(SOURCE_INI("auth_user=b", "", "auth_query=Q\n"), "d"), "d* as b: Q");
}

TEST(auth_dbname_is_queried)
{
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "x as a: Q");
	CHECK_TEXT(source_of(SOURCE_INI("auth_dbname=x", "", "auth_user=a\nauth_query=Q\n"), "d"), "x as a: Q");
}

TEST(entry_overrides_general_settings)
{
	CHECK_TEXT(source_of(SOURCE_INI("auth_dbname=d auth_user=b auth_query=R", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "d"), "d as b: R");
}

/* auth_user may be set in the entry of the queried database, with lower precedence than the client's own entry. */
TEST(auth_user_of_the_queried_database)
{
	CHECK_TEXT(source_of(SOURCE_INI("auth_dbname=x", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as c: Q");
	CHECK_TEXT(source_of(SOURCE_INI("auth_dbname=x auth_user=b", "auth_user=c", "auth_user=a\nauth_query=Q\n"), "d"), "x as b: Q");
	/* the auth_query of the queried database applies to its own clients only */
	CHECK_TEXT(source_of(SOURCE_INI("auth_dbname=x", "auth_user=c auth_query=R", "auth_query=Q\n"), "d"), "x as c: Q");
}

/* The console and databases that are not configured are not queried. */
TEST(databases_that_cannot_be_queried)
{
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\n"), "pgbouncer"), "none");
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\n"), "other"), "none");
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "pgbouncer"), "x as a: Q");
	CHECK_TEXT(source_of(SOURCE_INI("", "", "auth_user=a\nauth_query=Q\nauth_dbname=x\n"), "other"), "x as a: Q");
}

/* ---- clients that leave ---- */

TEST(only_client_disconnects_before_the_query)
{
	login_open(INI, USERS);
	whole.servers_answer = false;
	client = login_name("v", "d");
	CHECK_INT(lookup_of_last()->phase, LOOKUP_QUEUED);
	CHECK_INT(lookups()->turns.taken_count, 1);
	house_hang_up(client);
	house_settle(&whole);
	CHECK_INT(lookup_count(), 0);
	CHECK_INT(lookups()->turns.taken_count, 0);
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
	CHECK(LIST_OBJECT(lookup_of_last()->waiting.next, struct lookup_wait, node)->client == whole_last_client());
	CHECK(!second->is_gone);
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
	CHECK_INT(lookups()->turns.waiting.waiting, 0);
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
	database_get(whole.world->pools, "d", true, whole.world->now)->paused = true;
	sandbox_sleep(USEC);
	CHECK(!login_name("x", "d")->is_gone);
	whole_close();
}

/* ---- no memory ---- */

/* The nth and every later allocation fails. A second client joins a look-up that waits for its turn. */
TEST(out_of_memory_while_a_look_up_waits)
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

/* The nth and every later allocation fails: the client waits for an answer or gets an error. */
TEST(out_of_memory_during_the_query)
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
			CHECK(!whole.world->logins.lookups->by_key);
		}
		whole_close();
	}
	CHECK(ended > 5 && lost > 0);
}

UNIT_MAIN
