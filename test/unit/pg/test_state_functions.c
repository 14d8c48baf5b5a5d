/* Functions that change the session: the queries for them, the evaluation of their sources, and client texts that call them. */
#include "pg/state_functions.h"

#include "unit.h"

#include <stdlib.h>

static char names[1000];

static void note(void *context, const char *name)
{
	CHECK(context == names);
	if (*names)
		strcat(names, " ");
	strcat(names, name);
}

/* A row of the answer without its last `missing` bytes. */
static void row_cut(struct state_functions *f, size_t missing, size_t count, const char *const *columns)
{
	struct bytes body = BYTES_EMPTY;
	struct pg_frame frame = { .type = 'D' };
	uint8_t *copy;

	bytes_append_u16(&body, (uint16_t)count);
	for (size_t i = 0; i < count; i++) {
		bytes_append_u32(&body, columns[i] ? (uint32_t)strlen(columns[i]) : UINT32_MAX);
		bytes_append(&body, columns[i], columns[i] ? strlen(columns[i]) : 0);
	}
	frame.size = (uint32_t)bytes_size(&body);
	frame.here = frame.size - (uint32_t)missing;
	/* in an allocation of the exact size */
	copy = malloc(frame.here);
	if (!copy)
		abort();
	memcpy(copy, bytes_front(&body), frame.here);
	frame.body = copy;
	state_functions_row(f, &frame);
	free(copy);
	bytes_free(&body);
}

#define ROW(f, ...) row_cut(f, 0, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *), (const char *const[]){ __VA_ARGS__ })

/* Reads a text of a client that has not been told any name. */
static unsigned read_text(const struct state_functions *f, const char *text)
{
	struct state_names told = { { 0 } };

	*names = '\0';
	return state_functions_read(f, (const uint8_t *)text, strlen(text) + 1, &told, note, names);
}

/* One function. */
static struct state_functions *with(const char *name, const char *flags, const char *source)
{
	struct state_functions *f = state_functions_new();

	if (!f)
		abort();
	ROW(f, name, flags, source);
	CHECK(state_functions_close(f));
	return f;
}

/* ---- the questions ---- */

static const char *asked(struct state_functions *f, const struct state_functions *before)
{
	static char text[8000];
	struct bytes sql = BYTES_EMPTY;
	bool asks = state_functions_ask(f, before, &sql);

	bytes_append_u8(&sql, 0);
	snprintf(text, sizeof(text), "%s", asks ? (const char *)bytes_front(&sql) : "nothing");
	bytes_free(&sql);
	return text;
}

/* The client may have changed the search_path of the session. */
static void check_qualified(const char *sql)
{
	static const char *const bare[] = { " = ", " <> ", " > ", " ~* ", " || ", "(count(", " lower(", " strpos(", " concat(", " FROM pg_proc", " FROM pg_settings",
					    " IN (", "::text", "::name", "::int8", " exists(" };

	for (size_t i = 0; i < sizeof(bare) / sizeof(bare[0]); i++)
		if (strstr(sql, bare[i]))
			UNIT_FAIL("unqualified \"%s\"", bare[i]);
}

TEST(rounds_of_queries)
{
	struct state_functions *f = state_functions_new();
	const char *sql;

	REQUIRE(f);
	sql = asked(f, NULL);
	check_qualified(sql);
	CHECK(strstr(sql, "<>) ''::pg_catalog.text"));
	ROW(f, "10:20:30:40");
	ROW(f, "use_tenant", "", "SELECT set_config('app.tenant', $1, false)");
	sql = asked(f, NULL);
	check_qualified(sql);
	CHECK(strstr(sql, "E'\\\\m(use_tenant)\\\\M'"));
	ROW(f, "outer1", "", "SELECT use_tenant('7')");
	ROW(f, "use_tenant", "", "SELECT set_config('app.tenant', $1, false)");
	CHECK(strstr(asked(f, NULL), "E'\\\\m(outer1)\\\\M'"));
	/* nothing new has arrived */
	CHECK_TEXT(asked(f, NULL), "nothing");
	CHECK_INT(state_functions_count(f), 2);
	state_functions_free(&f);
	CHECK(!f);
}

