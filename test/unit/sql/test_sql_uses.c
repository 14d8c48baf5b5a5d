/* What the walk over a text reports: names that may be called, types and operators. */
#include "sql/sql_uses.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char found[4096];

static void note(void *context, const struct sql_use *use)
{
	static const char letters[] = { [SQL_USE_CALL] = '(', [SQL_USE_COLUMN] = '.', [SQL_USE_FIELD] = '!', [SQL_USE_TYPE] = ':', [SQL_USE_OPERATOR] = 'o',
		[SQL_USE_COLLATION] = 'c', [SQL_USE_METHOD] = 'm', [SQL_USE_WORD] = 'w', [SQL_USE_STATEMENT] = 's', [SQL_USE_TOKEN] = 't' };

	bool may_be_qualified = use->kind == SQL_USE_CALL || (use->kind >= SQL_USE_TYPE && use->kind <= SQL_USE_METHOD);

	CHECK(context == found);
	sprintf(found + strlen(found), "%s%c%.*s%s", *found ? " " : "", letters[use->kind], (int)use->name.text_size, use->name.text, may_be_qualified && use->is_qualified ? "?" : "");
}

/* Walks at once and in parts of one token. */
static const char *uses_of(const char *text, size_t size, bool reports_all)
{
	struct sql_walk walk = { .reports_all = reports_all }, parts = walk;
	uint8_t *copy = malloc(size ? size : 1);
	char at_once[sizeof(found)];
	int64_t tokens = INT64_MAX;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	*found = '\0';
	sql_uses_walk(&walk, copy, size, &tokens, note, found);
	CHECK(walk.is_over);
	strcpy(at_once, found);
	*found = '\0';
	while (!parts.is_over) {
		tokens = 1;
		sql_uses_walk(&parts, copy, size, &tokens, note, found);
	}
	CHECK_TEXT(found, at_once);
	CHECK_INT(parts.is_uncertain, walk.is_uncertain);
	if (walk.is_uncertain)
		strcat(found, " uncertain");
	free(copy);
	return found;
}

static const struct { const char *text, *uses; } texts[] = {
	{ "", "" },
	{ "SELECT a, \"b\" FROM t WHERE id=$1;", "o=" },
	{ "SELECT abs(1), pg_catalog.abs (2), s . \"abs\" /* a */ --\n(3), d.s.abs(4)", "(abs (abs (abs? .s (abs?" },
	{ "SELECT abs--\r(1)", "(abs" },
	{ "SELECT U&\"\\0061bs\"(1)", "(\\0061bs" },
	{ "SELECT t.f, s.t.f, t.*, t. /**/ f FROM s.t", ".f .t .f o* .f .t" },
	{ "SELECT (x).f, (x).f.g, a[1].f, $1.f, (7) . f, (x).*", "(SELECT !f !f !g !f !f !f o*" },
	{ "SELECT 1.5.f", "!f" },
	{ "SELECT a::text, b::s.t(3)[], CAST(CAST(a AS int) AS \"T\"), date '1', numeric(3) '1'", ":text :t? (CAST (CAST :int :T :date (numeric" },
	{ "SELECT a AS b, f(a AS b), SELECT (SELECT a AS b)", "(f (SELECT" },
	{ "SELECT a COLLATE \"C\", b COLLATE s.c FROM t TABLESAMPLE m (1), t TABLESAMPLE s.n(2)", "cC cc? mm mn?" },
	{ "SELECT a||-1, a OPERATOR(pg_catalog.+) b, a OPERATOR(s.*) b, c *d", "o||- (OPERATOR o+ (OPERATOR o*? o*" },
	{ "SELECT 'f(1)', $$g(1)$$, \"h(1)\", /* i(1) */ 2", ":SELECT" },
	{ "INSERT INTO t (a, b) VALUES (1)", "(t (VALUES" },
	{ "SELECT f(1), 'a\\', g(1)", "(f uncertain" },
	{ "SELECT f(1), g (1) /*", "(f (g uncertain" },
	{ "SELECT a.(b)", "(a" },
	{ "a . b . (c)", "(b?" },
};

TEST(uses)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(uses_of(texts[i].text, strlen(texts[i].text) + 1, false), texts[i].uses) != 0)
			UNIT_FAIL("\"%s\": \"%s\"", texts[i].text, found);
}

TEST(everything)
{
	CHECK_TEXT(uses_of("SELECT a; B.c+1", 16, true), "tSELECT sSELECT wSELECT ta wa t; tB sB wB t. tc wc t+ .c o+ t1");
}

TEST(beginnings_of_texts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t size = 0; size <= strlen(texts[i].text); size++)
			CHECK(strstr(uses_of(texts[i].text, size, false), "uncertain"));
}

/* More than 64 parentheses: the outer ones count as CAST. */
TEST(deep_parentheses)
{
	char text[512] = "f(a AS ";

	for (int i = 0; i < 100; i++)
		strcat(text, "(");
	for (int i = 0; i < 100; i++)
		strcat(text, ")");
	strcat(text, " AS b) AS c");
	CHECK_TEXT(uses_of(text, strlen(text) + 1, false), "(f (AS :b");
}

UNIT_MAIN
