/* SQL that may change the meaning of other texts. */
#include "pg/meaning.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

typedef bool question(const uint8_t *text, size_t size);

/* Checks the first `size` bytes, in an allocation of that size. */
static bool ask(question *asked, const char *text, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	bool answer;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	answer = asked(copy, size);
	free(copy);
	return answer;
}

static void check(question *asked, bool answer, const char *const *texts)
{
	for (; *texts; texts++)
		if (ask(asked, *texts, strlen(*texts) + 1) != answer)
			UNIT_FAIL("\"%s\"", *texts);
}

TEST(queries)
{
	static const char *const keep[] = { "SET statement_timeout = 1", "set local work_mem to '1MB';", "SET SESSION a.search_path = 1", "SET LOCAL app.tenant = '7' ; ",
		"SET enable_seqscan=off", "SET TIME ZONE 'UTC'", "SET TRANSACTION READ ONLY", NULL };
	static const char *const change[] = { "SET search_path = a", "SET LOCAL ROLE a", "SET SESSION AUTHORIZATION a", "SET \"work_mem\" = 1", "SET work_mem = 1; SET search_path = a",
		"RESET work_mem", "SET /* a */ work_mem = 1", "SET transform_null_equals = on", "SET", "", "SET work_mem\"a = 1", NULL };

	check(meaning_query_keeps, true, keep);
	check(meaning_query_keeps, false, change);
	CHECK(!ask(meaning_query_keeps, "SET work_mem = 1", 16));
}

TEST(parsed_texts)
{
	static const char *const keep[] = { "SELECT 1", "SET LOCAL app.tenant = '7'", " ;RESET work_mem", "", "/* a */ SELECT 1", "setting", NULL };
	static const char *const change[] = { "SET LOCAL search_path = a", "RESET ALL", "RESET search_path", "/* a */ SET work_mem = 1", "-- a\nset ROLE a", NULL };

	check(meaning_parse_keeps, true, keep);
	check(meaning_parse_keeps, false, change);
	CHECK(!ask(meaning_parse_keeps, "SELECT 1", 8));
}

TEST(calls)
{
	static const char *const change[] = { "SELECT set_config('search_path', 'a', true)", "SELECT SET_CONFIG($1, $2, true)", "SELECT set_config ( lower('a.b'), '', true)",
		"SELECT pg_catalog.\"set_config\"('role', 'a', false)", "SELECT set_config('a.b', '', true), set_config('search_path', 'a', true)",
		"SELECT set_config('a.b' || 'c', '', true), set_config", NULL };
	static const char *const keep[] = { "SELECT set_config('request.jwt.claims', $1, true)", "SELECT set_config( 'statement_timeout', '1', false)", "SELECT a_b, _config, set_confi",
		"", "_", NULL };

	check(meaning_is_configured, true, change);
	check(meaning_is_configured, false, keep);
	CHECK(ask(meaning_is_configured, "SELECT 1", 8));
}

UNIT_MAIN
