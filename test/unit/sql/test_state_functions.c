/* Functions that change the session: the queries for them, the evaluation of their sources, and client texts that call them. */
#include "sql/state_functions.h"

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

/* Reads the rest of a text at once. */
static struct text_search *at_once(void)
{
	static struct text_search search;

	search = (struct text_search){ .words_left = INT64_MAX };
	return &search;
}

/* Reads a text of a client that has not been told any name: at once, and in parts of one word. */
static unsigned read_text(const struct state_functions *f, const char *text)
{
	struct state_names told = { { 0 } }, told_in_parts = { { 0 } };
	struct text_search part = { 0 };
	char all_names[sizeof(names)];
	unsigned said, in_parts = 0;

	*names = '\0';
	said = state_functions_read(f, at_once(), (const uint8_t *)text, strlen(text) + 1, &told, note, names);
	strcpy(all_names, names);
	*names = '\0';
	while (!part.is_over) {
		part.words_left = 1;
		in_parts |= state_functions_read(f, &part, (const uint8_t *)text, strlen(text) + 1, &told_in_parts, note, names);
	}
	CHECK_INT(in_parts, said);
	CHECK_TEXT(names, all_names);
	return said;
}

static bool knows_calls(const struct state_functions *f, const char *text, size_t size)
{
	struct text_calls whole = { .search.words_left = INT64_MAX }, part = { 0 };
	bool knows = state_functions_know_calls(f, &whole, (const uint8_t *)text, size), in_parts = true;

	CHECK(whole.search.is_over);
	while (!part.search.is_over) {
		part.search.words_left = 1;
		in_parts &= state_functions_know_calls(f, &part, (const uint8_t *)text, size);
	}
	CHECK_INT(in_parts, knows);
	return knows;
}

/* All rounds are over. */
static bool is_complete(struct state_functions *f)
{
	enum state_functions_round round = STATE_FUNCTIONS_NEXT;
	struct bytes sql = BYTES_EMPTY;

	while (round == STATE_FUNCTIONS_NEXT)
		round = state_functions_ask(f, NULL, &sql);
	bytes_free(&sql);
	return round == STATE_FUNCTIONS_COMPLETE;
}

/* A function: its name, and then its source. `flags`: x, d and s as in the answer; t: it is a trigger. */
static void add(struct state_functions *f, const char *name, const char *flags)
{
	static int oid;
	char number[20];

	snprintf(number, sizeof(number), "%d", ++oid);
	ROW(f, "n", number, name, flags);
	if (strchr(flags, 't'))
		ROW(f, "e", "0", number, "w");
}

/* As add, with the number of the function. */
static void add_numbered(struct state_functions *f, const char *number, const char *name)
{
	ROW(f, "n", number, name, "");
}

#define SOURCES_MOST 8

/* Functions, each of a name, flags and a source. All names come first. */
static struct state_functions *with_all(size_t count, const char *const (*functions)[3])
{
	struct state_functions *f = state_functions_new();
	char number[20];

	if (!f || count > SOURCES_MOST)
		abort();
	for (size_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%zu", i + 20000);
		ROW(f, "n", number, functions[i][0], functions[i][1]);
		if (strchr(functions[i][1], 't'))
			ROW(f, "e", "0", number, "w");
	}
	for (size_t i = 0; i < count; i++) {
		snprintf(number, sizeof(number), "%zu", i + 20000);
		ROW(f, "s", number, functions[i][2], "");
	}
	CHECK(is_complete(f));
	return f;
}

#define WITH(...) with_all(sizeof((const char *const[][3]){ __VA_ARGS__ }) / sizeof(char *[3]), (const char *const[][3]){ __VA_ARGS__ })

static struct state_functions *with(const char *name, const char *flags, const char *source)
{
	return WITH({ name, flags, source });
}

/* ---- the questions ---- */

static const char *asked(struct state_functions *f)
{
	static char text[20000];
	struct bytes sql = BYTES_EMPTY;
	bool asks = state_functions_ask(f, NULL, &sql) == STATE_FUNCTIONS_NEXT;

	bytes_append_u8(&sql, 0);
	snprintf(text, sizeof(text), "%s", asks ? (const char *)bytes_front(&sql) : "nothing");
	bytes_free(&sql);
	return text;
}

static bool ends_timeout(const char *sql)
{
	static const char last[] = ";SELECT set_config('statement_timeout','0',true),1;SELECT 1,1";
	size_t size = strlen(sql);

	return size >= sizeof(last) && strcmp(sql + size - (sizeof(last) - 1), last) == 0;
}

