/* Each way in which a text runs code: src/sql/state_calls.c lists them. */
#include "sql/state_text.h"
#include "unit.h"

#include <string.h>

/* The catalogue has these functions. */
static bool is_mine(const void *context, const char *name, size_t size)
{
	(void)context;
	return lex_equal(name, size, "mine") || lex_equal(name, size, "mine_too");
}

/* The quick way proves nothing that the walk does not prove. */
static bool is_proven(const char *text, bool is_source)
{
	struct text_calls calls = { .search.words_left = INT64_MAX, .walk.is_source = is_source }, plain = { .search.words_left = INT64_MAX };
	unsigned told = state_text_tells((const uint8_t *)text, strlen(text) + 1);
	bool result = state_text_calls_known(&calls, (const uint8_t *)text, strlen(text) + 1, is_mine, NULL), quickly = true;

	CHECK(calls.search.is_over);
	if (is_source)
		return result;
	plain.is_plain = !(told & TEXT_TELLS_CALLS);
	if (told & (TEXT_TELLS_CALLS | TEXT_TELLS_PARENTHESIS))
		quickly = state_text_calls_known(&plain, (const uint8_t *)text, strlen(text) + 1, is_mine, NULL);
	/* a string may end elsewhere, but then the whole text is an error, or its parentheses have been examined */
	if (quickly != result && !calls.walk.is_uncertain && !(told & TEXT_TELLS_WORDS))
		UNIT_FAIL("%s: quickly %d", text, quickly);
	return result && quickly;
}

TEST(proven)
{
	static const char *const texts[] = {
		"", "SELECT a, t.b, s.t.c FROM s.t WHERE a = $1 AND \"t\".\"b\" IN ($2, 'it''s') ORDER BY t.b",
		"SELECT abs(1), pg_catalog.abs(1), \"pg_catalog\" . \"abs\" /* a */ (1), lower ( 'A' ), count(*), now()",
		"SELECT mine(1), s.mine(2), \"mine_too\" (3), (7).mine, a[1] . mine_too, (x).lower, (x).*",
		"SELECT sum(a) FILTER (WHERE a > 1) OVER (PARTITION BY (b)), count(*) over (w) FROM t JOIN (SELECT 1) x ON true GROUP BY (a)",
		"SELECT CAST(a AS s.t), a::s.t, numeric(3) '1', TRIM(BOTH FROM a), extract(year FROM a), COALESCE(a, b), NULLIF(a, b), GREATEST(a, b), ROW(a, b)",
		"SELECT a || b, a OPERATOR(pg_catalog.+) b, a ILIKE (b), a COLLATE \"C\" FROM t TABLESAMPLE system (1)",
		"WITH RECURSIVE x (a) AS MATERIALIZED (SELECT 1) INSERT INTO t (a, b) VALUES (1, DEFAULT) ON CONFLICT DO UPDATE SET (a, b) = (1, 2)",
		"UPDATE t SET (a, b) = (1, 2)", "COPY t (a) FROM STDIN", "COPY (SELECT 1) TO STDOUT", "EXPLAIN (ANALYZE) SELECT 1", "VACUUM (FULL) t",
		"SELECT a FROM (VALUES (1)) AS v (a), LATERAL (SELECT 1) x WHERE EXISTS (SELECT 1)", "SELECT 'evil(1)', $$evil(1)$$, \"evil(1)\" -- evil(1)",
		"SELECT 'C:\\dir', " "lower('a')", "SELECT '{\"a\\n\": 1}', lower('\\d')", "SELECT E'a'\n'\\', evil(1) --'", NULL,
	};

	for (size_t i = 0; texts[i]; i++)
		if (!is_proven(texts[i], false))
			UNIT_FAIL("%s", texts[i]);
}

TEST(unproven)
{
	static const char *const texts[] = {
		/* calls */
		"SELECT evil(1)", "SELECT evil (1)", "SELECT evil/**/(1)", "SELECT evil--\n(1)", "SELECT evil--\r(1)", "SELECT \"evil\"(1)", "SELECT U&\"\\0061bs\"(1)",
		"SELECT \"Abs\"(1)", "SELECT \"abs x\"(1)", "SELECT \"a\"\"bs\"(1)", "SELECT \xc3\xa4(1)", "CALL evil()", "EXECUTE evil(1)",
		/* schemas */
		"SELECT mallory.abs(1)", "SELECT mallory./**/abs(1)", "SELECT mallory.--\rabs(1)", "SELECT \"mallory\" . abs(1)", "SELECT U&\"m\".abs(1)",
		"SELECT d.pg_catalog.abs(1)", "SELECT \"PG_CATALOG\".abs(1)",
		/* a text in a string */
		"SELECT ts_stat('SELECT 1')", "SELECT ts_stat--\r('SELECT 1')", "SELECT query_to_xml('SELECT 1', true, true, '')", "SELECT ts_rewrite(a, 'SELECT 1')",
		"SELECT ('SELECT 1'::text).ts_stat", "SELECT g.ts_stat FROM unnest(ARRAY['SELECT 1']) g", "SELECT g.\"ts_stat\" FROM f g", "SELECT g.U&\"ts\" FROM g",
		/* fields */
		"SELECT (7).evil", "SELECT (7)/**/. evil", "SELECT (x).a.evil", "SELECT a[1].evil", "SELECT $1.evil", "SELECT (SELECT 1).evil", "SELECT (x).U&\"abs\"",
		/* keywords that may be functions */
		"SELECT \"values\"(1)", "SELECT \"in\"(1)", "SELECT verbose(1)", "SELECT copy(1)", "SELECT explain(1)", "SELECT over(1)", "SELECT a, set(1)",
		"SELECT NOT filter(1)", "SELECT by(1)", "SELECT 1 + join(1)", "SELECT ilike(a, b)", "SELECT s.join(1)", "SELECT materialized(1)",
		/* operators of another schema */
		"SELECT 1 OPERATOR(mallory.+) 2", "SELECT 1 OPERATOR(mallory/**/.*) 2", "SELECT a FROM t ORDER BY a USING OPERATOR(mallory.<)",
		/* ends of tokens */
		"SELECT 'a\\', abs(1)", "SELECT 1 /*", "SELECT 'a", "SELECT E'\x95\\', evil(1), '", "SELECT \x81|abs(1)",
		"SELECT E'a'\n'\\'', evil(1), ''", "SELECT operator(1)", NULL,
	};

	for (size_t i = 0; texts[i]; i++)
		if (is_proven(texts[i], false))
			UNIT_FAIL("%s", texts[i]);
}

/* In the source of a function a question mark replaces each character that is not ASCII. */
TEST(sources)
{
	CHECK(is_proven("BEGIN RETURN a || (r).a || mine(1) || (b ? 'c'); END", true));
	CHECK(!is_proven("BEGIN RETURN f?(1); END", true));
	CHECK(!is_proven("BEGIN RETURN ?(1); END", true));
	CHECK(!is_proven("BEGIN RETURN evil--\r(1); END", true));
}

UNIT_MAIN
