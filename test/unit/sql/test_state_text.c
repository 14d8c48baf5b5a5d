/* Names of parameters in SQL, and words that change the session, complete and truncated at every byte. */
#include "sql/state_text.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static char names[4096];

static void note(void *context, const char *name)
{
	CHECK(context == names);
	if (*names)
		strcat(names, " ");
	strcat(names, name);
}

/* Returns TEXT_ bits. */
static unsigned at_once(const uint8_t *text, size_t size)
{
	struct text_reading reading = { .search.words_left = INT64_MAX };

	state_text_read(&reading, text, size, note, names);
	return reading.said;
}

/* Reads a text in an allocation of the exact size, at once and in parts of one word; returns the bits that functions can have, too. */
static unsigned read_text(const char *text, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	struct text_reading parts = { 0 };
	char all_names[sizeof(names)];
	unsigned said;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	*names = '\0';
	said = at_once(copy, size);
	strcpy(all_names, names);
	*names = '\0';
	while (!parts.search.is_over) {
		parts.search.words_left = 1;
		state_text_read(&parts, copy, size, note, names);
	}
	CHECK_INT(parts.said, said);
	CHECK_TEXT(names, all_names);
	/* the word PREPARE by itself sets nothing */
	if (!(state_text_tells(copy, size) & TEXT_TELLS_WORDS)) {
		CHECK(!(said & ~(TEXT_PREPARES | TEXT_BEGINS | TEXT_FILLS)) && !*names);
		said = 0;
	}
	free(copy);
	return said & ~(unsigned)(TEXT_OF_CLIENTS | TEXT_FILLS);
}

#define CALLED TEXT_SETS
#define UNNAMED (TEXT_SETS | TEXT_SETS_UNNAMED)
#define ODDLY_NAMED (UNNAMED | TEXT_SETS_ODDLY_NAMED)