/* Whether the next round finds the catalogue of `before`. */
static bool is_same(struct state_functions *f, const struct state_functions *before)
{
	struct bytes sql = BYTES_EMPTY;
	bool is = state_functions_ask(f, before, &sql) == STATE_FUNCTIONS_SAME;

	CHECK(is == (bytes_size(&sql) == 0));
	bytes_free(&sql);
	return is;
}

/* The session has a search_path of a client's choice, and a statement_timeout. A late timeout of this query does not end the client's next statement. */
TEST(rounds)
{
	static const char first[] = "SELECT pg_catalog.set_config('statement_timeout','0',true),pg_catalog.set_config('search_path','pg_catalog,pg_temp',true);"
				    "SELECT set_config('statement_timeout','500',true),1;";
	struct state_functions *f = state_functions_new();
	const char *sql;

	REQUIRE(f);
	sql = asked(f);
	CHECK(strncmp(sql, first, sizeof(first) - 1) == 0 && strstr(sql, "xmin") && !strstr(sql, "prosrc") && ends_timeout(sql));
	sql = asked(f);
	CHECK(strncmp(sql, first, sizeof(first) - 1) == 0 && strstr(sql, "xmin") && strstr(sql, "prosrc") && ends_timeout(sql));
	CHECK_TEXT(asked(f), "nothing");
	state_functions_free(&f);
	CHECK(!f);
}

TEST(a_catalogue_that_has_not_changed)
{
	struct state_functions *before = state_functions_new(), *f = state_functions_new(), *other = state_functions_new();

	REQUIRE(before && f && other);
	ROW(before, "10:20:30:40");
	CHECK(!is_same(before, NULL));
	ROW(f, "10:20:30:40");
	CHECK(is_same(f, before));
	ROW(other, "10:21:30:40");
	CHECK(!is_same(other, before));
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
		{ "x", "SELECT 1", TEXT_ANY_EFFECT, "" },
		{ "", "SELECT set_config('app.gr??e', $1, false)", TEXT_SETS | TEXT_SETS_UNNAMED | TEXT_SETS_ODDLY_NAMED, "" },
		{ "", "BEGIN SET work_mem = '5MB'; END", TEXT_SETS, "" },
		{ "", "SELECT 1; set Work_Mem = '5MB'", TEXT_SETS, "" },
		{ "", "IF a THEN SET work_mem = '5MB'; END IF", TEXT_SETS, "" },
		{ "", "/* a */ SET work_mem = '5MB'", TEXT_SETS, "" },
		{ "", "SELECT 1; -- a\nSET work_mem = '5MB'", TEXT_SETS, "" },
		{ "", "begin --x\rset search_path = a; END", TEXT_SETS, "" },
		{ "", "BEGIN SET LOCAL work_mem = '5MB'; END", 0, "" },
		{ "", "BEGIN RESET app.tenant; END", TEXT_SETS, "app.tenant" },
		{ "", "UPDATE t SET a = 1", 0, "" },
		{ "", "UPDATE \"t\" SET a = 1", 0, "" },
		{ "", "INSERT INTO t (a) VALUES (1) ON CONFLICT DO UPDATE SET a = 1", TEXT_FILLS, "" },
		{ "", "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", TEXT_FILLS, "" },
		{ "", "DO E'BEGIN PERFORM \\x73et_config(); END'", TEXT_ANY_EFFECT, "" },
		{ "", "EXECUTE a", TEXT_ANY_EFFECT, "" },
		{ "", "SELECT query_to_xml($1, true, true, '')", TEXT_ANY_EFFECT, "" },
		{ "", "CREATE TEMP TABLE t (a int)", TEXT_TEMPORARY | TEXT_ANY_EFFECT, "" },
		{ "", "SELECT pg_advisory_lock(1)", TEXT_LOCKS, "" },
		{ "", "LISTEN a", TEXT_LISTENS, "" },
		{ "", "EXECUTE 'UNLISTEN *'", TEXT_LISTENS | TEXT_UNLISTENS | TEXT_ANY_EFFECT, "" },
		{ "", "EXECUTE 'PREPARE a AS SELECT 1'", TEXT_MAKES_STATEMENTS | TEXT_ANY_EFFECT, "" },
		{ "", "EXECUTE 'DEALLOCATE a'", TEXT_MAKES_STATEMENTS | TEXT_ANY_EFFECT, "" },
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
	add_numbered(f, "20000", "f");
	row_cut(f, 9, 4, (const char *const[]){ "s", "20000", "SELECT 1", "" });
	CHECK(is_complete(f));
	said = read_text(f, "SELECT f()");
	CHECK((said & TEXT_SETS) && (said & TEXT_SETS_UNNAMED) && (said & TEXT_TEMPORARY) && (said & TEXT_LOCKS) && (said & TEXT_LISTENS) && (said & TEXT_ANY_EFFECT));
	state_functions_free(&f);
}

