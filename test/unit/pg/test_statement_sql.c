/* Names of prepared statements in SQL, complete and truncated at every byte. */
#include "pg/statement_sql.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Returns the names in the first `size` bytes, in an allocation of that size: "a" of EXECUTE, "-a" of DEALLOCATE. */
static const char *ask(const char *text, size_t size, unsigned *count)
{
	static char found[4096];
	struct sql_name names[SQL_NAMES_MOST];
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, text, size);
	*count = statement_sql_read(copy, size, names);
	found[0] = 0;
	for (unsigned i = 0; i < *count; i++) {
		strcat(found, i ? " " : "");
		strcat(found, names[i].drops ? "-" : "");
		strcat(found, names[i].text);
		CHECK(names[i].at + names[i].size < size && names[i].text_size == strlen(names[i].text) + 1);
	}
	free(copy);
	return found;
}

TEST(names_in_texts)
{
	static const struct { const char *text, *names; } all[] = {
		{ "DEALLOCATE a", "-a" }, { "deallocate prepare A_1 ;", "-a_1" }, { "DEALLOCATE prepare", "-prepare" },
		{ "DEALLOCATE PREPARE prepare", "-prepare" }, { "DEALLOCATE \"A\"\"b\"", "-A\"b" }, { "/* a */DEALLOCATE--b\n\"a\"", "-a" },
		{ "DEALLOCATE ALL", "" }, { "DEALLOCATE PREPARE ALL", "" }, { "DEALLOCATE \"all\"", "-all" }, { "DEALLOCATE", "" },
		{ "DEALLOCATE;DEALLOCATE a", "-a" }, { "DEALLOCATE a b", "" }, { "DEALLOCATE a, b", "" }, { "DEALLOCATE 'a'", "" }, { "DEALLOCATE U&\"a\"", "" },
		{ "EXECUTE a", "a" }, { "execute A(1, 'x;', $$;$$)", "a" }, { "EXPLAIN (ANALYZE) EXECUTE a(1)", "a" },
		{ "CREATE TEMP TABLE t AS EXECUTE a", "a" }, { "CREATE TRIGGER t AFTER INSERT ON t EXECUTE FUNCTION a()", "" },
		{ "SELECT 'EXECUTE a'; SELECT \"DEALLOCATE a\"", "" }, { "SELECT 'it''s; DEALLOCATE a'; EXECUTE b", "b" },
		{ "SELECT E'it\\'s; DEALLOCATE a'; EXECUTE b", "b" }, { "SELECT '\\'; EXECUTE b", "" },
		{ "SELECT $q$ ' $$ ; DEALLOCATE a $q$; EXECUTE b", "b" }, { "SELECT $1; EXECUTE b", "b" }, { "SELECT a$b$; EXECUTE b; SELECT $b$", "" },
		{ "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; EXECUTE a); EXECUTE b", "b" },
		{ "BEGIN; EXECUTE a; DEALLOCATE a; DEALLOCATE b; COMMIT", "a -a -b" }, { ";; ; ", "" }, { "", "" }, { "SELECT 'open", "" }, { "EXECUTE", "" },
		{ "EXECUTE 1", "" }, { "EXPLAIN SELECT 1", "" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t size = strlen(all[i].text) + 1;
		unsigned count;

		if (strcmp(ask(all[i].text, size, &count), all[i].names) != 0)
			UNIT_FAIL("\"%s\": \"%s\"", all[i].text, ask(all[i].text, size, &count));
		/* truncated: nothing is known */
		for (size_t cut = 0; cut < size; cut++) {
			ask(all[i].text, cut, &count);
			CHECK_INT(count, 0);
		}
	}
}

TEST(what_may_be_parsed)
{
	CHECK(statement_sql_may_be_parsed((const uint8_t *)"EXECUTE a", 10) && statement_sql_may_be_parsed((const uint8_t *)" deallocate a", 14));
	CHECK(statement_sql_may_be_parsed((const uint8_t *)"explain Execute a", 18) && statement_sql_may_be_parsed((const uint8_t *)"DISCARD ALL", 12));
	CHECK(!statement_sql_may_be_parsed((const uint8_t *)"SELECT 'EXECUTE a'", 19) && !statement_sql_may_be_parsed((const uint8_t *)"EXPLAIN SELECT 1", 17));
	CHECK(statement_sql_may_be_parsed((const uint8_t *)"EXPLAIN", 7) && !statement_sql_may_be_parsed((const uint8_t *)"EXEC", 5));
}

/* A name has up to 63 significant bytes, and the number of names per text is limited. */
TEST(limits)
{
	char text[2000] = "DEALLOCATE ", most[64];
	unsigned count;

	memset(text + 11, 'a', 100);
	memset(most, 'a', 63);
	most[63] = 0;
	CHECK_TEXT(ask(text, 112, &count) + 1, most);
	text[0] = 0;
	for (int i = 0; i < SQL_NAMES_MOST; i++)
		strcat(text, "EXECUTE a;");
	ask(text, strlen(text) + 1, &count);
	CHECK_INT(count, SQL_NAMES_MOST);
	strcat(text, "EXECUTE a;");
	ask(text, strlen(text) + 1, &count);
	CHECK_INT(count, 0);
}

TEST(databases_that_end)
{
	static const struct { const char *text, *name; } cases[] = {
		{ "DROP DATABASE shop", "shop" }, { " drop database if exists Shop ;", "shop" }, { "DROP DATABASE \"a \"\"b\" WITH (FORCE)", "a \"b" },
		{ "/* x */ ALTER DATABASE shop RENAME TO old", "shop" }, { "ALTER DATABASE shop SET work_mem = 1", NULL }, { "DROP TABLE shop", NULL },
		{ "DROP DATABASE", NULL }, { "SELECT 1", NULL }, { "", NULL },
	};
	char name[SQL_NAME_SIZE];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint8_t *text = (const uint8_t *)cases[i].text;
		size_t size = strlen(cases[i].text) + 1;
		bool ends = statement_sql_ends_database(text, size, name);

		CHECK(ends == (cases[i].name != NULL));
		if (ends)
			CHECK_TEXT(name, cases[i].name);
		CHECK(!ends || statement_sql_may_end_database(text, size));
		CHECK(!statement_sql_ends_database(text, size - 1, name));
	}
}

