/* The query about a client's session: its SQL, and the rows of the answer that are kept. */
#include "state/session_question.h"

#include "state/session_state.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "session_state=full\n")
#define TIMEOUT \
	"SELECT pg_catalog.set_config('pgweir.timeout',pg_catalog.current_setting('statement_timeout'),true)," \
	"pg_catalog.set_config('statement_timeout','0',true),1"
#define VALUE_LONG 40000	/* two such values exceed the size that is kept of an answer */

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

/* A client in a transaction, on a server that no longer answers. */
static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	whole_server_got(far);
	whole.holds_answers = true;
	return client && server && client->link_facts.keeps_state;
}

static void end(void)
{
	session_question_forget(server);
	server->task = NULL;
	whole.holds_answers = false;
	whole_close();
}

/* Returns the query to the server if these facts are in doubt. */
static const char *asked(unsigned dirty)
{
	server->session.dirty = (uint16_t)dirty;
	session_state_ask(server);
	house_settle(&whole);
	return whole_server_got(far);
}

static void reads(const char *text)
{
	whole.world->share.words_left = LOOKS_OF_TURN;
	session_state_text(server, client, (const uint8_t *)text, strlen(text) + 1, TEXT_OF_QUERY);
}

/* A DataRow of these texts (NULL: a null value), without its last `missing` bytes. */
static void row(size_t missing, size_t count, const char *const *columns)
{
	struct bytes body = BYTES_EMPTY;
	struct pg_frame f = { .type = 'D' };

	bytes_append_u16(&body, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		bytes_append_u32(&body, columns[i] ? (uint32_t)strlen(columns[i]) : UINT32_MAX);
		bytes_append(&body, columns[i], columns[i] ? strlen(columns[i]) : 0);
	}
	f.body = bytes_front(&body);
	f.size = (uint32_t)bytes_size(&body);
	f.here = f.size - (uint32_t)missing;
	task_state.on_row(server, &f);
	bytes_free(&body);
}

#define ROW(...) row(0, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (const char *const[]){ __VA_ARGS__ })
#define CUT_ROW(...) row(1, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (const char *const[]){ __VA_ARGS__ })

/* Returns the names and values that have been kept. */
static const char *kept(void)
{
	static char text[1000];
	const char *at = server->session.answer->count > 0 ? (const char *)bytes_front(&server->session.answer->pairs) : NULL;
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < server->session.answer->count; i++, at += strlen(at) + 1) {
		const char *name = at;

		at += strlen(at) + 1;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%s", used > 0 ? " " : "", name, at);
	}
	return text;
}

/* ---- the question ---- */

TEST(query_covers_only_facts_in_doubt)
{
	REQUIRE(begin());
	CHECK_TEXT(asked(PIN_CURSOR), "Q(" TIMEOUT ";SELECT 2 WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_cursors WHERE is_holdable))");
	CHECK(server->task == &task_state);
	end();
	REQUIRE(begin());
	CHECK_TEXT(asked(PIN_LISTENING | PIN_STATEMENT),
		   "Q(" TIMEOUT ";SELECT 4 WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_prepared_statements WHERE from_sql)"
		   ";SELECT c,0,0,0 FROM pg_catalog.pg_listening_channels() c)");
	end();
}

TEST(pins_without_a_query)
{
	REQUIRE(begin());
	CHECK_TEXT(asked(PIN_LIBRARY | PIN_SEQUENCE), "Q(" TIMEOUT ")");
	end();
}

TEST(role_comes_last)
{
	const char *text, *pin;

	REQUIRE(begin());
	text = asked(PIN_LOCK | FACT_ROLE);
	pin = strstr(text, ";SELECT 3 WHERE");
	CHECK(pin && strstr(pin, "current_setting('role')"));
	end();
}

TEST(custom_parameters_are_queried_by_name)
{
	const char *text, *found;

	REQUIRE(begin());
	CHECK_INT(client->session->count, 0);
	reads("SET app.tenant = 'a'");
	reads("SELECT set_config('app.tenant', 'b', false), set_config('app.other', 'c', false)");
	CHECK_INT(client->session->count, 2);
	text = asked(PIN_PARAMETERS);
	found = strstr(text, " UNION ALL SELECT 'app.tenant',pg_catalog.current_setting('app.tenant',true)");
	CHECK(found && !strstr(found + 12, "SELECT 'app.tenant'"));
	CHECK(strstr(text, " UNION ALL SELECT 'app.other',pg_catalog.current_setting('app.other',true)"));
	end();
}