static const struct { const char *text, *names; unsigned said; } texts[] = {
	{ "", "", 0 },
	{ "SELECT 1", "", 0 },
	{ "SET work_mem = '5MB'", "", 0 },
	{ "SET app.tenant = 'x'", "app.tenant", 0 },
	{ "set SESSION App.Tenant to x", "app.tenant", 0 },
	{ "SET LOCAL app.tenant = 'x'", "", 0 },
	{ "RESET app.tenant", "app.tenant", 0 },
	{ "BEGIN; SET a.b = 1; SET c.d.e = 2; COMMIT", "a.b c.d.e", 0 },
	{ "SET \"app\" . /* a /* comment */ b.c */ \"Tenant\" = 1", "app.tenant", 0 },
	{ "SET \"app.tenant\" = 1", "app.tenant", 0 },
	{ "-- SET a.b = 1\nSET c.d = 1", "a.b c.d", 0 },
	{ "/* SET a.b = 1 */ RESET ALL", "a.b", 0 },
	{ "SELECT 'SET a.b = 1'", "a.b", 0 },
	{ "SELECT E'\\' SET a.b = 1'", "a.b", 0 },
	{ "SELECT '' SET a.b = 1", "a.b", 0 },
	{ "DO $$ BEGIN SET a.b = 1; END $$", "a.b", 0 },
	{ "DO $x$ BEGIN EXECUTE $y$ SET a.b = 1$y$; END $x$", "a.b", 0 },
	{ "UPDATE t SET a.b = 1", "a.b", 0 },
	{ "SET session.tenant = 'x'", "session.tenant", 0 },
	{ "SET local . tenant = 'x'", "local.tenant", 0 },
	{ "SET SESSION session.tenant = 'x'", "session.tenant", 0 },
	{ "SET LOCAL local.tenant = 'x'; SET SESSION AUTHORIZATION a", "", 0 },
	/* PostgreSQL accepts these names, but they cannot be queried */
	{ "SET a.\xc3\xa4 = 1", "", ODDLY_NAMED },
	{ "SET \xc3\xa4.b = 1", "", ODDLY_NAMED },
	{ "RESET a.b$c", "", ODDLY_NAMED },
	{ "SET pgweir.search_path = 'x'", "", ODDLY_NAMED },
	{ "SET U&\"a.b\" = 1", "", UNNAMED },
	{ "SET a.u&\"\\0062\" = 1", "", UNNAMED },
	{ "SET a.$b = 1; SET \xc3\xa4 = 1; SET a$b = 1", "", 0 },
	{ "SET --\ra.b = 1", "a.b", 0 },
	{ "SELECT set_config('a.\xc3\xa4', 'x', false)", "", ODDLY_NAMED },
	{ "SELECT set_config('a.b$c', 'x', false)", "", ODDLY_NAMED },
	{ "SELECT set_config('a.b', $$x, true)$$, false)", "a.b", CALLED },
	{ "SELECT set_config('a.b', $\xc3\xa4$x, true)$\xc3\xa4$, false)", "a.b", CALLED },
	{ "SELECT set_config('a.b', 'x\\', true) -- ', false)", "a.b", CALLED },
	{ "SELECT set_config($1, $2, true)", "", 0 },
	/* any word may be escaped */
	{ "SELECT u&\"s\\0065t_config\"('a.b', 'x', false)", "", UNNAMED },
	{ "SELECT 1 AS a INTO U&\"pg_t\\0065mp\".t", "", UNNAMED },
	{ "SELECT U&'s\\0065t', menu&\"a\", u & \"a\"", "", 0 },
	{ "SET a. = 1; SET .b = 1; SET a..b = 1; SET 1.b = 2", "", 0 },
	{ "SELECT set_config('work_mem', '5MB', false)", "", CALLED },
	{ "SELECT set_config('app.tenant', $1, false)", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant'::text, 'x'::text, false)", "app.tenant", CALLED },
	{ "SELECT set_config('app.'::text || 'x', 'y', false)", "", UNNAMED },
	{ "SELECT set_config('app.tenant' :: \"text\" , 'x', false)", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant':text, 'x', false)", "", UNNAMED },
	{ "SELECT SET_CONFIG ( 'app.tenant' , 'x', is_local )", "app.tenant", CALLED },
	{ "SELECT pg_catalog.\"set_config\"('app.tenant', concat('(', f(1, true)), 'f')", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant', 'x', true)", "", 0 },
	{ "SELECT set_config('app.tenant', concat('a', 'b'), TRUE), 1", "", 0 },
	{ "SELECT set_config('app.tenant', 'x', NOT true)", "app.tenant", CALLED },
	{ "SELECT set_config('app.tenant', 'x', f(true))", "app.tenant", CALLED },
	{ "SELECT set_config($1, $2, false)", "", UNNAMED },
	{ "SELECT set_config($1, $2, true)", "", 0 },
	{ "SELECT set_config('app.' || 'x', 'y', false)", "", UNNAMED },
	{ "SELECT set_config(E'app\\056x', 'y', false)", "", UNNAMED },
	{ "SELECT set_config(name, value, false) FROM t", "", UNNAMED },
	{ "SELECT set_config(set_config('a.b', 'c.d', false), 'x', true)", "a.b", CALLED },
	{ "SELECT set_config", "", 0 },
	{ "SELECT set_config(", "", UNNAMED },
	{ "SELECT set_config('a.b'", "", UNNAMED },
	{ "SELECT my_set_config('a.b', 'x', false)", "", 0 },
	{ "SELECT a, offset FROM t", "", 0 },
	{ "PREPARE p AS SELECT set_config('a.b', $1, false)", "a.b", CALLED | TEXT_PREPARES },
	{ "PREPARE p AS SELECT 1", "", 0 },
	{ "CREATE TEMP TABLE t AS SELECT 1", "", TEXT_TEMPORARY },
	{ "create /* no */ temporary table t (a int)", "", TEXT_TEMPORARY },
	{ "CREATE OR REPLACE TEMP VIEW v AS SELECT 1", "", TEXT_TEMPORARY },
	{ "CREATE LOCAL TEMPORARY TABLE t (a int)", "", TEXT_TEMPORARY },
	{ "SELECT 1 INTO TEMP t", "", TEXT_TEMPORARY },
	{ "SELECT 1 INTO pg_temp.t", "", TEXT_TEMPORARY },
	{ "CREATE TABLE \"pg_temp\".t AS SELECT 1", "", TEXT_TEMPORARY },
	{ "DO $$ BEGIN CREATE TEMP TABLE t (a int); END $$", "", TEXT_TEMPORARY },
	{ "INSERT INTO temp VALUES (1)", "", 0 },
	{ "SELECT insert INTO TEMP t FROM (SELECT 1 AS insert) a", "", TEXT_TEMPORARY },
	{ "SELECT 1 AS merge INTO TEMP t", "", TEXT_TEMPORARY },
	{ "MERGE INTO temporary USING a ON true WHEN MATCHED THEN DELETE", "", 0 },
	{ "SELECT temp, temperature, attempt FROM weather", "", 0 },
	{ "SELECT \"temp\" FROM \"create\" \"temp\"", "", TEXT_TEMPORARY },
	{ "SELECT 'CREATE TEMP TABLE t'", "", TEXT_TEMPORARY },
	{ "DECLARE c CURSOR WITH HOLD FOR SELECT 1", "", TEXT_HOLDS },
	{ "SELECT \"hold\", holdings FROM t", "", TEXT_HOLDS },
	{ "SELECT pg_advisory_lock(1)", "", TEXT_LOCKS },
	{ "UNLISTEN a", "", TEXT_UNLISTENS },
	{ "select 1; unlisten *", "", TEXT_UNLISTENS },
	{ "SELECT pg_listening_channels()", "", TEXT_UNLISTENS },
	{ "LISTEN a", "", 0 },
	{ "SELECT pg_catalog.PG_TRY_ADVISORY_LOCK_SHARED(1)", "", TEXT_LOCKS },
	{ "SELECT \"pg_advisory_unlock_all\"()", "", TEXT_LOCKS },
	{ "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2), pg_advisory_xac", "", TEXT_LOCKS },
	{ "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock_shared(2)", "", 0 },
	{ "SELECT dblink_connect('a', 'b')", "", TEXT_STAYS },
	{ "SELECT dblink('a', 'b'), dblink_disconnect('a')", "", 0 },
	{ "SELECT setseed(0.5)", "", TEXT_STAYS },
	{ "SELECT (0.5::float8).setseed", "", TEXT_STAYS },
	{ "SET seed = 0.5", "", TEXT_STAYS },
	{ "SET SESSION \"seed\" TO 0.5", "", TEXT_STAYS },
	{ "SET LOCAL seed TO 0.5", "", TEXT_STAYS },
	{ "SELECT set_config('Seed', '0.5', false)", "", CALLED | TEXT_STAYS },
	{ "SELECT set_config('seed', '0.5', true)", "", TEXT_STAYS },
	{ "SET seeds = 1; SET a.seed = 1", "a.seed", 0 },
	{ "SELECT pg_replication_origin_session_setup('o')", "", TEXT_STAYS },
	{ "SELECT pg_replication_origin_xact_setup('0/1', now())", "", TEXT_STAYS },
	{ "SELECT currval('s'), pg_catalog.\"lastval\"()", "", TEXT_READS_SEQUENCES | TEXT_READS_NAMED },
	{ "SELECT LASTVAL()", "", TEXT_READS_SEQUENCES },
	{ "SELECT nextval('s'), mycurrval, my_lastval", "", TEXT_DRAWS },
	{ "SELECT setval('s', 1), my_nextval", "", TEXT_DRAWS | TEXT_SETS_VALUES },
	/* whether the text is quoted depends on settings */
	{ "SELECT $$it's$$; SELECT set_config('app.tenant','7',false);", "app.tenant", CALLED },
	{ "SELECT $$it's$$; SET app.tenant='7'", "app.tenant", 0 },
	{ "SELECT $a$--$a$, pg_advisory_lock(1)", "", TEXT_LOCKS },
	{ "SELECT $$/*$$, pg_advisory_lock(1)", "", TEXT_LOCKS },
	{ "SELECT $$\"$$, 1 AS a INTO TEMP t", "", TEXT_TEMPORARY },
	{ "SELECT '\\'', set_config('app.tenant', 'x', false), '", "app.tenant", CALLED },
	{ "CREATE /* a */ TEMP TABLE t AS SELECT 1", "", TEXT_TEMPORARY },
	{ "CREATE -- a\n TEMP TABLE t AS SELECT 1", "", TEXT_TEMPORARY },
	{ "PREPARE p AS SELECT pg_advisory_lock(1)", "", TEXT_LOCKS | TEXT_PREPARES },
};

TEST(texts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		unsigned said = read_text(texts[i].text, strlen(texts[i].text) + 1);

		if (said != texts[i].said || strcmp(names, texts[i].names) != 0)
			UNIT_FAIL("\"%s\": %u \"%s\"", texts[i].text, said, names);
	}
}

#define OF(text) (const uint8_t *)(text), sizeof(text)

TEST(beginnings_of_transactions)
{
	CHECK_INT(at_once(OF("select 1; Begin")), TEXT_BEGINS);
	CHECK_INT(at_once(OF("START TRANSACTION READ ONLY")), TEXT_BEGINS);
	CHECK_INT(at_once(OF("SELECT beginning, restart FROM t")), 0);
	CHECK(state_text_begins(OF("BEGIN")) && state_text_begins(OF(" /* a */ start transaction")));
	CHECK(!state_text_begins(OF("SELECT begin FROM t")) && !state_text_begins(OF("\"begin\"")) && !state_text_begins(OF("")));
}

#define OID(name) "pg_catalog.to_regclass('" name "')::pg_catalog.oid,"
#define COLUMN(table, column) "pg_catalog.to_regclass(pg_catalog.pg_get_serial_sequence('" table "','" column "'))::pg_catalog.oid,"

/* Of NULL the sequences cannot be known. */
static const struct { const char *text, *oids; } asked[] = {
	{ "SELECT lastval()", "" },
	{ " select currval('s') ; ", OID("s") },
	{ "SELECT \"currval\" ( /* a */ 's'::regclass), $1, pg_catalog.CURRVAL('a.\"B\"')", OID("s") OID("a.\"B\"") },
	{ "INSERT INTO t VALUES ($1, currval(pg_get_serial_sequence('t', 'c')))", COLUMN("t", "c") },
	{ "SELECT 'currval', currval('s')", NULL },
	{ "SELECT currval($1)", NULL },
	{ "SELECT currval('s'::text::regclass)", NULL },
	{ "SELECT currval('s' || 't')", NULL },
	{ "SELECT currval('it''s')", NULL },
	{ "SELECT currval('a'\n'b')", NULL },
	{ "SELECT currval(E's')", OID("s") },
	{ "SELECT currval(E'\\163')", NULL },
	{ "SELECT currval(U&'!0073' UESCAPE '!')", NULL },
	{ "SELECT currval($$s$$)", NULL },
	{ "SELECT $$it's$$, currval('s')", NULL },
	{ "SELECT currval(pg_get_serial_sequence('t', 'c') || 'd')", NULL },
	{ "SELECT currval(pg_get_serial_sequence('t', lower('C')))", NULL },
	{ "SELECT currval(t.o) FROM t", NULL },
	{ "SELECT 1; SELECT currval('s')", NULL },
	{ "SET a = b; SELECT currval('s')", NULL },
	{ "PREPARE p AS SELECT currval('s')", NULL },
	{ "/* SELECT */ EXECUTE p(currval('s'))", NULL },
	{ "SELECT set_config('search_path', 'a', true), currval('s')", NULL },
	{ "currval", NULL },
	{ "", NULL },
};

TEST(sequences_that_a_text_asks_for)
{
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		struct bytes oids = BYTES_EMPTY;
		bool are_known = state_text_read_sequences((const uint8_t *)asked[i].text, strlen(asked[i].text) + 1, &oids);

		bytes_append_u8(&oids, 0);
		if (are_known != (asked[i].oids != NULL) || (are_known && strcmp((const char *)bytes_front(&oids), asked[i].oids) != 0))
			UNIT_FAIL("\"%s\": %d \"%s\"", asked[i].text, are_known, (const char *)bytes_front(&oids));
		bytes_free(&oids);
		for (size_t size = 0; size <= strlen(asked[i].text); size++)
			CHECK(!state_text_read_sequences((const uint8_t *)asked[i].text, size, &oids));
		bytes_free(&oids);
	}
}

TEST(texts_that_write)
{
	CHECK_INT(at_once(OF("explain INSERT INTO t VALUES (1)")), TEXT_FILLS);
	CHECK_INT(at_once(OF("WITH a AS (SELECT 1) MERGE INTO t USING a")), TEXT_FILLS | TEXT_SELECTS_INTO);
	CHECK_INT(at_once(OF("COPY t FROM stdin")), TEXT_FILLS);
	CHECK_INT(at_once(OF("SELECT a INTO b FROM t")), TEXT_SELECTS_INTO);
	CHECK_INT(at_once(OF("SELECT 1; INSERT INTO t (insert) SELECT insert INTO b")), TEXT_FILLS | TEXT_SELECTS_INTO);
	CHECK_INT(at_once(OF("SELECT inserted, intone FROM t")), 0);
}

/* The quick search finds a word at every position. */
TEST(words_at_every_position)
{
	static const char *const words[] = { "set_config('a.b','c',false)", "CREATE TEMP x", "hold", "PG_Advisory_Lock", "dblink_connect", "LASTVAL", "currval", "NextVal", "setval", "U&\"a\"" };

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		for (int before = 0; before < 100; before++)
			for (int behind = 0; behind < 40; behind += 13) {
				char text[256];
				int size = snprintf(text, sizeof(text), "%*s%s%*s", before, "", words[w], behind, "");

				CHECK(read_text(text, (size_t)size + 1) != 0);
			}
}

TEST(truncated_texts)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (size_t size = 0; size <= strlen(texts[i].text); size++)
			CHECK(read_text(texts[i].text, size) & TEXT_CUT);
}

