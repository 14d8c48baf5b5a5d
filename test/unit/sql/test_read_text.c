/* SQL texts that only read, complete and truncated at every byte, and the names in them. */
#include "sql/read_text.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static struct read_names names;

/* The first `size` bytes, in an allocation of that size. */
static bool reads_of(const char *text, size_t size, const char *functions)
{
	uint8_t *copy = malloc(size ? size : 1);
	bool result;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	result = read_text_only_reads(copy, size, functions, &names);
	free(copy);
	return result;
}

static bool reads(const char *text)
{
	return reads_of(text, strlen(text) + 1, NULL);
}

/* Checks each text, and that its beginnings are read without a fault. */
static void check(bool want, const char *const *texts)
{
	char part[4096];

	for (; *texts; texts++) {
		size_t size = strlen(*texts);

		if (reads(*texts) != want)
			UNIT_FAIL("\"%s\"", *texts);
		for (size_t i = 0; i <= size && size < sizeof(part); i++) {
			CHECK(!reads_of(*texts, i, NULL));
			memcpy(part, *texts, i);
			part[i] = '\0';
			reads(part);
		}
	}
}

TEST(queries)
{
	static const char *const texts[] = { "SELECT 1", "select 1;", " SELECT 1 ; ; ", "SELECT 1 -- a", "/* a /* b */ */ SELECT /* c */ 1 -- d\n;",
		"(SELECT 1)", "((SELECT 1))", "VALUES (1, 'a'), (2, 'b')", "VALUES (1) ORDER BY 1 LIMIT 1",
		"SELECT a, b AS c, d e, \"F\" \"G\", 'x' h, t.i, t.*, s.t.j, * FROM t", "SELECT a FROM t WHERE b = $1",
		"SELECT abalance FROM pgbench_accounts WHERE aid = 1234;",
		"SELECT DISTINCT a FROM t", "SELECT DISTINCT ON (a, b) c FROM t ORDER BY a, b DESC NULLS LAST, c ASC NULLS FIRST",
		"SELECT ALL a FROM t",
		"SELECT a FROM t ORDER BY 1 LIMIT 10 OFFSET 20", "SELECT a FROM t OFFSET 5 ROWS FETCH FIRST 10 ROWS ONLY",
		"SELECT a FROM t FETCH NEXT ROW ONLY", "SELECT a FROM t FETCH FIRST $1 ROWS WITH TIES", "SELECT a FROM t LIMIT $1 OFFSET $2",
		"SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 1", "SELECT a, b, sum(c) FROM t GROUP BY ROLLUP (a, b)",
		"SELECT a FROM t GROUP BY GROUPING SETS ((a), (a, b), ())", "SELECT a FROM t GROUP BY CUBE (a, b), c",
		"SELECT grouping(a) FROM t GROUP BY a",
		"SELECT 1 UNION SELECT 2", "SELECT 1 UNION ALL (SELECT 2) INTERSECT SELECT 3 EXCEPT ALL SELECT 4 ORDER BY 1",
		"(SELECT 1) UNION (SELECT 2) LIMIT 1", "((SELECT 1) UNION (SELECT 2)) ORDER BY 1",
		"SELECT * FROM ((SELECT 1) UNION (SELECT 2)) AS a", "SELECT ((SELECT 1) UNION (SELECT 1))", "WITH a AS (SELECT 1) SELECT * FROM a",
		"WITH RECURSIVE a (b, c) AS (SELECT 1, 2 UNION ALL SELECT b + 1, c FROM a WHERE b < 5), d AS NOT MATERIALIZED (VALUES (1)) SELECT * FROM a, d",
		"WITH a AS MATERIALIZED (SELECT 1) VALUES (1)", "SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) b", NULL };

	check(true, texts);
}

