/* The session of a server: its parameters and its role, the effect of SET, RESET and DISCARD ALL, and its states without a client. */

#include "state/server_session.h"
#include "state/session_restore.h"
#include "state/task.h"
#include "unit.h"
#include "whole.h"

#include <string.h>

#define INI WHOLE_INI("pool_size=1", "")
#define SETTING_INI WHOLE_INI("pool_size=1 connect_query='SET search_path TO a'", "")
#define READING_INI WHOLE_INI("pool_size=1 connect_query='TABLE a'", "")

#define TRACKED_MOST 16

static struct server *server;

static bool begin(const char *ini)
{
	struct house_end *end;

	whole_open(ini);
	CHECK(whole_login(&end));
	server = whole_last_server();
	CHECK(server && server->pooled.state == SERVER_IDLE);
	CHECK(params_count(whole.world->params) <= TRACKED_MOST);
	return server;
}

static const char *value_of(int index)
{
	const char *value = params_get(server->params, index);

	return value ? value : "";
}

static bool is_reported(int index)
{
	return server->session.reported & (uint64_t)1 << index;
}

TEST(reported_value_is_known)
{
	REQUIRE(begin(INI));
	server->session.reported = 0;
	server_parameter(server, "DateStyle", "German, DMY");
	CHECK_TEXT(value_of(PARAM_DATESTYLE), "German, DMY");
	CHECK(is_reported(PARAM_DATESTYLE) && !is_reported(PARAM_TIMEZONE));
	whole_close();
}

TEST(untracked_parameter)
{
	const struct params *before;

	REQUIRE(begin(INI));
	before = server->params;
	server->session.reported = 0;
	server_parameter(server, "in_hot_standby", "on");
	CHECK(server->params == before && server->session.reported == 0);
	whole_close();
}

TEST(out_of_memory_makes_parameters_unknown)
{
	REQUIRE(begin(INI));
	whole_memory_ends(0);
	server_parameter(server, "DateStyle", "German, DMY");
	CHECK(whole_memory_is_back() > 0);
	CHECK_INT(server->pooled.close_reason, REASON_NO_MEMORY);
	whole_close();
}

/* ---- SET, RESET and DISCARD ALL ---- */

/* Returns whether parameters are unknown after a SET that was sent for this task. */
static bool is_unknown_after(const struct server_task *task, bool for_client)
{
	const struct server_task *before = server->task;

	server->session.stale = 0;
	server->task = task;
	server_note_command(server, false, for_client);
	server->task = before;
	return server->session.stale & STALE_PARAMS;
}

TEST(set_makes_unreported_parameters_unknown)
{
	REQUIRE(begin(INI));
	CHECK(is_unknown_after(NULL, true));
	CHECK(is_unknown_after(&task_reset, false));
	CHECK(is_unknown_after(&task_check, false));
	/* values set for a client, and values set by connect_query, are known */
	CHECK(!is_unknown_after(&task_params, false));
	CHECK(!is_unknown_after(&task_connect_query, false));
	server->session.stale = 0;
	whole_close();
}

static void set(int index, const char *value)
{
	struct params_table *table = whole.world->params;

	params_replace(table, &server->params, params_with(table, server->params, index, value));
}

TEST(discard_all_resets_unreported_parameters)
{
	REQUIRE(begin(INI));
	server->session.reported = (uint64_t)1 << PARAM_DATESTYLE;
	set(PARAM_DATESTYLE, "German, DMY");
	set(PARAM_SEARCH_PATH, "a, b");
	server->session.stale = STALE_PARAMS;
	server_note_command(server, true, true);
	CHECK_TEXT(value_of(PARAM_SEARCH_PATH), "");
	/* the server has reported the current value itself */
	CHECK_TEXT(value_of(PARAM_DATESTYLE), "German, DMY");
	CHECK(!(server->session.stale & STALE_PARAMS));
	whole_close();
}