TEST(the_longest_name)
{
	static const char x[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	char text[300];

	/* three parts of 63 bytes, and one of 8 */
	snprintf(text, sizeof(text), "SET %s.%s.%s.xxxxxxxx = 1", x, x, x);
	CHECK_INT(read_text(text, strlen(text) + 1), 0);
	CHECK_INT(strlen(names), 200);
	snprintf(text, sizeof(text), "SET %s.%s.%s.xxxxxxxxx = 1", x, x, x);
	CHECK_INT(read_text(text, strlen(text) + 1), ODDLY_NAMED);
	CHECK_INT(strlen(names), 0);
	/* PostgreSQL truncates a part of 64 bytes, but not in a string */
	snprintf(text, sizeof(text), "SET a.x%s = 1", x);
	CHECK_INT(read_text(text, strlen(text) + 1), ODDLY_NAMED);
	snprintf(text, sizeof(text), "SET x%s = 1", x);
	CHECK_INT(read_text(text, strlen(text) + 1), 0);
	snprintf(text, sizeof(text), "SELECT set_config('a.x%s', 'x', false)", x);
	CHECK_INT(read_text(text, strlen(text) + 1), CALLED);
	CHECK_INT(strlen(names), 66);
}

/* A name may follow the part of the text that is examined. */
TEST(long_comment_before_the_name)
{
	static const char *const words[] = { "SET", "RESET", "SELECT set_config" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char text[2048];

		snprintf(text, sizeof(text), "%s /*%0600d*/ (a.b)", words[i], 0);
		CHECK(read_text(text, strlen(text) + 1) & TEXT_SETS_UNNAMED);
		snprintf(text, sizeof(text), "%s /*%0100d*/ a.b", words[i], 0);
		CHECK(!(read_text(text, strlen(text) + 1) & TEXT_SETS_UNNAMED));
	}
}

/* The number of examined bytes is not quadratic in the text. */
TEST(many_unterminated_calls)
{
	size_t count = 20000, size = count * strlen("set_config(") + 1;
	char *text = malloc(size);

	if (!text)
		abort();
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * strlen("set_config("), "set_config(", strlen("set_config(") + 1);
	CHECK_INT(read_text(text, size), UNNAMED);
	free(text);
}