TEST(relations)
{
	static const char *const texts[] = { "SELECT * FROM a, b c, d AS e, \"F\".\"G\" h, ONLY i, j *",
		"SELECT * FROM a JOIN b ON a.c = b.c LEFT JOIN d USING (e, f) CROSS JOIN g NATURAL JOIN h",
		"SELECT * FROM a RIGHT OUTER JOIN b ON true FULL JOIN c ON (a.x = c.x), d",
		"SELECT * FROM a NATURAL LEFT OUTER JOIN b INNER JOIN c ON a.d = c.d AND c.e > 0 JOIN f ON f.g = ANY ($1) WHERE a.h",
		"SELECT * FROM a JOIN b JOIN c ON b.x = c.x ON a.y = b.y", "SELECT * FROM (a JOIN b USING (c)) d JOIN (SELECT * FROM e) f ON true",
		"SELECT * FROM (SELECT a FROM b) c (d)", "SELECT * FROM a AS b (c, d), (VALUES (1, 2)) AS e (f, g)",
		"SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.c = a.c) d", "SELECT * FROM a LEFT JOIN LATERAL unnest(a.b) c ON true",
		"SELECT * FROM generate_series(1, 10) a", "SELECT * FROM unnest($1::int[]) WITH ORDINALITY AS a (b, c)",
		"SELECT * FROM pg_catalog.generate_series(1, 2)", "SELECT * FROM public.a WHERE public.a.b = 1",
		"SELECT time, timestamp, position, row, filter, at FROM rows", NULL };

	check(true, texts);
}

TEST(expressions)
{
	static const char *const texts[] = { "SELECT 1 + 2 * -3 / +4 % 5 ^ 6", "SELECT 1.5, .5, 2., 1e5, 1.5e-5, 1E+5, $1, 'a', E'a', E'a\\n', ''",
		"SELECT a = 1 AND NOT b OR c <> 2 FROM t", "SELECT a IN (1, 2), b NOT IN (SELECT c FROM d) FROM t",
		"SELECT a BETWEEN 1 AND 2, b NOT BETWEEN SYMMETRIC 1 AND 2 FROM t",
		"SELECT a LIKE 'b%', a NOT ILIKE 'b' ESCAPE 'c', a SIMILAR TO 'b' FROM t",
		"SELECT a IS NULL, a IS NOT NULL, a ISNULL, a NOTNULL, a IS TRUE, a IS NOT UNKNOWN, a IS DISTINCT FROM b FROM t",
		"SELECT EXISTS (SELECT 1 FROM t), NOT EXISTS (SELECT 1)", "SELECT a = ANY ($1), a > ALL (SELECT 1), a = SOME (ARRAY[1]) FROM t",
		"SELECT (a, b) = (1, 2), ROW(1, 2), row(), (SELECT 1) FROM t",
		"SELECT CASE a WHEN 1 THEN 'b' WHEN 2 THEN 'c' ELSE d END, CASE WHEN a THEN 1 END e FROM t",
		"SELECT coalesce(a, 0), greatest(1, 2), least(1), nullif(a, 1) FROM t",
		"SELECT ARRAY[1, 2], ARRAY[[1], [2]], ARRAY(SELECT 1), a[1], a[1:2], a[:], a[1:], b.c[1][2] FROM t",
		"SELECT (a).b, (a.b).c, (a).*, (a[1]).b FROM t",
		"SELECT lower(a), upper(trim(a)), pg_catalog.length(b), \"left\"(a, 1), left(a, 1), right(a, 1), replace(a, 'b', 'c') FROM t",
		"SELECT count(*), count(DISTINCT a), sum(ALL b), string_agg(a, ',' ORDER BY b DESC NULLS LAST), max(a) FILTER (WHERE b > 0) FROM t",
		"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t",
		"SELECT row_number() OVER (), rank() OVER (PARTITION BY a, b ORDER BY c DESC), sum(a) OVER w, lag(a) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM t WINDOW w AS (ORDER BY a), x AS (w) ORDER BY 1",
		"SELECT sum(a) OVER (ORDER BY b RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW) FROM t",
		"SELECT extract(year FROM a), extract('epoch' FROM now()), substring(a FROM 1 FOR 2), substring(a, 1, 2), position('a' IN b), overlay(a PLACING 'b' FROM 1 FOR 2), trim(BOTH 'a' FROM b), trim(LEADING FROM a), trim(a) FROM t",
		"SELECT a COLLATE \"C\", a AT TIME ZONE 'UTC', (a, b) OVERLAPS (c, d) FROM t",
		"SELECT current_date, CURRENT_TIMESTAMP, current_timestamp(3), localtime, current_user, null, TRUE, now()",
		"SELECT make_interval(days => 10)", "SELECT concat(VARIADIC $1)",
		"SELECT a->'b'->>'c', a#>>'{b}', a @> '{}', a <@ b, a ? 'b', a ?| b, a && b, a || b, a ~ 'b', a !~* 'b', a<-1, a=-1, a +++ b FROM t",
		"SELECT DATE '2020-01-01', interval '1 day', INTERVAL '1' DAY, interval '1 2' day to hour, timestamp '2020-01-01', timestamp with time zone '2020-01-01', time (3) without time zone '1:00', public.mood 'a'",
		"SELECT \"a$b\", a$b, _a FROM t", "SELECT '\xc3\xa4', \"\xc3\xa4\" FROM t", "SELECT 'a''b', 'it is ; -- /* '",
		"SELECT a AS order, b AS \"select\" FROM t", "SELECT 'INSERT INTO t'", "SELECT u & \"b\", u&b, a.u & 1 FROM t",
		"SELECT a -- INTO b\n FROM t /* FOR UPDATE */", NULL };

	check(true, texts);
}