TEST(discard_all_out_of_memory)
{
	REQUIRE(begin(INI));
	set(PARAM_SEARCH_PATH, "a, b");
	set(PARAM_DATESTYLE, "German, DMY");
	server->session.reported = 0;
	server->session.stale = 0;
	whole_memory_ends(0);
	server_note_command(server, true, true);
	CHECK(whole_memory_is_back() > 0);
	CHECK(server->session.stale & STALE_PARAMS);
	whole_close();
}

/* ---- search_path ---- */

/* Returns whether search_path is asked for after connect_query. */
static bool notes_search_path(const char *ini, uint64_t reported, uint32_t dedicated)
{
	struct house_end *end;
	bool asked;

	if (!begin(ini))
		return false;
	end = house_server(&whole);
	whole_server_got(end);
	whole.holds_answers = true;
	server->session.reported = reported;
	server->pooled.dedicated = dedicated;
	pool_server_become(&server->pooled, SERVER_TESTED, whole.world->now);
	server->status = 'I';
	task_connect_query.on_done(server, false);
	server->pooled.dedicated = 0;
	house_settle(&whole);
	asked = strstr(whole_server_got(end), "current_setting('search_path')");
	server->task = NULL;
	whole.holds_answers = false;
	whole_close();
	return asked;
}

TEST(search_path_is_noted_if_connect_query_may_set_it)
{
	CHECK(!notes_search_path(READING_INI, 0, 0));
	CHECK(notes_search_path(SETTING_INI, 0, 0));
	CHECK(!notes_search_path(SETTING_INI, (uint64_t)1 << PARAM_SEARCH_PATH, 0));
	CHECK(!notes_search_path(SETTING_INI, 0, 1));
}

/* The answer to the query of task_note; `size`: cut off after these bytes. */
static void note(const char *role, const char *search_path, size_t size)
{
	struct bytes row = BYTES_EMPTY;
	struct pg_frame f = { .type = 'D' };

	bytes_append_u16(&row, search_path ? 2 : 1);
	bytes_append_u32(&row, (uint32_t)strlen(role));
	bytes_append_text(&row, role);
	if (search_path) {
		bytes_append_u32(&row, (uint32_t)strlen(search_path));
		bytes_append_text(&row, search_path);
	}
	f.body = bytes_front(&row);
	f.size = f.here = size < bytes_size(&row) ? (uint32_t)size : (uint32_t)bytes_size(&row);
	task_note.on_row(server, &f);
	bytes_free(&row);
}

TEST(search_path_that_was_noted)
{
	REQUIRE(begin(SETTING_INI));
	server->session.reported = 0;
	note("61", "6g", SIZE_MAX);
	CHECK(!server->session.search_path);
	note("61", "616", SIZE_MAX);
	CHECK(!server->session.search_path);
	note("61", "6162", SIZE_MAX);
	note("61", "7172", 14);
	CHECK_TEXT(server->session.search_path, "6162");
	server_note_command(server, true, true);
	CHECK(server->session.stale & STALE_PARAMS && server->pooled.close_reason == REASON_NONE);
	CHECK(!server_restore_notes(server, NULL, "xx") && server_restore_notes(server, NULL, ""));
	whole_close();
}

TEST(search_path_that_is_not_known)
{
	REQUIRE(begin(SETTING_INI));
	server->session.reported = 0;
	server_note_command(server, false, true);
	CHECK_INT(server->pooled.close_reason, REASON_PARAMS_UNKNOWN);
	server->pooled.close_reason = REASON_NONE;
	whole_close();
}

/* ---- parameters that cannot be restored ---- */

/* Returns the reason for which the server is closed at release, with this parameter set. */
static enum close_reason closed_with(const char *ini, const char *name, uint64_t dedicated)
{
	const char *values[TRACKED_MOST] = { NULL };
	struct params_pair pair = { .name = name, .value = "1" };
	enum close_reason why;

