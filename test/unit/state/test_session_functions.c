/* Reading the functions of a database: when they are read, which clients wait for the result, and the state after a failure. */
#include "state/session_functions.h"

#include "backend/server_info.h"
#include "data_row.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "session_state=full\nserver_check_delay=1000\n")
#define OFF_INI WHOLE_INI("pool_size=2", "")
#define MINUTE (60 * USEC)

static struct house_end *near, *far;
static struct server *server;
static struct pool *pool;

/* A client has logged in; its server was opened and no longer answers. */
static bool begin(const char *ini)
{
	struct client *c;

	whole_open(ini);
	c = whole_login(&near);
	server = whole_last_server();
	far = house_server(&whole);
	if (!c || !server || !far)
		return false;
	whole_server_got(far);
	pool = c->pooled.pool;
	whole.holds_answers = true;
	return true;
}

static void end(void)
{
	whole.holds_answers = false;
	whole_close();
}

static bool is_due(void)
{
	return session_functions_are_due(pool, whole.world->now);
}

/* The server got the query for functions. */
static bool is_asked(void)
{
	return strncmp(whole_server_got(far), "Q(SELECT pg_catalog.set_config('statement_timeout'", 49) == 0;
}

static void row(size_t count, const char *const *columns)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_data_row(&out, columns, count);
	house_send(&whole, far, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
}

#define ROW(...) row(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (const char *const[]){ __VA_ARGS__ })