TEST(malformed_rows)
{
	struct state_functions *f = state_functions_new();

	REQUIRE(f);
	ROW(f, "0", "1");
	ROW(f, "n", NULL, NULL, NULL);
	ROW(f, "n", "1", "", "x");
	ROW(f, "n", "1", "a_name_of_more_than_the_sixty_three_bytes_that_postgresql_leaves_of_any", "x");
	ROW(f, "s", "1", "LISTEN a", "");
	ROW(f, "s", "99999999999999999999", NULL, NULL);
	ROW(f, "e", "1", "2", "f");
	ROW(f, NULL, "1", "2", "f");
	ROW(f, "z", "1", "2", "f");
	row_cut(f, 1, 1, (const char *const[]){ "10:20" });
	row_cut(f, 0, 0, NULL);
	CHECK(!is_same(f, f));
	CHECK_INT(state_functions_summary(f).count, 0);
	CHECK(!state_functions_summary(f).is_incomplete);
	state_functions_free(&f);
}

TEST(too_many_functions)
{
	struct state_functions *f = state_functions_new();
	char name[20];

	REQUIRE(f);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		add(f, name, "");
	}
	CHECK(!state_functions_summary(f).is_incomplete);
	add(f, "f0", "");
	CHECK(!state_functions_summary(f).is_incomplete);
	add(f, "one_more", "");
	CHECK(state_functions_summary(f).is_incomplete);
	/* then each text may call one of the others */
	CHECK(is_complete(f));
	CHECK(read_text(f, "SELECT 1") & TEXT_SETS && read_text(f, "SELECT 1") & TEXT_ANY_EFFECT);
	state_functions_free(&f);
}

/* Such a function may do anything. */
TEST(truncated_sources)
{
	static char source[3 << 20];
	struct state_functions *f;

	memset(source, ' ', sizeof(source) - 1);
	f = WITH({ "one", "", source }, { "two", "", source });
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
	char name[20], number[20], source[100];

	REQUIRE(f);
	for (int i = 0; i <= STATE_NAMES_MOST; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		snprintf(number, sizeof(number), "%d", 20000 + i);
		add_numbered(f, number, name);
	}
	for (int i = 0; i <= STATE_NAMES_MOST; i++) {
		snprintf(number, sizeof(number), "%d", 20000 + i);
		snprintf(source, sizeof(source), "SELECT set_config('a.n%d', 'x', false)", i);
		ROW(f, "s", number, source, "");
	}
	CHECK(is_complete(f));
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
	struct state_functions *f = WITH({ "f", "t", "SELECT set_config('a.b', '', false)" }, { "g", "t", "SELECT f(), set_config('a.c', '', false)" });
	static const char text[] = "SELECT f(), f(), g(); INSERT INTO t VALUES (f())";
	struct state_names told = { { 0 } };

	*names = '\0';
	CHECK_INT(state_functions_read(f, at_once(), (const uint8_t *)text, sizeof(text), &told, note, names), TEXT_SETS);
	CHECK_TEXT(names, "a.b a.c");
	CHECK_INT(state_functions_read(f, at_once(), (const uint8_t *)text, sizeof(text), &told, note, names), TEXT_SETS);
	CHECK_TEXT(names, "a.b a.c");
	state_functions_free(&f);
}

/* ---- calls ---- */

TEST(overloaded_functions_count_as_one)
{
	struct state_functions *f = WITH({ "f", "", "SELECT set_config('a.b', '', false)" }, { "F", "", "LISTEN a" });

	CHECK_INT(state_functions_summary(f).count, 1);
	CHECK_INT(read_text(f, "SELECT f()"), TEXT_SETS | TEXT_LISTENS);
	CHECK_TEXT(names, "a.b");
	state_functions_free(&f);
}

/* Functions may arrive in any order; cycles end. */
TEST(effects_of_called_functions)
{
	struct state_functions *f = WITH({ "outermost", "", "SELECT outer1()" }, { "outer1", "", "SELECT inner1(), outermost()" },
					 { "inner1", "", "SELECT set_config('a.b', '', false)" }, { "circle", "", "SELECT circle()" });

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
	CHECK_INT(state_functions_read(f, at_once(), (const uint8_t *)"SELECT 1\0use_tenant", 20, &told, note, names), 0);
	CHECK_INT(state_functions_read(f, at_once(), (const uint8_t *)"use_tenants", 10, &told, note, names), TEXT_SETS);
	CHECK_INT(state_functions_read(f, at_once(), (const uint8_t *)"", 0, &told, note, names), 0);
	state_functions_free(&f);
}