	if (!begin(ini))
		return REASON_NONE;
	params_replace(whole.world->params, &server->params, params_of_values(whole.world->params, values, &pair, 1));
	server->pooled.dedicated = dedicated;
	server_close_if_params_stay(server);
	why = server->pooled.close_reason;
	server->pooled.dedicated = 0;
	whole_close();
	return why;
}

#define NAMES_INI WHOLE_INI("pool_size=1 connect_query='SET Work_Mem TO 1'", "")
#define SESSION_INI WHOLE_INI("pool_size=1 pool_mode=session connect_query='SET work_mem TO 1'", "")

TEST(parameters_of_connect_query_cannot_be_restored)
{
	CHECK_INT(closed_with(INI, "work_mem", 0), REASON_NONE);
	CHECK_INT(closed_with(SETTING_INI, "work_mem", 0), REASON_NONE);
	CHECK_INT(closed_with(NAMES_INI, "work_mem", 0), REASON_PARAMS_UNKNOWN);
	CHECK_INT(closed_with(SESSION_INI, "work_mem", 0), REASON_NONE);
	/* the server ends with its client */
	CHECK_INT(closed_with(NAMES_INI, "work_mem", 1), REASON_NONE);
}

TEST(parameters_that_close_a_server_without_a_client)
{
	CHECK(params_kind_of("idle_session_timeout") != PARAMS_SETTABLE);
	CHECK_INT(closed_with(INI, "idle_session_timeout", 0), REASON_PARAMS_UNKNOWN);
	CHECK_INT(closed_with(SESSION_INI, "idle_session_timeout", 0), REASON_PARAMS_UNKNOWN);
	CHECK_INT(closed_with(INI, "idle_session_timeout", 1), REASON_NONE);
}

TEST(earlier_close_reason_is_kept)
{
	const char *values[TRACKED_MOST] = { NULL };
	struct params_pair pair = { .name = "idle_session_timeout", .value = "1" };

	REQUIRE(begin(INI));
	params_replace(whole.world->params, &server->params, params_of_values(whole.world->params, values, &pair, 1));
	server->pooled.close_reason = REASON_OBSOLETE;
	server_close_if_params_stay(server);
	CHECK_INT(server->pooled.close_reason, REASON_OBSOLETE);
	whole_close();
}

/* ---- the role ---- */

#define ROLE_INI WHOLE_INI("pool_size=1 connect_query='SELECT prepare()'", "")
#define OWN_INI WHOLE_INI("pool_size=1 pool_mode=session connect_query='SELECT prepare()'", "server_reset_query=DISCARD ALL\n")
#define UNRESET_INI WHOLE_INI("pool_size=1 pool_mode=session connect_query='SELECT prepare()'", "server_reset_query=\n")

/* A server without a note of its first role; the test plays its client and fills the ledger. */
static void begin_role(const char *ini)
{
	FUZZ_CHECK(begin(ini));
	mem_free(server->session.role);
	server->session.role = NULL;
	server->session.stale = 0;
}

static void end_role(void)
{
	ledger_clear(&server->ledger);
	ledger_clear(&server->ledger);
	server->session.stale = 0;
	server->pooled.close_reason = REASON_NONE;
	whole_close();
}

static void send_query(const char *text)
{
	role_query_sent(server, (const uint8_t *)text, strlen(text) + 1);
	CHECK(ledger_sent_query(&server->ledger));
}

/* The server answers with the tag SET and ReadyForQuery. Returns whether the role is unknown afterwards. */
static bool answered(void)
{
	enum ledger_owner owner;

	CHECK(ledger_received(&server->ledger, 'C', &owner) == LEDGER_ANSWER);
	server_note_command(server, false, true);
	CHECK(ledger_received(&server->ledger, 'Z', &owner) == LEDGER_ANSWER);
	return server->session.stale & STALE_ROLE;
}

static bool after(const char *text)
{
	bool unknown;

	begin_role(INI);
	send_query(text);
	unknown = answered();
	end_role();
	return unknown;
}