static void answered(bool fails)
{
	struct bytes out = BYTES_EMPTY;

	if (fails)
		pg_build_report(&out, 'E', "ERROR", "42501", "permission denied", NULL, NULL);
	else
		pg_build_string(&out, 'C', "SELECT");
	pg_build(&out, 'Z', "I", 1);
	house_send(&whole, far, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
}

/* The first client's query, with one function in the database. */
static void learn_one(const char *mark)
{
	whole_query(near, "one");
	CHECK(is_asked());
	ROW(mark);
	answered(false);
	CHECK(is_asked());
	ROW(mark);
	ROW("n", "20000", "use_tenant", "");
	ROW("s", "20000", "SELECT set_config('a.b', $1, false)", "");
	answered(false);
}

/* The database has none. */
static void learn_none(const char *mark)
{
	ROW(mark);
	answered(false);
	CHECK(is_asked());
	ROW(mark);
	answered(false);
}

/* The query of client one is answered, and the server is idle. */
static void one_is_answered(void)
{
	CHECK_TEXT(whole_server_got(far), "Q(one)");
	answered(false);
	CHECK_TEXT(whole_client_got(near), "C(SELECT) Z(I)");
	CHECK(!server->pooled.link);
}

/* The same; the server is reset first, because a reading has found a change. */
static void one_is_answered_after_a_reset(void)
{
	CHECK(strstr(whole_server_got(far), "pg_advisory_unlock_all"));
	answered(false);
	one_is_answered();
}

TEST(first_client_waits_for_the_functions)
{
	REQUIRE(begin(INI));
	CHECK(is_due() && !session_functions_of(pool));
	learn_one("1");
	CHECK(!server->task);
	REQUIRE(session_functions_of(pool));
	CHECK_INT(state_functions_summary(session_functions_of(pool)).count, 1);
	CHECK(!is_due());
	one_is_answered();
	/* and no further query */
	whole_query(near, "one");
	one_is_answered();
	end();
}

TEST(functions_are_not_read_if_off)
{
	REQUIRE(begin(OFF_INI));
	whole_query(near, "one");
	one_is_answered();
	end();
}

TEST(database_without_functions)
{
	REQUIRE(begin(INI));
	whole_query(near, "one");
	CHECK(is_asked());
	learn_none("1");
	CHECK(!session_functions_of(pool) && session_functions_are_known(pool) && !is_due());
	one_is_answered();
	end();
}

/* Once a minute, one client waits; nothing has changed. */
TEST(functions_are_read_again)
{
	const struct state_functions *known;

	REQUIRE(begin(INI));
	learn_one("1");
	one_is_answered();
	known = session_functions_of(pool);
	house_tick(&whole, MINUTE - USEC);
	CHECK(!is_due());
	house_tick(&whole, USEC);
	CHECK(is_due());
	whole_query(near, "one");
	CHECK(is_asked());
	/* other clients continue with the known functions */
	CHECK(!is_due());
	ROW("1");
	answered(false);
	CHECK(session_functions_of(pool) == known);
	one_is_answered();
	end();
}

TEST(one_client_waits_after_a_command)
{
	REQUIRE(begin(INI));
	learn_one("1");
	one_is_answered();
	session_functions_changed(pool->database, whole.world->now);
	CHECK(is_due());
	whole_query(near, "one");
	CHECK(is_asked());
	/* other clients continue, and their texts are unproven */
	CHECK(!is_due() && !session_functions_are_known(pool));
	learn_none("2");
	CHECK(!is_due() && !session_functions_of(pool) && session_functions_are_known(pool));
	one_is_answered_after_a_reset();
	end();
}

/* If a command arrives while the functions are read, the result may be out of date. */
TEST(command_while_functions_are_read)
{
	REQUIRE(begin(INI));
	whole_query(near, "one");
	CHECK(is_asked());
	session_functions_changed(pool->database, whole.world->now);
	learn_none("1");
	CHECK(!session_functions_are_known(pool));
	/* the same client asks again */
	CHECK(is_asked());
	learn_none("2");
	CHECK(session_functions_are_known(pool));
	CHECK(!is_due());
	one_is_answered_after_a_reset();
	end();
}

TEST(error_keeps_the_known_functions)
{
	REQUIRE(begin(INI));
	learn_one("1");
	one_is_answered();
	session_functions_changed(pool->database, whole.world->now);
	whole_query(near, "one");
	CHECK(is_asked());
	answered(true);
	CHECK(session_functions_of(pool) && !session_functions_are_known(pool));
	/* again, but not at once */
	CHECK(!is_due());
	CHECK(session_functions_are_due(pool, whole.world->now + 5 * USEC));
	one_is_answered();
	end();
}

/* A client that changes them in a loop does not make others wait for each time. */
TEST(rate_of_readings)
{
	int readings = 0;

	REQUIRE(begin(INI));
	learn_one("1");
	one_is_answered();
	for (; readings < 100; readings++) {
		session_functions_changed(pool->database, whole.world->now);
		if (!is_due())
			break;
		whole_query(near, "one");
		CHECK(is_asked());
		ROW("1");
		answered(false);
		one_is_answered();
	}
	CHECK_INT(readings, 7);
	whole_query(near, "one");
	one_is_answered();
	CHECK(!session_functions_are_known(pool) && server->session.tainted_by == whole_last_client()->peer.id);
	house_tick(&whole, USEC);
	CHECK(is_due());
	end();
}

TEST(client_disconnects)
{
	REQUIRE(begin(INI));
	whole_query(near, "one");
	CHECK(is_asked());
	house_hang_up(near);
	house_settle(&whole);
	CHECK(!server->pooled.link && server->session.functions);
	CHECK(server->task == &task_functions);
	answered(false);
	CHECK(!server->session.functions && is_due());
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	end();
}

TEST(out_of_memory)
{
	static const uint8_t query[] = "Q\0\0\0\10one";

	REQUIRE(begin(INI));
	whole_memory_ends(0);
	house_send(&whole, near, query, sizeof(query));
	house_settle(&whole);
	CHECK(whole_memory_is_back() > 0);
	whole.holds_answers = false;
	house_settle(&whole);
	whole_close();
}

/* Returns how many allocations failed, if memory ends after `more` allocations of the question. */
static int ask_without_memory(int more)
{
	int failed;

	whole_open(OFF_INI);
	if (!whole_in_transaction(&near, &far))
		return -1;
	server = whole_last_server();
	whole_memory_ends(more);
	session_functions_ask(server);
	failed = whole_memory_is_back();
	CHECK_INT(peer_is_stopped(&server->peer), failed > 0);
	house_settle(&whole);
	whole_close();
	return failed;
}

TEST(out_of_memory_for_the_question)
{
	int more = 0;

	while (ask_without_memory(more) > 0)
		more++;
	/* the functions of the database, the question, the functions found */
	CHECK(more >= 3);
}

TEST(pool_with_a_changed_address)
{
	REQUIRE(begin(INI));
	learn_one("1");
	one_is_answered();
	pool->generation++;
	CHECK(server_info_get(pool, whole.world->params));
	CHECK(!session_functions_of(pool) && is_due());
	end();
}

UNIT_MAIN