TEST(types)
{
	static const char *const texts[] = { "SELECT a::int, b::pg_catalog.int4, c::numeric(10, 2), d::varchar(5)::text, CAST(e AS text), CAST(f AS character varying(3)) FROM t",
		"SELECT a::timestamp with time zone, a::timestamp(3) without time zone, a::time, a::double precision, a::bit varying(3), a::bit(3), a::national character varying FROM t",
		"SELECT a::int[], a::text[][], a::int[3], '{}'::jsonb, $1::uuid, $2::mood, $3::public.mood, 'a'::\"Mood\" FROM t",
		"SELECT a::interval day to second, a::interval(3), a::geometry(Point, 4326) FROM t",
		"SELECT (a::text)::int + 1, a::int + 1, - a::int FROM t", NULL };

	check(true, texts);
}

TEST(other_statements)
{
	static const char *const texts[] = { "", ";", "SELECT 1; SELECT 2", "SELECT 1; INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1)",
		"UPDATE t SET a = 1", "DELETE FROM t", "MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", "BEGIN", "COMMIT",
		"BEGIN READ ONLY; SELECT 1; COMMIT",
		"TABLE t", "SELECT * FROM (TABLE t) a", "(TABLE t)", "WITH a AS (TABLE t) SELECT 1", "SELECT 1 UNION TABLE t",
		"SELECT a INTO b FROM t", "SELECT a INTO TEMP b FROM t", "SELECT INTO b FROM t", "SELECT * INTO b FROM t",
		"SELECT a AS c INTO b FROM t", "SELECT a FROM t FOR UPDATE", "SELECT a FROM t FOR SHARE OF t",
		"SELECT a FROM t x FOR KEY SHARE SKIP LOCKED",
		"SELECT a FROM t LIMIT 1 FOR NO KEY UPDATE", "SELECT * FROM (SELECT * FROM t FOR UPDATE) a", "SELECT (SELECT a FROM t FOR UPDATE)",
		"WITH a AS (INSERT INTO t VALUES (1) RETURNING b) SELECT * FROM a", "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
		"WITH a AS (UPDATE t SET b = 1 RETURNING *) SELECT 1",
		"WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "WITH a AS (SELECT 1) DELETE FROM t",
		"SELECT * FROM (DELETE FROM t RETURNING *) a", "SELECT (DELETE FROM t)", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1",
		"COPY t TO STDOUT", "COPY (SELECT 1) TO PROGRAM 'a'", "DECLARE a CURSOR FOR SELECT 1", "FETCH a",
		"PREPARE a AS SELECT 1", "EXECUTE a", "CREATE TABLE a AS SELECT 1", "CREATE VIEW a AS SELECT 1", "SET a = 1",
		"SHOW transaction_read_only", "LOCK t", "LISTEN a", "CALL f()", "DO 'a'", "VACUUM", "CHECKPOINT", "ALTER SYSTEM SET a = 1",
		"LOAD 'a'", "REFRESH MATERIALIZED VIEW a", "SELECT", "SELECT 1 FROM", "SELECT 1 +", "SELECT (1", "SELECT 1)", "SELECT CASE a",
		"SELECT a[1",
		"/* pgweir: primary */SELECT 1", "/* pgweir: primary */ SELECT 1", "VALUES 1", "VALUES (1", "WITH a SELECT 1",
		"SELECT * FROM t TABLESAMPLE system (1)", "SELECT * FROM t a TABLESAMPLE bernoulli (1)",
		"SELECT * FROM ROWS FROM (generate_series(1, 2))", "SELECT * FROM t WHERE CURRENT OF a", "SELECT a FROM t GROUP BY a b",
		"SELECT a FROM t WHERE a b", "SELECT (a b) FROM t", "SELECT 1 2", "SELECT 'a' 'b'", NULL };

	check(false, texts);
}