/* Each function calls the previous one: the number of rounds is limited. */
TEST(number_of_rounds_is_limited)
{
	struct state_functions *f = state_functions_new();
	int rounds = 0;
	char name[20];

	REQUIRE(f);
	while (strcmp(asked(f, NULL), "nothing") != 0 && rounds < 100) {
		snprintf(name, sizeof(name), "f%d", rounds++);
		ROW(f, name, "", "SELECT 1");
	}
	CHECK_INT(rounds, STATE_FUNCTIONS_ROUNDS);
	state_functions_free(&f);
}

TEST(unchanged_catalogue)
{
	struct state_functions *before = state_functions_new(), *f = state_functions_new(), *other = state_functions_new();

	REQUIRE(before && f && other);
	asked(before, NULL);
	ROW(before, "10:20:30:40");
	CHECK(!state_functions_are_same(before, NULL));
	CHECK(strstr(asked(f, before), "<>) '10:20:30:40'::pg_catalog.text"));
	ROW(f, "10:20:30:40");
	CHECK(state_functions_are_same(f, before));
	ROW(other, "10:21:30:40");
	CHECK(!state_functions_are_same(other, before));
	state_functions_free(&before);
	state_functions_free(&f);
	state_functions_free(&other);
}

/* ---- sources ---- */

TEST(effects_of_a_source)
{
	static const struct { const char *flags, *source; unsigned said; const char *names; } sources[] = {
		{ "", "SELECT 1", 0, "" },
		{ "", "SELECT set_config('app.tenant', $1, false)", TEXT_SETS, "app.tenant" },
		{ "", "SELECT set_config($1, $2, false)", TEXT_SETS | TEXT_SETS_UNNAMED, "" },
		{ "", "SELECT set_config('app.tenant', $1, true)", 0, "" },
		{ "", "SELECT set_config('app.gr??e', $1, false)", TEXT_SETS | TEXT_SETS_UNNAMED, "" },
		{ "s", "BEGIN SET work_mem = '5MB'; END", TEXT_SETS, "" },
		{ "s", "BEGIN RESET app.tenant; END", TEXT_SETS, "app.tenant" },
		/* the server has not found a parameter's name */
		{ "", "UPDATE t SET a = 1", 0, "" },
		{ "", "CREATE TEMP TABLE t (a int)", TEXT_TEMPORARY, "" },
		{ "", "SELECT pg_advisory_lock(1)", TEXT_LOCKS, "" },
		{ "", "LISTEN a", TEXT_LISTENS, "" },
		{ "", "EXECUTE 'UNLISTEN *'", TEXT_LISTENS | TEXT_UNLISTENS, "" },
		{ "", "EXECUTE 'PREPARE a AS SELECT 1'", TEXT_MAKES_STATEMENTS, "" },
		{ "", "EXECUTE 'DEALLOCATE a'", TEXT_MAKES_STATEMENTS, "" },
		{ "", "LOAD 'auto_explain'", TEXT_STAYS, "" },
		{ "", "-- how to load it", 0, "" },
		{ "", "PERFORM setseed(0.5)", TEXT_STAYS, "" },
		{ "", "RETURN lastval()", TEXT_READS_SEQUENCES, "" },
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		struct state_functions *f = with("f", sources[i].flags, sources[i].source);

		if (read_text(f, "SELECT f()") != sources[i].said)
			UNIT_FAIL("%s: %x", sources[i].source, read_text(f, "SELECT f()"));
		CHECK_TEXT(names, sources[i].names);
		state_functions_free(&f);
	}
}

/* Such a function may do anything. */
TEST(missing_source)
{
	struct state_functions *f = state_functions_new();
	unsigned said;

	REQUIRE(f);
	row_cut(f, 5, 3, (const char *const[]){ "f", "", "SELECT 1" });
	CHECK(state_functions_close(f));
	said = read_text(f, "SELECT f()");
	CHECK((said & TEXT_SETS) && (said & TEXT_SETS_UNNAMED) && (said & TEXT_TEMPORARY) && (said & TEXT_LOCKS) && (said & TEXT_LISTENS));
	state_functions_free(&f);
}

TEST(malformed_rows)
{
	struct state_functions *f = state_functions_new();

	REQUIRE(f);
	ROW(f, "0", "1");
	ROW(f, NULL, "", "SELECT 1");
	ROW(f, "f", NULL, "SELECT 1");
	ROW(f, "", "", "SELECT 1");
	ROW(f, "a_name_of_more_than_the_sixty_three_bytes_that_postgresql_leaves_of_any", "", "SELECT 1");
	row_cut(f, 1, 1, (const char *const[]){ "10:20" });
	row_cut(f, 0, 0, NULL);
	CHECK(!state_functions_are_same(f, f));
	CHECK_INT(state_functions_count(f), 0);
	CHECK(!state_functions_are_incomplete(f));
	state_functions_free(&f);
}