/* The client may have parameters from another process or from its start-up packet: no text has named them. */
TEST(custom_parameters_of_the_client_are_queried_by_name)
{
	struct params_table *table;
	const struct params *others, *set;
	const struct params_pair pairs[] = { { "app.given", "1" }, { "search_path", "s" } };
	const char *values[64] = { NULL };
	const char *text;

	REQUIRE(begin());
	table = whole.world->params;
	others = params_of_values(table, values, pairs, 2);
	REQUIRE(others);
	set = params_with_others(table, client->params, others);
	REQUIRE(set);
	params_drop(table, &others);
	params_replace(table, &client->params, set);
	text = asked(PIN_PARAMETERS);
	CHECK(strstr(text, "SELECT 'app.given',"));
	/* pg_settings contains this parameter */
	CHECK(!strstr(text, "SELECT 'search_path',"));
	end();
}

TEST(out_of_memory_ends_the_server)
{
	int failures = 0;

	for (int more = 0; more < 2; more++) {
		REQUIRE(begin());
		server->session.dirty = PIN_CURSOR;
		whole_memory_ends(more);
		session_state_ask(server);
		failures += whole_memory_is_back() > 0;
		CHECK(peer_is_ending(&server->peer));
		CHECK_INT(server->peer.end_reason, REASON_NO_MEMORY);
		server->task = NULL;
		whole.holds_answers = false;
		house_settle(&whole);
		whole_close();
	}
	CHECK_INT(failures, 2);
}

/* ---- the answer ---- */

TEST(rows_are_distinguished_by_their_columns)
{
	REQUIRE(begin());
	asked(PIN_PARAMETERS | PIN_CURSOR);
	ROW("0", "0", "1");
	ROW("work_mem", "64");
	ROW("2");
	ROW("61:62");
	ROW("61:6e6f6e65");
	ROW("61:63");
	ROW("no note");
	CHECK_TEXT(kept(), "work_mem=64");
	CHECK_INT(server->session.answer->pins, PIN_CURSOR);
	CHECK_TEXT(server->session.answer->role, "61:62");
	CHECK_TEXT(server->session.answer->first_role, "61:6e6f6e65");
	CHECK(!server->session.answer->is_too_much);
	end();
}

TEST(unset_parameter)
{
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	ROW("app.unset", NULL);
	ROW("app.empty", "");
	CHECK_TEXT(kept(), "app.empty=");
	CHECK(!server->session.answer->is_too_much);
	end();
}

TEST(parameter_that_cannot_be_restored_is_omitted)
{
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	ROW("transaction_isolation", "serializable");
	ROW("work_mem", "64");
	CHECK_TEXT(kept(), "work_mem=64");
	end();
}

/* Then the client keeps the server with all its parameters. */
TEST(answer_that_is_too_large_pins_the_server)
{
	static char longest[PARAMS_NAME_LONGEST + 2], value[VALUE_LONG + 1];

	memset(longest, 'n', sizeof(longest) - 1);
	memset(value, 'v', VALUE_LONG);
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	ROW("work_mem", value);
	CHECK(!server->session.answer->is_too_much);
	ROW("temp_buffers", value);
	CHECK(server->session.answer->is_too_much);
	CHECK_INT(server->session.answer->count, 1);
	end();
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	ROW(longest, "1");
	CHECK(server->session.answer->is_too_much);
	end();
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	CUT_ROW("work_mem", "64");
	CHECK(server->session.answer->is_too_much);
	CHECK_TEXT(kept(), "");
	end();
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	ROW("no name'", "1");
	CHECK(server->session.answer->is_too_much);
	end();
	REQUIRE(begin());
	asked(PIN_PARAMETERS);
	for (int i = 0; i <= PARAMS_OTHERS_MOST; i++) {
		char name[20];

		CHECK(!server->session.answer->is_too_much);
		snprintf(name, sizeof(name), "app.p%d", i);
		ROW(name, "1");
	}
	CHECK(server->session.answer->is_too_much);
	CHECK_INT(server->session.answer->count, PARAMS_OTHERS_MOST);
	end();
}

TEST(malformed_row)
{
	static const uint8_t numberless[] = { 0, 1, 0, 0, 0, 9, '2' };
	struct pg_frame f = { .type = 'D', .body = numberless, .size = sizeof(numberless), .here = sizeof(numberless) };

	REQUIRE(begin());
	asked(PIN_CURSOR);
	task_state.on_row(server, &f);
	CHECK_INT(server->session.answer->pins, 0);
	ROW("8");
	CHECK_INT(server->session.answer->pins, 0);
	end();
	/* no query is in progress */
	REQUIRE(begin());
	ROW("2");
	CHECK(!server->session.answer);
	end();
}