TEST(other_functions)
{
	static const char *const texts[] = { "SELECT f(1)", "SELECT public.lower('a')", "SELECT a.lower('b')", "SELECT pg_catalog.f(1)",
		"SELECT pg_catalog.pg_catalog.lower('a')", "SELECT \"Lower\"('a')", "SELECT * FROM f(1)", "SELECT * FROM public.unnest($1)",
		"SELECT random()", "SELECT nextval('a')", "SELECT currval('a')", "SELECT lastval()", "SELECT setval('a', 1)",
		"SELECT clock_timestamp()", "SELECT timeofday()", "SELECT gen_random_uuid()", "SELECT setseed(1)",
		"SELECT pg_is_in_recovery()", "SELECT pg_catalog.pg_is_in_recovery()", "SELECT inet_server_addr()", "SELECT version()",
		"SELECT current_setting('a.b')", "SELECT set_config('a.b', '', true)", "SELECT pg_advisory_lock(1)",
		"SELECT pg_try_advisory_xact_lock(1)", "SELECT pg_export_snapshot()", "SELECT txid_current()", "SELECT pg_current_xact_id()",
		"SELECT pg_current_wal_lsn()", "SELECT pg_sleep(1)",
		"SELECT pg_notify('a', '')", "SELECT pg_reload_conf()", "SELECT pg_terminate_backend(1)", "SELECT pg_wal_replay_pause()",
		"SELECT pg_switch_wal()", "SELECT pg_backend_pid()", "SELECT pg_stat_reset()", "SELECT pg_create_restore_point('a')",
		"SELECT pg_logical_emit_message(true, 'a', 'b')", "SELECT pg_read_file('a')", "SELECT pg_ls_dir('a')", "SELECT lo_get(1)",
		"SELECT lo_import('a')", "SELECT loread(1, 2)",
		"SELECT query_to_xml('DELETE FROM t', true, true, '')", "SELECT table_to_xml('t', true, true, '')",
		"SELECT cursor_to_xml('a', 1, true, true, '')", "SELECT database_to_xml(true, true, '')", "SELECT ts_stat('SELECT f()')",
		"SELECT ts_rewrite('a'::tsquery, 'SELECT f()')", "SELECT * FROM dblink('a', 'b') AS c (d int)", "SELECT dblink_exec('a')",
		"SELECT json_populate_record(t, '{}') FROM t", "SELECT * FROM json_to_record('{}') AS a (b int)",
		"SELECT * FROM unnest($1) AS a (b int)", "SELECT * FROM unnest($1) AS (b int)", "SELECT JSON_OBJECT('a': 1)",
		"SELECT json_object('a' VALUE 1)", "SELECT JSON_ARRAY(1)", "SELECT * FROM JSON_TABLE('{}', '$' COLUMNS (a int))",
		"SELECT * FROM XMLTABLE('a' PASSING b COLUMNS c int)", "SELECT xmlelement(name a, f())", "SELECT COLLATION FOR (a) FROM t",
		"SELECT treat(a AS b) FROM t", "SELECT normalize(a) FROM t", "SELECT a IS NORMALIZED FROM t", "SELECT a IS JSON FROM t",
		"SELECT a AT LOCAL FROM t",
		"SELECT a OPERATOR(public.+) b FROM t", "SELECT a ORDER BY b USING <", "SELECT a @>-1 FROM t", "SELECT a <%> b FROM t",
		"SELECT a ===b FROM t", "SELECT system_user", "SELECT system_user()", "SELECT f (1)", "SELECT f/**/(1)", "SELECT f--\n(1)",
		"SELECT lower(f(1))", "SELECT max(a) FILTER (WHERE f(b)) FROM t", "SELECT a[f(1)] FROM t", "SELECT CASE WHEN f() THEN 1 END",
		"SELECT 1 LIMIT f()", "SELECT 1 ORDER BY f()", "SELECT (a).f(1) FROM t", "SELECT a::f(g(1)) FROM t",
		"SELECT * FROM t, LATERAL f(t.a)", "SELECT * FROM t JOIN f(1) ON true", "SELECT * FROM t JOIN u ON f(1)", "SELECT f(1) OVER ()",
		"SELECT rank() OVER (ORDER BY f(1))", "SELECT f(VARIADIC $1)", "SELECT cube(1)", "SELECT a FROM t WHERE cube(a, 1) = b", NULL };

	check(false, texts);
}