TEST(queries)
{
	CHECK(!after("SET x = 1"));
	CHECK(!after("SET LOCAL ROLE a"));
	CHECK(after("SET ROLE a"));
	CHECK(after("SELECT 1; SET x = 1"));
	/* the text is incomplete */
	begin_role(INI);
	role_query_sent(server, (const uint8_t *)"SET x = 1", 9);
	CHECK(!server->session.plain_set);
	end_role();
}

TEST(queries_in_a_row)
{
	begin_role(INI);
	send_query("SET x = 1");
	send_query("SET x = 1");
	CHECK(!answered());
	/* another statement was pending when the second was sent */
	CHECK(answered());
	end_role();
}

TEST(statements_of_the_extended_protocol)
{
	static const struct { const char *text; bool unknown; } all[] = {
		{ "SET x = 1", false }, { "SELECT 1", false }, { "SET ROLE a", true }, { "RESET ROLE", true },
		{ "/**/SET ROLE a", true },
	};
	enum ledger_owner owner;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin_role(INI);
		role_parse_sent(server, (const uint8_t *)all[i].text, strlen(all[i].text) + 1);
		CHECK(ledger_sent(&server->ledger, 'E', 0, OWED_TO_CLIENT));
		CHECK(ledger_sent(&server->ledger, 'S', 0, OWED_TO_CLIENT));
		/* a later Query does not change the result */
		send_query("SET x = 1");
		CHECK(ledger_received(&server->ledger, 'C', &owner) == LEDGER_ANSWER);
		server_note_command(server, false, true);
		CHECK((server->session.stale & STALE_ROLE) == (all[i].unknown ? STALE_ROLE : 0));
		end_role();
	}
}

TEST(lost_ledger)
{
	begin_role(INI);
	server->ledger.lost = 1;
	server_note_command(server, false, true);
	CHECK(server->session.stale & STALE_ROLE);
	end_role();
}

TEST(role_reported_by_the_server)
{
	static const char *const all[] = { "session_authorization", "is_superuser", "in_hot_standby", "DateStyle", "" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin_role(INI);
		role_reported(server, all[i]);
		CHECK((server->session.stale != 0) == (i < 2));
		end_role();
	}
}

/* Returns the SQL that restores the role. */
static const char *sql(const char *note, bool for_transaction)
{
	static char seen[1024];
	struct bytes out = BYTES_EMPTY;

	CHECK(role_sql(note, for_transaction, &out) && !out.failed && bytes_size(&out) < sizeof(seen));
	snprintf(seen, sizeof(seen), "%.*s", (int)bytes_size(&out), (const char *)bytes_front(&out));
	bytes_free(&out);
	return seen;
}

TEST(sql_of_a_role)
{
	struct bytes out = BYTES_EMPTY;

	CHECK_TEXT(sql(NULL, false), "pg_catalog.set_config('session_authorization',NULL,false) IS NULL,"
		   "pg_catalog.set_config('role',NULL,false) IS NULL");
	CHECK_TEXT(sql("61:c3a4", true), "pg_catalog.set_config('session_authorization',"
		   "pg_catalog.convert_from(pg_catalog.decode('61','hex'),pg_catalog.getdatabaseencoding()),true) IS NULL,"
		   "pg_catalog.set_config('role',"
		   "pg_catalog.convert_from(pg_catalog.decode('c3a4','hex'),pg_catalog.getdatabaseencoding()),true) IS NULL");
	CHECK(!role_sql("61", false, &out) && bytes_size(&out) == 0);
}