/* The catalogue gives a question mark for each character beyond ASCII; the text of a client has several bytes there. */
TEST(calls_that_are_known)
{
	struct state_functions *f = with("use_tenant", "", "SELECT 1");
	static const char *const known[] = { "", "SELECT use_tenant(1)", "SELECT \"use_tenant\" (1)", "SELECT public.use_tenant(1), Count(*)", "SELECT pg_catalog.abs(1)",
					     "INSERT INTO t (a) VALUES (1)", "INSERT INTO \"T\" . t (a) VALUES (1)", "WITH x (a) AS (SELECT 1) SELECT 1 IN (2)",
					     "SELECT (1)*(2)", "(SELECT 1)", "SELECT count -- a\n(1)", "SELECT a::numeric(3,2), E'(' FROM f AS t(a)" };
	static const char *const others[] = { "SELECT f(1)", "SELECT f /* a */ (1)", "SELECT my.count(1)", "SELECT \"Count\"(1)", "SELECT \"f\"\"abs\"(1)",
					      "SELECT \"-\"(1)", "SELECT \xc3\xb6(1)", "SELECT query_to_xml('a')", "SELECT DISTINCT ON (a) f(1)",
					      "SELECT a_name_of_more_than_the_sixty_three_bytes_that_postgresql_leaves_of_any(1)" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!knows_calls(f, known[i], strlen(known[i]) + 1))
			UNIT_FAIL("%s", known[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (knows_calls(f, others[i], strlen(others[i]) + 1))
			UNIT_FAIL("%s", others[i]);
	CHECK(!knows_calls(NULL, known[1], strlen(known[1]) + 1));
	/* cut off */
	CHECK(!knows_calls(f, "SELECT 1", 8));
	CHECK(!knows_calls(f, "", 0));
	state_functions_free(&f);
}

TEST(names_with_other_characters)
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
	f = with("-", "", "LISTEN a");
	CHECK_INT(read_text(f, "SELECT \"-\"()"), TEXT_LISTENS);
	CHECK_INT(read_text(f, "SELECT 1 - 1"), 0);
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
	/* triggers have the effects of the functions that they call, and so do views */
	f = state_functions_new();
	REQUIRE(f);
	add_numbered(f, "1", "a");
	add_numbered(f, "2", "b");
	add_numbered(f, "3", "seen");
	ROW(f, "s", "1", "SELECT b()", "");
	ROW(f, "s", "2", "LISTEN a", "");
	ROW(f, "e", "3", "2", "f");
	ROW(f, "e", "0", "1", "w");
	CHECK(is_complete(f));
	CHECK_INT(read_text(f, "INSERT INTO t VALUES (1)"), TEXT_LISTENS);
	CHECK_INT(read_text(f, "SELECT * FROM seen"), TEXT_LISTENS);
	CHECK_INT(read_text(f, "SELECT * FROM t"), 0);
	state_functions_free(&f);
	/* calls in policies apply to every text; they must not pin every client */
	f = state_functions_new();
	REQUIRE(f);
	ROW(f, "h", "", "d", "r");
	CHECK(is_complete(f) && state_functions_summary(f).changes_something);
	CHECK(read_text(f, "SELECT 1") & TEXT_ANY_EFFECT && !(read_text(f, "SELECT 1") & TEXT_SETS_UNNAMED));
	state_functions_free(&f);
	/* defaults have the effects of the built-in functions that they call */
	f = state_functions_new();
	REQUIRE(f);
	ROW(f, "n", "1", "seen", "q");
	ROW(f, "n", "2", "last", "c");
	ROW(f, "n", "3", "told", "o");
	ROW(f, "h", "", "qv", "w");
	CHECK(is_complete(f));
	CHECK_INT(read_text(f, "TABLE seen"), TEXT_DRAWS);
	CHECK_INT(read_text(f, "TABLE last"), TEXT_READS_SEQUENCES | TEXT_READS_NAMED);
	CHECK_INT(read_text(f, "TABLE told"), TEXT_NOTIFIES);
	CHECK_INT(read_text(f, "UPDATE t SET a = 1"), TEXT_FILLS | TEXT_SETS_VALUES);
	state_functions_free(&f);
	/* inserts alone change nothing, unless the pool reads values of sequences */
	f = with("adds", "t", "INSERT INTO t VALUES (1)");
	CHECK(!state_functions_summary(f).changes_something && state_functions_summary(f).count == 0);
	CHECK_INT(read_text(f, "SELECT adds()"), TEXT_FILLS);
	CHECK_INT(read_text(f, "UPDATE t SET a = 1"), TEXT_FILLS);
	state_functions_free(&f);
	/* a function that is not a trigger */
	f = with("on_write", "", "SELECT set_config('a.b', 'x', false)");
	CHECK_INT(read_text(f, "INSERT INTO t VALUES (1)"), 0);
	state_functions_free(&f);
}

UNIT_MAIN