TEST(other_relations)
{
	static const char *const texts[] = { "SELECT * FROM pg_class", "SELECT * FROM pg_catalog.pg_class", "SELECT * FROM pg_stat_activity",
		"SELECT * FROM \"pg_settings\"", "SELECT * FROM PG_SEQUENCES", "SELECT * FROM information_schema.tables", "SELECT * FROM pg_temp.a",
		"SELECT * FROM pg_temp_3.a", "SELECT * FROM a.b.c", "SELECT * FROM a.*", "SELECT * FROM t, pg_locks",
		"SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM pg_locks)",
		"SELECT * FROM \xc3\xa4", "SELECT * FROM \"\xc3\xa4\"", "SELECT * FROM \"a\"\"b\"", "SELECT * FROM \"a'b\"",
		"SELECT * FROM aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "SELECT xmin FROM t", "SELECT t.xmax FROM t",
		"SELECT \"cmin\" FROM t", "SELECT (t).cmax FROM t", "SELECT t.pg_typeof FROM t", "SELECT (t).pg_column_size FROM t", NULL };

	check(false, texts);
}

TEST(doubtful_lexemes)
{
	static const char *const texts[] = { "SELECT 'a\\b'", "SELECT 'a\\'; DELETE FROM t --'", "SELECT $$a$$", "SELECT $a$ ' $a$", "SELECT U&'a'",
		"SELECT u&\"a\" FROM t", "SELECT a.u&\"b\\0061\" FROM t", "SELECT a.u&\"b\" FROM t", "SELECT a COLLATE U&\"b\" FROM t",
		"SELECT a AS u&\"b\"", "SELECT E'\xc3\xa4'", "SELECT e'\x95\\' FROM t --'", "SELECT sum(a) OVER (ROWS $$a$$ PRECEDING)",
		"SELECT * FROM U&\"a\"", "SELECT 1a", "SELECT 1from t", "SELECT 0x1F", "SELECT 1_000", "SELECT 1.2.3", "SELECT 1..2", "SELECT 1e",
		"SELECT 1e+", "SELECT .", "SELECT .e1", "SELECT $", "SELECT $a", "SELECT $1a", "SELECT 'a", "SELECT \"a FROM t", "SELECT 1 /* a",
		"SELECT E'a\\'",
		"SELECT \xc3\xa4 FROM t", "SELECT a\xc3\xa4(1)", "SELECT a.\"\xc3\xa4\" FROM t", "SELECT \xc2\xa0 1", "SELECT a..b FROM t",
		"SELECT a.1 FROM t", "SELECT a.b.c.d.e FROM t", "SELECT a := 1", "SELECT a : b", "SELECT [1]", "SELECT {a}", "SELECT \\d",
		"SELECT `a`", "SELECT a, FROM t", "SELECT 1 'a'", "SELECT '' ''\n''", NULL };

	check(false, texts);
}

TEST(listed_functions)
{
	const char *list = " f, app.g ,h,\tupper_of,lower";

	CHECK(reads_of("SELECT f(1)", 12, list));
	CHECK(reads_of("SELECT F ( 1 )", 15, list));
	CHECK(reads_of("SELECT \"f\"(1)", 14, list));
	CHECK(!reads_of("SELECT \"F\"(1)", 14, list));
	CHECK(reads_of("SELECT app.g(1)", 16, list));
	CHECK(!reads_of("SELECT g(1)", 12, list));
	CHECK(!reads_of("SELECT app.f(1)", 16, list));
	CHECK(!reads_of("SELECT app.h(1)", 16, list));
	CHECK(!reads_of("SELECT upper_o(1)", 18, list));
	CHECK(!reads_of("SELECT f(e(1))", 15, list));
	CHECK(reads_of("SELECT * FROM h(1)", 19, list));
	CHECK(!reads_of("SELECT f(1)", 12, ""));
	CHECK_INT(names.count, 0);
	/* the user's function of this name is also allowed */
	CHECK(reads_of("SELECT lower(1)", 16, list));
	CHECK_INT(names.count, 0);
}