TEST(malformed_role_rows)
{
	static const char *const bad[] = {
		"", ":", "61", "61:", ":61", "6:61", "61:6", "61:6A", "61:61:61", "61: 61", "61:zz", "61:61\n", "'',1",
	};
	char name[600] = "";
	static const uint8_t null[] = { 0, 1, 0xff, 0xff, 0xff, 0xff };
	struct pg_frame f = { .type = 'D', .body = null, .size = sizeof(null), .here = sizeof(null) };

	begin_role(INI);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		note(bad[i], NULL, SIZE_MAX);
		CHECK(!server->session.role && !server_restore_notes(server, bad[i], NULL));
	}
	/* the longest names */
	memset(name, '6', 511);
	name[254] = ':';
	note(name, NULL, SIZE_MAX);
	CHECK_TEXT(server->session.role, name);
	strcat(name, "66");
	note(name, NULL, SIZE_MAX);
	CHECK(!server_restore_notes(server, name, NULL) && strlen(server->session.role) == 511);
	/* rows that are truncated, or contain NULL */
	for (size_t size = 0; size < 11; size++)
		note("61:61", NULL, size);
	task_note.on_row(server, &f);
	CHECK_INT(strlen(server->session.role), 511);
	end_role();
}

/* A Query of the client has set a role. */
static void set_role(void)
{
	send_query("SET ROLE a");
	answered();
}

TEST(role_after_connect_query)
{
	/* the first role is not known: the server is closed when it is released */
	begin_role(ROLE_INI);
	server_note_command(server, false, true);
	CHECK(!(server->session.stale & STALE_ROLE) && server->pooled.close_reason == REASON_NONE);
	set_role();
	CHECK_INT(server->pooled.close_reason, REASON_ROLE_UNKNOWN);
	end_role();
	begin_role(ROLE_INI);
	note("61:61", NULL, SIZE_MAX);
	set_role();
	CHECK(server->session.stale & STALE_ROLE && server->pooled.close_reason == REASON_NONE);
	end_role();
	/* the server is already marked to close for another reason */
	begin_role(ROLE_INI);
	server->pooled.close_reason = REASON_OBSOLETE;
	set_role();
	CHECK_INT(server->pooled.close_reason, REASON_OBSOLETE);
	end_role();
}

/* In a session of its own a client's role is undone by server_reset_query. */
static enum close_reason closed_after_role(const char *ini)
{
	struct house_end *near, *end;
	struct client *client;
	enum close_reason why;

	whole_open(ini);
	client = whole_in_transaction(&near, &end);
	server = whole_last_server();
	FUZZ_CHECK(client && server);
	mem_free(server->session.role);
	server->session.role = NULL;
	role_reported(server, "is_superuser");
	CHECK(server->session.stale & STALE_ROLE);
	why = server->pooled.close_reason;
	whole_close();
	return why;
}

TEST(role_in_a_session_of_its_own)
{
	CHECK_INT(closed_after_role(OWN_INI), REASON_NONE);
	CHECK_INT(closed_after_role(UNRESET_INI), REASON_ROLE_UNKNOWN);
}

/* Returns whether the role is still unknown after this server_reset_query. */
static bool is_role_unknown_after(const char *query)
{
	const char *before;
	bool unknown;

	begin_role(INI);
	before = whole.world->conf->settings.server_reset_query;
	whole.world->conf->settings.server_reset_query = query;
	server->session.stale = STALE_ROLE | STALE_PARAMS;
	task_reset.on_done(server, false);
	whole.world->conf->settings.server_reset_query = before;
	CHECK(server->session.stale & STALE_PARAMS);
	unknown = server->session.stale & STALE_ROLE;
	end_role();
	return unknown;
}

TEST(role_after_a_reset)
{
	CHECK(is_role_unknown_after("RESET ALL"));
	CHECK(!is_role_unknown_after("RESET ALL; SET ROLE a"));
	begin_role(INI);
	server->session.stale = STALE_ROLE;
	server_note_command(server, true, true);
	CHECK_INT(server->session.stale, 0);
	note("61:62", NULL, SIZE_MAX);
	server_note_command(server, true, true);
	CHECK_INT(server->session.stale, STALE_ROLE);
	end_role();
}

/* ---- without a client ---- */

