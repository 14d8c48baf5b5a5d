/* SQL that may change the meaning of other texts, or the role of a session; complete and truncated at every byte. */
#include "sql/sql_commands.h"
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

static bool query_keeps_meaning(const uint8_t *text, size_t size)
{
	return set_query_keeps(text, size) & SET_KEEPS_MEANING;
}

static bool parse_keeps_meaning(const uint8_t *text, size_t size)
{
	return set_parse_keeps(text, size) & SET_KEEPS_MEANING;
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

	check(query_keeps_meaning, true, keep);
	check(query_keeps_meaning, false, change);
	CHECK(!ask(query_keeps_meaning, "SET work_mem = 1", 16));
}

static bool query_is_local(const uint8_t *text, size_t size)
{
	return set_query_keeps(text, size) & SET_IS_LOCAL;
}

TEST(settings_of_the_transaction)
{
	static const char *const local[] = { "SET LOCAL app.tenant = '7'", "set local ROLE a;", "SET\tLOCAL work_mem TO '1MB' ; ", NULL };
	static const char *const others[] = { "SET local.a = 1", "SET \"local\".a = 1", "SET SESSION work_mem = 1", "SET work_mem = local", "SET LOCAL a = 1; SET b = 1",
		"SET b = 1; SET LOCAL a = 1", "SET LOCAL", "SET SESSION LOCAL a = 1", "SELECT 1", "", NULL };

	check(query_is_local, true, local);
	check(query_is_local, false, others);
	CHECK(!ask(query_is_local, "SET LOCAL a = 1", 15));
}

TEST(parsed_texts)
{
	static const char *const keep[] = { "SELECT 1", "SET LOCAL app.tenant = '7'", " ;RESET work_mem", "", "/* a */ SELECT 1", "setting",
		"/* SET a */ SET work_mem = 1", NULL };
	static const char *const change[] = { "SET LOCAL search_path = a", "RESET ALL", "RESET search_path", "-- a\nset ROLE a", "/* a */ sEt search_path = a",
		"/* /* a */ */ ; -- a\n reSET search_path", NULL };

	check(parse_keeps_meaning, true, keep);
	check(parse_keeps_meaning, false, change);
	CHECK(!ask(parse_keeps_meaning, "SELECT 1", 8));
}

TEST(calls)
{
	static const char *const change[] = { "SELECT set_config('search_path', 'a', true)", "SELECT SET_CONFIG($1, $2, true)", "SELECT set_config ( lower('a.b'), '', true)",
		"SELECT pg_catalog.\"set_config\"('role', 'a', false)", "SELECT set_config('a.b', '', true), set_config('search_path', 'a', true)",
		"SELECT set_config('a.b' || 'c', '', true), set_config", "SELECT U&\"set\\005fconfig\"('search_path', 'a', true)", "SELECT u&\"a\"", NULL };
	static const char *const keep[] = { "SELECT set_config('request.jwt.claims', $1, true)", "SELECT set_config( 'statement_timeout', '1', false)", "SELECT a_b, _config, set_confi",
		"", "_", "&\"", "SELECT a&\"b\", U&'a', a&", NULL };

	check(meaning_is_configured, true, change);
	check(meaning_is_configured, false, keep);
	CHECK(ask(meaning_is_configured, "SELECT 1", 8));
}

/* ---- role ---- */

static bool query_keeps_role(const uint8_t *text, size_t size)
{
	return set_query_keeps(text, size) & SET_KEEPS_ROLE;
}

static bool parse_keeps_role(const uint8_t *text, size_t size)
{
	return set_parse_keeps(text, size) & SET_KEEPS_ROLE;
}

static bool query_keeps(const char *text)
{
	return ask(query_keeps_role, text, strlen(text) + 1);
}

static bool parse_keeps(const char *text)
{
	bool keeps = ask(parse_keeps_role, text, strlen(text) + 1);

	if (role_parse_surely_keeps((const uint8_t *)text, strlen(text) + 1) && !keeps)
		UNIT_FAIL("\"%s\" surely keeps the role, but does not", text);
	return keeps;
}

/* A single SET that does not affect roles. */
static const char *const plain[] = {
	"SET statement_timeout = 5", "set x to 1", "SET LOCAL statement_timeout = '5s'", "SET SESSION x = 1",
	"Set\tX=1", "SET\nx\n=\n1",
	"SET x.y = 'z'", "SET local.x = 1", "SET LOCAL ROLE a", "SET LOCAL SESSION AUTHORIZATION a",
	"set local\trole none",
	"SET TIME ZONE 'UTC'", "SET NAMES 'utf8'", "SET SCHEMA 'x'", "SET TRANSACTION READ ONLY", "SET rolex = 1",
	"SET xrole = 1",
	"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET search_path = role", "SET x = 'SET ROLE a'",
	"SET x = 1;",
	"SET x = 1 ; \n", "SET x = 1 /* comment */", "SET x = 1 -- role", "SET sessions = 1", "SET LOCAL \"role\" = a",
	"SET x = \"role\"", "SET $x = 1", "SET SESSION rolex TO a",
};
/* Texts that set, or may set, a role. */
static const char *const roles[] = {
	"SET ROLE a", "set role none", "SET SESSION ROLE a", "SET role = a", "SET role TO 'a'", "SET role=a",
	"SET\n\tROLE\r\na",
	"SET SESSION AUTHORIZATION a", "set session authorization default", "SET SESSION SESSION AUTHORIZATION a",
	"SET session_authorization = a", "SET session_authorization TO 'a'", "SET \"role\" = a",
	"SET U&\"\\0072ole\" = a", "SET/**/ROLE a",
	"SET /**/ ROLE a", "SET--\nROLE a", "SET SESSION/**/AUTHORIZATION a", "SET LOCAL/**/x = 1", "SET", "SET ",
	"SET SESSION",
	"SET AUTHORIZATION a", "SET r\xc3\xb6le = a", "SET (x) = 1", "SET role.x = 1", "SET x/**/= 1", "SET \"x\" = 1",
};
/* Several statements, or none with the tag SET. */
static const char *const others[] = {
	"SELECT 1; SET ROLE a", "SET x = 1; SET ROLE a", "SET x = ';'", "SET x = 1;;", "SET x = 1; -- behind",
	"SELECT 1", "", " SET x = 1",
	";SET x = 1", "/* a */ SET x = 1", "RESET ALL", "RESET x", "SET CONSTRAINTS ALL DEFERRED",
	"set  constraints x immediate", "SETx = 1",
	"SELECT set_config('role', 'a', false)", "settle", "s", "se",
};