static const char *names_of(const char *text)
{
	static const char *const kinds[] = { "schema ", "", "function ", "attribute ", "type " };
	static char said[1000];
	size_t size = 0;

	if (!reads(text))
		return "no";
	*said = '\0';
	for (unsigned i = 0; i < names.count; i++)
		size += (size_t)snprintf(said + size, sizeof(said) - size, "%s%s%.*s", i ? ", " : "", kinds[names.list[i].kind], names.list[i].size,
		text + names.list[i].at);
	return said;
}

TEST(names_in_texts)
{
	CHECK_PAIRS(names_of, { "SELECT 1", "" }, { "SELECT a FROM t", "t" }, { "SELECT t.a FROM s.\"T\" t", "attribute a, schema s, T" },
	{ "SELECT lower(a)::text FROM t JOIN u USING (b)", "function lower, type text, t, u" },
		    { "WITH c AS (SELECT 1) SELECT * FROM c, (SELECT * FROM d) e", "c, d" }, { "SELECT date '2020-01-01', s.t.u",
		    "type date, attribute t, attribute u" }, { "SELECT substring(a FROM 1), (b).c, d.* FROM d",
		    "function substring, attribute c, d" },
		    { "SELECT a FROM t WHERE b IN (SELECT c FROM u) AND EXISTS (SELECT 1 FROM v, w)", "t, u, v, w" },
		    { "SELECT CAST(a AS s.u) FROM (t JOIN v ON true)", "type u, t, v" }, { "SELECT extract(day FROM d) FROM t",
		    "function extract, t" });
}

/* A text of `before`, the part as often as asked, and `after`; the caller frees it. */
static char *repeated(const char *before, const char *part, size_t times, const char *after)
{
	size_t size = strlen(before) + strlen(part) * times + strlen(after) + 1;
	char *text = malloc(size), *at = text;

	if (!text)
		abort();
	at = stpcpy(at, before);
	while (times-- > 0)
		at = stpcpy(at, part);
	strcpy(at, after);
	return text;
}

static bool reads_repeated(const char *before, const char *part, size_t times, const char *after)
{
	char *text = repeated(before, part, times, after);
	bool result = reads(text);

	free(text);
	return result;
}

TEST(limits)
{
	CHECK(reads_repeated("SELECT 1", "+1", 8000, ""));
	CHECK(!reads_repeated("SELECT 1", "+1", 50000, ""));
	CHECK(reads_repeated("SELECT ", " ", READ_TEXT_MOST - 9, "1"));
	CHECK(!reads_repeated("SELECT ", " ", READ_TEXT_MOST - 8, "1"));
	CHECK(!reads_repeated("SELECT ", "(", 50000, "1"));
	CHECK(!reads_repeated("SELECT ", "(", 10000, "1"));
	CHECK(!reads_repeated("SELECT ", "(", 64, "1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))"));
	CHECK(reads_repeated("SELECT ", "(", 60, "1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))"));
	CHECK(!reads_repeated("SELECT ", "CASE ", 3000, ""));
	CHECK(!reads_repeated("SELECT ", "lower(", 2000, ""));
	CHECK(!reads_repeated("SELECT ARRAY", "[", 10000, ""));
	CHECK(!reads_repeated("", "(", 10000, ""));
	CHECK(!reads_repeated("SELECT ", "/*", 8000, ""));
	CHECK(reads_repeated("SELECT 1", " UNION SELECT 1", 1000, ""));
	CHECK(reads_repeated("SELECT * FROM t", ", t", READ_NAMES_MOST - 1, ""));
	CHECK(!reads_repeated("SELECT * FROM t", ", t", READ_NAMES_MOST, ""));
	CHECK(reads_repeated("SELECT * FROM ", "a", 63, ""));
	CHECK(!reads_repeated("SELECT * FROM ", "a", 64, ""));
	CHECK(!reads_repeated("SELECT ", "a", 64, " FROM t"));
	CHECK(!reads_repeated("SELECT t.", "a", 64, " FROM t"));
	CHECK(!reads_repeated("SELECT ", "f", 5000, "(1)"));
}

UNIT_MAIN
