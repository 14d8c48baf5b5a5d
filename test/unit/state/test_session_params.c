/* Known parameters of a server's session: reported values, the effect of SET and DISCARD ALL, and parameters that cannot be restored. */
#include "state/session_params.h"

#include "state/session_restore.h"
#include "state/task.h"
#include "unit.h"
#include "whole.h"

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

	server->session.unknown = 0;
	server->task = task;
	server_parameters_told(server, false, for_client);
	server->task = before;
	return server->session.unknown & UNKNOWN_PARAMS;
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
	server->session.unknown = 0;
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
	server->session.unknown = UNKNOWN_PARAMS;
	server_parameters_told(server, true, true);
	CHECK_TEXT(value_of(PARAM_SEARCH_PATH), "");
	/* the server has reported the current value itself */
	CHECK_TEXT(value_of(PARAM_DATESTYLE), "German, DMY");
	CHECK(!(server->session.unknown & UNKNOWN_PARAMS));
	whole_close();
}

TEST(discard_all_out_of_memory)
{
	REQUIRE(begin(INI));
	set(PARAM_SEARCH_PATH, "a, b");
	set(PARAM_DATESTYLE, "German, DMY");
	server->session.reported = 0;
	server->session.unknown = 0;
	whole_memory_ends(0);
	server_parameters_told(server, true, true);
	CHECK(whole_memory_is_back() > 0);
	CHECK(server->session.unknown & UNKNOWN_PARAMS);
	whole_close();
}

/* ---- search_path ---- */

TEST(search_path_is_recorded_if_connect_query_may_set_it)
{
	REQUIRE(begin(INI));
	server->session.reported = 0;
	CHECK(!server_notes_search_path(server));
	whole_close();
	REQUIRE(begin(READING_INI));
	server->session.reported = 0;
	CHECK(!server_notes_search_path(server));
	whole_close();
	REQUIRE(begin(SETTING_INI));
	server->session.reported = 0;
	CHECK(server_notes_search_path(server));
	server->session.reported = (uint64_t)1 << PARAM_SEARCH_PATH;
	CHECK(!server_notes_search_path(server));
	server->session.reported = 0;
	server->pooled.dedicated = 1;
	CHECK(!server_notes_search_path(server));
	server->pooled.dedicated = 0;
	whole_close();
}

static void note_row(const char *second)
{
	struct bytes row = BYTES_EMPTY;

	bytes_append_u16(&row, 2);
	bytes_append_u32(&row, 2);
	bytes_append(&row, "61", 2);
	bytes_append_u32(&row, (uint32_t)strlen(second));
	bytes_append(&row, second, strlen(second));
	server_note_search_path(server, bytes_front(&row), bytes_size(&row));
	/* cut off */
	server_note_search_path(server, bytes_front(&row), 3);
	bytes_free(&row);
}

TEST(search_path_that_was_noted)
{
	REQUIRE(begin(SETTING_INI));
	server->session.reported = 0;
	note_row("6g");
	CHECK(!server->session.search_path);
	note_row("616");
	CHECK(!server->session.search_path);
	note_row("6162");
	CHECK_TEXT(server->session.search_path, "6162");
	server_parameters_told(server, true, true);
	CHECK(server->session.unknown & UNKNOWN_PARAMS && server->pooled.close_reason == REASON_NONE);
	CHECK(!server_restore_search_path(server, "xx") && server_restore_search_path(server, ""));
	whole_close();
}

TEST(search_path_that_is_not_known)
{
	REQUIRE(begin(SETTING_INI));
	server->session.reported = 0;
	server_parameters_told(server, false, true);
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
	CHECK(!params_is_settable("idle_session_timeout"));
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

UNIT_MAIN