TEST(too_many_functions)
{
	struct state_functions *f = state_functions_new();
	char name[20];

	REQUIRE(f);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		ROW(f, name, "", "SELECT 1");
	}
	CHECK(!state_functions_are_incomplete(f));
	ROW(f, "f0", "", "of other arguments");
	CHECK(!state_functions_are_incomplete(f));
	ROW(f, "one_more", "", "SELECT 1");
	CHECK(state_functions_are_incomplete(f));
	CHECK_INT(state_functions_count(f), 2000);
	/* then each text may call one of the unknown functions */
	CHECK(state_functions_close(f));
	CHECK(read_text(f, "SELECT 1") & TEXT_SETS);
	state_functions_free(&f);
}

/* Such a function may do anything. */
TEST(truncated_sources)
{
	static char source[300 * 1024];
	struct state_functions *f = state_functions_new();

	memset(source, ' ', sizeof(source) - 1);
	REQUIRE(f);
	ROW(f, "one", "", source);
	ROW(f, "two", "", source);
	CHECK(state_functions_are_incomplete(f) && state_functions_close(f));
	CHECK(read_text(f, "SELECT two()") & TEXT_SETS_UNNAMED);
	CHECK(!(read_text(f, "SELECT one()") & TEXT_SETS_UNNAMED));
	state_functions_free(&f);
}

TEST(too_many_parameters_of_one_function)
{
	static char source[3000];
	struct state_functions *f;
	size_t used = 0;

	for (int i = 0; i < 33; i++) {
		used += (size_t)snprintf(source + used, sizeof(source) - used, "PERFORM set_config('a.n%d', 'x', false); ", i);
		f = with("f", "", source);
		CHECK_INT(read_text(f, "SELECT f()"), i < 32 ? TEXT_SETS : TEXT_SETS | TEXT_SETS_UNNAMED);
		state_functions_free(&f);
	}
}

/* Each function sets its own parameter. */
TEST(too_many_parameters_in_total)
{
	struct state_functions *f = state_functions_new();
	char name[20], source[100];

	REQUIRE(f);
	for (int i = 0; i <= STATE_NAMES_MOST; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		snprintf(source, sizeof(source), "SELECT set_config('a.n%d', 'x', false)", i);
		ROW(f, name, "", source);
	}
	CHECK(state_functions_close(f));
	CHECK_INT(read_text(f, "SELECT f0()"), TEXT_SETS);
	CHECK_TEXT(names, "a.n0");
	CHECK_INT(read_text(f, "SELECT f511()"), TEXT_SETS);
	CHECK_TEXT(names, "a.n511");
	CHECK_INT(read_text(f, "SELECT f512()"), TEXT_SETS | TEXT_SETS_UNNAMED);
	state_functions_free(&f);
}

/* A text may contain the name of a function any number of times, and a client may send it repeatedly. */
TEST(each_parameter_is_reported_once)
{
	struct state_functions *f = state_functions_new();
	static const char text[] = "SELECT f(), f(), g(); INSERT INTO t VALUES (f())";
	struct state_names told = { { 0 } };

	REQUIRE(f);
	ROW(f, "f", "t", "SELECT set_config('a.b', '', false)");
	ROW(f, "g", "t", "SELECT f(), set_config('a.c', '', false)");
	CHECK(state_functions_close(f));
	*names = '\0';
	CHECK_INT(state_functions_read(f, (const uint8_t *)text, sizeof(text), &told, note, names), TEXT_SETS);
	CHECK_TEXT(names, "a.b a.c");
	CHECK_INT(state_functions_read(f, (const uint8_t *)text, sizeof(text), &told, note, names), TEXT_SETS);
	CHECK_TEXT(names, "a.b a.c");
	state_functions_free(&f);
}

/* ---- calls ---- */