TEST(queries_that_may_change_the_role)
{
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!query_keeps(plain[i]))
			UNIT_FAIL("\"%s\" may change the role", plain[i]);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (query_keeps(roles[i]))
			UNIT_FAIL("\"%s\" keeps the role", roles[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (query_keeps(others[i]))
			UNIT_FAIL("\"%s\" keeps the role", others[i]);
}

TEST(parse_texts_that_may_change_the_role)
{
	static const char *const keep[] = {
		"SELECT 1", "", "INSERT INTO t VALUES (1)", "reset_all", "RESET ALL", "RESET x", "reset\ttime zone",
		"RESET x.y", "sets", "SETTLE",
		"/* SET ROLE a */ SELECT 1", "-- SET ROLE a\nSELECT 1", "-- SET ROLE a", "/* a /* b */ c */SET x = 1",
		"--\r\n--\nRESET x", "(SELECT 1)",
		"; ;SELECT 1", "\v\fSELECT 1", "SET CONSTRAINTS ALL DEFERRED", "\xc3\xa4", "-", "/", "1",
		"with x as (select 1) select 2",
	};
	static const char *const change[] = {
		"RESET ROLE", "reset role", "RESET\nROLE", "RESET SESSION AUTHORIZATION",
		"RESET session_authorization", "RESET \"role\"", "RESET",
		"RESET/**/ROLE", "/* a */ SET ROLE a", "/* a /* b */ c */SET ROLE a", "-- a\nSET ROLE a",
		"-- a\rRESET ROLE", ";SET ROLE a",
		" \n; -- x\n;\t/**/SET ROLE a", "/* not closed", "/* a /* b */ SET ROLE a",
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (!parse_keeps(plain[i]))
			UNIT_FAIL("\"%s\" may change the role", plain[i]);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (parse_keeps(roles[i]))
			UNIT_FAIL("\"%s\" keeps the role", roles[i]);
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
		if (!parse_keeps(keep[i]))
			UNIT_FAIL("\"%s\" may change the role", keep[i]);
	for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++)
		if (parse_keeps(change[i]))
			UNIT_FAIL("\"%s\" keeps the role", change[i]);
}

/* A truncated text keeps the role only if every possible rest does: here the rest changes it. */
static void check_cuts(const char *text)
{
	static const char *const behind[] = {
		"", "ROLE a", "SET ROLE a", "role", "*/SET ROLE a", "-\nSET ROLE a", " ROLE", "\nSET ROLE a",
	};
	char joined[256];

	for (size_t cut = 0; cut <= strlen(text); cut++) {
		CHECK(!ask(query_keeps_role, text, cut));
		if (!ask(parse_keeps_role, text, cut))
			continue;
		for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
			snprintf(joined, sizeof(joined), "%.*s%s", (int)cut, text, behind[i]);
			if (!parse_keeps(joined))
				UNIT_FAIL("\"%.*s\" keeps the role, but \"%s\" may change it", (int)cut, text, joined);
		}
	}
}

TEST(truncated_at_every_byte)
{
	static const char *const more[] = {
		"-- a\nSELECT 1", "/* a */SELECT 1", "RESET ALL", "RESET ROLE", "SELECT 1", "s", "-", "/", ";", " x",
	};

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		check_cuts(plain[i]);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		check_cuts(roles[i]);
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
		check_cuts(more[i]);
}

TEST(every_first_byte)
{
	char text[] = "?et role a";

	for (int c = 1; c < 256; c++) {
		text[0] = (char)c;
		CHECK(parse_keeps(text) == (c != 's' && c != 'S'));
		CHECK(!query_keeps(text));
	}
}

/* ---- names of prepared statements and databases ---- */

/* Returns the names in the first `size` bytes, in an allocation of that size: "a" of EXECUTE, "-a" of DEALLOCATE. */
static const char *read_names(const char *text, size_t size, unsigned *count)
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

		if (strcmp(read_names(all[i].text, size, &count), all[i].names) != 0)
			UNIT_FAIL("\"%s\": \"%s\"", all[i].text, read_names(all[i].text, size, &count));
		/* truncated: nothing is known */
		for (size_t cut = 0; cut < size; cut++) {
			read_names(all[i].text, cut, &count);
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
	CHECK_TEXT(read_names(text, 112, &count) + 1, most);
	text[0] = 0;
	for (int i = 0; i < SQL_NAMES_MOST; i++)
		strcat(text, "EXECUTE a;");
	read_names(text, strlen(text) + 1, &count);
	CHECK_INT(count, SQL_NAMES_MOST);
	strcat(text, "EXECUTE a;");
	read_names(text, strlen(text) + 1, &count);
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
	answer = deallocate_is_mentioned(copy, size, false);
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