/* The server answers the query with an error, for example because a cancel request of the client hits it. */
static void fails(void)
{
	struct bytes out = BYTES_EMPTY;

	pg_build_report(&out, 'E', "ERROR", "57014", "canceling statement due to user request", NULL, NULL);
	pg_build(&out, 'Z', "T", 1);
	house_send(&whole, far, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
}

TEST(query_is_repeated_twice)
{
	REQUIRE(begin());
	asked(PIN_CURSOR);
	ROW("2");
	fails();
	CHECK(strstr(whole_server_got(far), ";SELECT 2 WHERE"));
	CHECK_INT(server->session.answer->pins, 0);
	fails();
	CHECK(strstr(whole_server_got(far), ";SELECT 2 WHERE"));
	fails();
	CHECK_TEXT(whole_server_got(far), "X");
	CHECK(strstr(whole_client_got(near), "E(08P01 "));
	whole.holds_answers = false;
	whole_close();
}

TEST(query_is_not_repeated_after_a_fatal_error)
{
	REQUIRE(begin());
	asked(PIN_CURSOR);
	server->task_failed = server->said_fatal = true;
	CHECK_INT(server_task_end(server), TASK_END_NOTHING);
	CHECK_INT(server->peer.end_reason, REASON_STATE_UNKNOWN);
	session_question_forget(server);
	whole.holds_answers = false;
	whole_close();
}

TEST(handed_over_answer_is_incomplete)
{
	struct bytes out = BYTES_EMPTY;

	REQUIRE(begin());
	asked(PIN_CURSOR);
	/* the other process has received the first rows */
	session_question_forget(server);
	ROW("2");
	CHECK(!server->session.answer);
	pg_build_string(&out, 'C', "SELECT 1");
	pg_build(&out, 'Z', "T", 1);
	house_send(&whole, far, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	CHECK(strstr(whole_server_got(far), ";SELECT 2 WHERE"));
	CHECK(server->session.answer && server->session.answer->pins == 0);
	end();
}

/* ---- the effect of the answer ---- */

/* A client in a transaction, whose server has answered that these are set, each name and value with its NUL. */
static bool begin_answer(const char *pairs, size_t size, size_t count)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	if (!client || !server || !(server->session.answer = mem_try(sizeof(*server->session.answer))))
		return false;
	bytes_append(&server->session.answer->pairs, pairs, size);
	server->session.answer->count = count;
	server->session.dirty = PIN_PARAMETERS;
	server_task_to(server, &task_state);
	return true;
}
#define ANSWERED(pairs, count) begin_answer(pairs, sizeof(pairs) - 1, count)

static void end_answer(void)
{
	session_question_forget(server);
	whole_close();
}

TEST(set_parameters_are_stored_for_both)
{
	REQUIRE(ANSWERED("work_mem\0" "9MB\0app.x\0a\0", 2));
	CHECK_INT(server_task_end(server), TASK_END_LINK);
	CHECK_TEXT(params_other_value(server->params, "work_mem"), "9MB");
	CHECK_TEXT(params_other_value(client->params, "work_mem"), "9MB");
	CHECK_TEXT(params_other_value(client->params, "app.x"), "a");
	end_answer();
}

TEST(parameters_that_are_no_longer_set_are_removed)
{
	REQUIRE(ANSWERED("work_mem\0" "9MB\0", 1));
	CHECK_INT(server_task_end(server), TASK_END_LINK);
	CHECK(params_other_value(client->params, "work_mem") && !server->session.answer);
	server->session.answer = mem_try(sizeof(*server->session.answer));
	REQUIRE(server->session.answer);
	server->session.dirty = PIN_PARAMETERS;
	server_task_to(server, &task_state);
	CHECK_INT(server_task_end(server), TASK_END_LINK);
	CHECK(!params_other_value(client->params, "work_mem") && !params_other_value(server->params, "work_mem"));
	end_answer();
}

TEST(answer_that_could_not_be_stored)
{
	const struct params *had;

	REQUIRE(ANSWERED("work_mem\0" "9MB\0", 1));
	had = client->params;
	server->session.answer->is_too_much = true;
	CHECK_INT(server_task_end(server), TASK_END_LINK);
	CHECK_INT(client->pooled.pins, PIN_PARAMETERS);
	CHECK(client->params == had);
	end_answer();
}

TEST(role_is_stored)
{
	REQUIRE(ANSWERED("", 0));
	server->session.dirty |= FACT_ROLE;
	server->session.answer->role = mem_copy_string("75:61");
	server->session.answer->first_role = mem_copy_string("75:6e6f6e65");
	CHECK_INT(server_task_end(server), TASK_END_LINK);
	CHECK_TEXT(params_other_value(client->params, PARAMS_ROLE), "75:61");
	end_answer();
}

TEST(out_of_memory_changes_nothing)
{
	for (int more = 0; more < 3; more++) {
		const struct params *had;

		REQUIRE(ANSWERED("app.x\0a\0", 1));
		had = client->params;
		whole_memory_ends(more);
		CHECK_INT(server_task_end(server), TASK_END_NOTHING);
		CHECK(whole_memory_is_back() > 0);
		CHECK(client->params == had && peer_is_ending(&server->peer));
		CHECK_INT(server->peer.end_reason, REASON_NO_MEMORY);
		end_answer();
	}
}

UNIT_MAIN