/* A text with more names than the limit may set any parameter. */
TEST(many_names)
{
	static char text[1002 * 8];

	for (int i = 0; i < 1000; i++)
		memcpy(text + 8 * i, "set a.b ", 9);
	CHECK(!(read_text(text, 8 * 1000 + 1) & TEXT_SETS_UNNAMED));
	memcpy(text + 8 * 1000, "set a.b ", 9);
	CHECK(read_text(text, 8 * 1001 + 1) & TEXT_SETS_UNNAMED);
}

/* Long words, long gaps, names of parameters and calls cost more than other words. */
TEST(cost_of_a_part)
{
	static const struct { const char *text; int64_t costs; } costs[] = {
		{ "SELECT one", 2 + 1 },
		{ "SELECT                                 one", 3 + 1 },
		{ "SELECT a_word_of_more_than_thirty_two_bytes_", 3 + 1 },
		{ "SET a.b = 1", 4 + 16 + 1 },
	};

	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
		struct text_reading r = { .search.words_left = 100 };
		struct text_calls calls = { .search.words_left = 100 };

		state_text_read(&r, (const uint8_t *)costs[i].text, strlen(costs[i].text) + 1, note, names);
		CHECK(r.search.is_over);
		CHECK_INT(100 - r.search.words_left, costs[i].costs);
		CHECK(state_text_calls_known(&calls, (const uint8_t *)"SELECT abs(1), abs(2)", 22, NULL, NULL));
		CHECK(calls.search.is_over);
		CHECK_INT(100 - calls.search.words_left, 10);
	}
}

UNIT_MAIN