TEST(overloaded_functions_count_as_one)
{
	struct state_functions *f = state_functions_new();

	REQUIRE(f);
	ROW(f, "f", "", "SELECT set_config('a.b', '', false)");
	ROW(f, "F", "", "LISTEN a");
	CHECK(state_functions_close(f));
	CHECK_INT(state_functions_count(f), 1);
	CHECK_INT(read_text(f, "SELECT f()"), TEXT_SETS | TEXT_LISTENS);
	CHECK_TEXT(names, "a.b");
	state_functions_free(&f);
}

/* Functions may arrive in any order; cycles end. */
TEST(effects_of_called_functions)
{
	struct state_functions *f = state_functions_new();

	REQUIRE(f);
	ROW(f, "outermost", "", "SELECT outer1()");
	ROW(f, "outer1", "", "SELECT inner1(), outermost()");
	ROW(f, "inner1", "", "SELECT set_config('a.b', '', false)");
	ROW(f, "circle", "", "SELECT circle()");
	CHECK(state_functions_close(f));
	CHECK_INT(read_text(f, "SELECT outermost()"), TEXT_SETS);
	CHECK_TEXT(names, "a.b");
	CHECK_INT(read_text(f, "SELECT circle()"), 0);
	state_functions_free(&f);
}

TEST(texts_that_call_functions)
{
	struct state_functions *f = with("use_tenant", "", "SELECT set_config('a.b', '', false)");
	static const char *const calls[] = { "SELECT use_tenant('7')", "select USE_Tenant ($1)", "SELECT \"use_tenant\"(1)", "SELECT s.use_tenant(1)", "use_tenant",
					     "SELECT 'use_tenant'", "/* use_tenant */" };
	static const char *const others[] = { "", "SELECT use_tenants(1)", "SELECT my_use_tenant(1)", "SELECT use, tenant", "INSERT INTO t VALUES (1)" };
	struct state_names told = { { 0 } };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		CHECK_INT(read_text(f, calls[i]), TEXT_SETS);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		CHECK_INT(read_text(f, others[i]), 0);
		CHECK_TEXT(names, "");
	}
	/* bytes after the NUL, or after the end of the available text, are ignored */
	CHECK_INT(state_functions_read(f, (const uint8_t *)"SELECT 1\0use_tenant", 20, &told, note, names), 0);
	CHECK_INT(state_functions_read(f, (const uint8_t *)"use_tenants", 10, &told, note, names), TEXT_SETS);
	CHECK_INT(state_functions_read(f, (const uint8_t *)"", 0, &told, note, names), 0);
	state_functions_free(&f);
}

/* The catalogue query returns a question mark for each non-ASCII character, for which the client's text has several bytes. */
TEST(names_with_non_ascii_characters)
{
	struct state_functions *f = with("gr??enwert", "", "LISTEN a");

	CHECK_INT(read_text(f, "SELECT \"gr\xc3\xb6\xc3\x9f" "enwert\"()"), TEXT_LISTENS);
	CHECK_INT(read_text(f, "SELECT gr()"), 0);
	state_functions_free(&f);
	f = with("my own", "", "LISTEN a");
	CHECK_INT(read_text(f, "SELECT \"my own\"()"), TEXT_LISTENS);
	state_functions_free(&f);
	f = with("??", "", "LISTEN a");
	CHECK_INT(read_text(f, "SELECT \"\xc3\xb6\"()"), TEXT_LISTENS);
	CHECK_INT(read_text(f, "SELECT o()"), 0);
	state_functions_free(&f);
}

TEST(triggers_apply_to_writing_texts)
{
	struct state_functions *f = with("on_write", "t", "BEGIN PERFORM set_config('a.b', 'x', false); RETURN NEW; END");
	static const char *const writes[] = { "INSERT INTO t VALUES (1)", "update t set a = 1", "WITH x AS (DELETE FROM t) SELECT 1", "MERGE INTO t", "COPY t FROM STDIN",
					      "TRUNCATE t" };

	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		CHECK_INT(read_text(f, writes[i]), TEXT_SETS);
		CHECK_TEXT(names, "a.b");
	}
	CHECK_INT(read_text(f, "SELECT a FROM t"), 0);
	CHECK_TEXT(names, "");
	state_functions_free(&f);
	/* a function that is not a trigger */
	f = with("on_write", "", "SELECT set_config('a.b', 'x', false)");
	CHECK_INT(read_text(f, "INSERT INTO t VALUES (1)"), 0);
	state_functions_free(&f);
}

UNIT_MAIN
