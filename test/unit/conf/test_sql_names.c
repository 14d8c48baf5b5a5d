/* Names in SQL texts that a server resolves by search_path. */
#include "conf/sql_names.h"
#include "unit.h"

/* Returns the found name, or "". */
static const char *found_in(const char *sql)
{
	static char name[65];

	return sql_unqualified_name(sql, name, sizeof(name)) ? name : "";
}

TEST(operators)
{
	CHECK_TEXT(found_in("SELECT a FROM b WHERE c = $1"), "=");
	CHECK_TEXT(found_in("SELECT a FROM b WHERE c=$1"), "=");
	CHECK_TEXT(found_in("SELECT a||b"), "||");
	CHECK_TEXT(found_in("SELECT -1"), "-");
	CHECK_TEXT(found_in("SELECT 2 * 3"), "*");
	CHECK_TEXT(found_in("SELECT (2) * 3"), "*");
	CHECK_TEXT(found_in("SELECT a <@/* comment */b"), "<@");
	CHECK_TEXT(found_in("SELECT a =-- comment\nb"), "=");
	CHECK_TEXT(found_in("SELECT a OPERATOR(pg_catalog.=) b"), "");
	CHECK_TEXT(found_in("select a operator ( pg_catalog.= ) b"), "");
	CHECK_TEXT(found_in("SELECT a OPERATOR(pg_catalog.=) b, c < d"), "<");
	CHECK_TEXT(found_in("SELECT OPERATOR(pg_catalog."), "");
	CHECK_TEXT(found_in("SELECT OPERATOR"), "");
}

TEST(keywords_for_operators)
{
	CHECK_TEXT(found_in("SELECT a IN (b)"), "IN");
	CHECK_TEXT(found_in("SELECT a LIKE b"), "LIKE");
	CHECK_TEXT(found_in("SELECT a between b and c"), "between");
	CHECK_TEXT(found_in("SELECT nullif(a, b)"), "nullif");
	CHECK_TEXT(found_in("SELECT \"in\""), "");
}

TEST(asterisks)
{
	CHECK_TEXT(found_in("SELECT * FROM a"), "");
	CHECK_TEXT(found_in("SELECT DISTINCT * FROM a"), "");
	CHECK_TEXT(found_in("SELECT a.*, b.* FROM a, b"), "");
	CHECK_TEXT(found_in("SELECT a, * FROM b"), "");
	CHECK_TEXT(found_in("SELECT pg_catalog.count(*) FROM b"), "");
}

TEST(functions)
{
	CHECK_TEXT(found_in("SELECT now()"), "now");
	CHECK_TEXT(found_in("SELECT now /* comment */ ()"), "now");
	CHECK_TEXT(found_in("SELECT * FROM \"User Search\"($1)"), "\"User Search\"");
	CHECK_TEXT(found_in("SELECT pg_catalog.now()"), "");
	CHECK_TEXT(found_in("SELECT pg_catalog . \"now\" ()"), "");
	CHECK_TEXT(found_in("SELECT * FROM s.f($1) AS t(a, b)"), "");
	CHECK_TEXT(found_in("SELECT a::varchar(20), CAST(b AS numeric(3, 1))"), "");
	CHECK_TEXT(found_in("SELECT COALESCE(a, b), CASE WHEN (a) THEN (b) ELSE (c) END WHERE EXISTS (SELECT c)"), "");
	CHECK_TEXT(found_in("SELECT x_($1)"), "x_");
	CHECK_TEXT(found_in("SELECT \xc3\xa4($1)"), "\xc3\xa4");
}

TEST(functions_alone)
{
	char name[65];

	CHECK(sql_unqualified_function("SELECT a FROM b WHERE c = f($1)", name, sizeof(name)));
	CHECK_TEXT(name, "f");
	CHECK(!sql_unqualified_function("SELECT a FROM b WHERE c = $1 AND d IN (e) AND nullif(a, b) = s.f(c)", name, sizeof(name)));
}

TEST(texts_without_names)
{
	CHECK_TEXT(found_in(""), "");
	CHECK_TEXT(found_in("DISCARD ALL"), "");
	CHECK_TEXT(found_in("<empty>"), "<");
	CHECK_TEXT(found_in("SET a TO b; RESET c"), "");
	CHECK_TEXT(found_in("SET a = 'b'; set local c = d, e; SELECT f()"), "f");
	CHECK_TEXT(found_in("SET a = 'b"), "");
	CHECK_TEXT(found_in("UPDATE a SET b = 1"), "=");
	CHECK_TEXT(found_in("SELECT 'a = b', E'\\' = f()', $$ = f() $$, $a$ = $$ f() $a$, \"= f()\", $1"), "");
	CHECK_TEXT(found_in("SELECT 'it''s = ', n'=', X'00', b'1'"), "");
	CHECK_TEXT(found_in("-- = f()\nSELECT /* = /* f() */ = */ 1"), "");
	CHECK_TEXT(found_in("SELECT 1.5, 2e5"), "");
	CHECK_TEXT(found_in("SELECT '\\', f()"), "f");
	CHECK_TEXT(found_in("SELECT $1f, $a, f()"), "f");
}

TEST(unterminated_texts)
{
	CHECK_TEXT(found_in("SELECT 'a = "), "");
	CHECK_TEXT(found_in("SELECT E'a\\"), "");
	CHECK_TEXT(found_in("SELECT \"a = "), "");
	CHECK_TEXT(found_in("SELECT $a$ = $b$"), "");
	CHECK_TEXT(found_in("SELECT /* = /* */"), "");
	CHECK_TEXT(found_in("SELECT -- ="), "");
	CHECK_TEXT(found_in("SELECT $"), "");
}

TEST(long_name_is_truncated)
{
	char name[4];

	CHECK(sql_unqualified_name("SELECT function(1)", name, sizeof(name)));
	CHECK_TEXT(name, "fun");
}

UNIT_MAIN