#define ALWAYS_INI WHOLE_INI("pool_size=1", "server_reset_query_always=1\n")
#define NEVER_INI WHOLE_INI("pool_size=1", "server_reset_query=\nserver_reset_query_always=1\n")

static struct house_end *far;

static bool begin_far(const char *ini)
{
	struct house_end *client;

	whole_open(ini);
	CHECK(whole_login(&client));
	server = whole_last_server();
	far = house_server(&whole);
	CHECK(server && far && server->pooled.state == SERVER_IDLE);
	if (far)
		whole_server_got(far);
	return server && far;
}

static bool wants_reset(const char *ini, bool had_session)
{
	bool wants = begin_far(ini) && server_wants_reset(server, had_session);

	whole_close();
	return wants;
}

TEST(sessions_that_are_reset)
{
	CHECK(wants_reset(INI, true) && !wants_reset(INI, false));
	CHECK(wants_reset(ALWAYS_INI, true) && wants_reset(ALWAYS_INI, false));
	/* server_reset_query is empty */
	CHECK(!wants_reset(NEVER_INI, true));
}

TEST(clean_server_becomes_idle)
{
	REQUIRE(begin_far(INI));
	CHECK_INT(server_next_state(server), SERVER_IDLE);
	server_release(server);
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	CHECK(!server->task);
	whole_close();
}

TEST(server_of_an_ended_session_is_reset)
{
	REQUIRE(begin_far(INI));
	server->needs_reset = true;
	whole.holds_answers = true;
	server_release(server);
	CHECK_INT(server->pooled.state, SERVER_TESTED);
	CHECK(server->task == &task_reset);
	whole.holds_answers = false;
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(DISCARD ALL)");
	CHECK_INT(server->pooled.state, SERVER_IDLE);
	CHECK(!server->needs_reset && server->task == NULL);
	whole_close();
}

TEST(server_waits_for_pending_cancel_requests)
{
	REQUIRE(begin_far(INI));
	server->needs_reset = true;
	server->pooled.cancels = 1;
	CHECK_INT(server_next_state(server), SERVER_BEING_CANCELED);
	server->pooled.cancels = 0;
	CHECK_INT(server_next_state(server), SERVER_TESTED);
	server->needs_reset = false;
	whole_close();
}

TEST(server_marked_to_close_is_not_reset)
{
	REQUIRE(begin_far(INI));
	server->needs_reset = true;
	server->pooled.close_reason = REASON_OBSOLETE;
	server_release(server);
	CHECK(peer_is_ending(&server->peer));
	CHECK_INT(server->peer.end_reason, REASON_OBSOLETE);
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "X");
	whole_close();
}

/* Returns the reason for which the server ends when this task is over. */
static int ended_for(const struct server_task *task, bool failed, char status)
{
	int why;

	if (!begin_far(INI))
		return -1;
	whole.holds_answers = true;
	pool_server_become(&server->pooled, SERVER_TESTED, whole.world->now);
	server_task_to(server, task);
	server->task_failed = failed;
	server->status = status;
	if (server_task_end(server) == TASK_END_RELEASE)
		server_release(server);
	why = peer_is_ending(&server->peer) ? (int)server->peer.end_reason : REASON_NONE;
	CHECK(!server->task);
	whole_close();
	return why;
}

TEST(failed_task_ends_the_server)
{
	CHECK_INT(ended_for(&task_reset, false, 'I'), REASON_NONE);
	CHECK_INT(ended_for(&task_reset, true, 'I'), REASON_RESET_FAILED);
	/* the task has left a transaction open */
	CHECK_INT(ended_for(&task_reset, false, 'T'), REASON_RESET_FAILED);
	CHECK_INT(ended_for(&task_check, false, 'I'), REASON_NONE);
	CHECK_INT(ended_for(&task_check, true, 'I'), REASON_TEST_FAILED);
	CHECK_INT(ended_for(&task_check, false, 'E'), REASON_TEST_FAILED);
}

UNIT_MAIN