/* ---- DEALLOCATE ---- */

/* Checks the first `size` bytes of a text, with or without its NUL, in an allocation of that size. */
static bool ask_deallocates(const char *text, size_t size, bool *may_be_parsed)
{
	uint8_t *copy = malloc(size ? size : 1);
	bool answer;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	answer = deallocate_is_mentioned(copy, size);
	*may_be_parsed = deallocate_may_be_parsed(copy, size);
	free(copy);
	return answer;
}

TEST(texts_that_may_deallocate)
{
	/* `alone`: the text may be the only statement of a Parse */
	static const struct { const char *text; bool alone; } all[] = {
		{ "DISCARD ALL", true }, { "discard all", true }, { "dIsCaRd\n\tall;", true }, { "DEALLOCATE ALL", true },
		{ "Deallocate Prepare All", true }, { "DEALLOCATE a", true }, { "/* a */ DISCARD ALL", true }, { "-- a\nDEALLOCATE ALL", true },
		{ " ;DISCARD/**/ALL", true }, { "DISCARD", true }, { "DEALLOCATE", true }, { "'discard'", true },
		{ "BEGIN; DEALLOCATE ALL", false }, { "SELECT 1;deallocate all", false }, { "SELECT 'discard'", false }, { "ddiscard", true },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool alone;

		if (!ask_deallocates(all[i].text, strlen(all[i].text) + 1, &alone) || alone != all[i].alone)
			UNIT_FAIL("\"%s\"", all[i].text);
	}
}

TEST(texts_that_cannot_deallocate)
{
	static const char *const all[] = {
		"", ";", "d", "SELECT 1", "DELETE FROM d", "DROP TABLE dis", "DISCAR", "discar d", "deallocat", "de/**/allocate", "DECLARE c CURSOR FOR SELECT 1",
		"\xc3\xa4 d", "/* d */ SELECT 1", "DI\305\237CARD ALL", "BEGIN",
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool alone;

		if (ask_deallocates(all[i], strlen(all[i]) + 1, &alone) || alone)
			UNIT_FAIL("\"%s\"", all[i]);
	}
}

/* Bytes after the NUL of a Parse are ignored. */
TEST(parameter_types_are_ignored)
{
	bool alone;

	CHECK(!ask_deallocates("; \0DISCARD ALL", 15, &alone) && !alone);
}

/* The missing rest may contain anything, unless a Parse begins with another word. */
TEST(truncated_texts)
{
	static const char *const all[] = { "DISCARD ALL", "SELECT 1", "/**/ DEALLOCATE ALL", "delete from t" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t size = 0; size <= strlen(all[i]); size++) {
			bool alone;

			if (!ask_deallocates(all[i], size, &alone) || alone != (size == 0 || *all[i] != 'S'))
				UNIT_FAIL("%zu bytes of \"%s\"", size, all[i]);
		}
}

UNIT_MAIN
