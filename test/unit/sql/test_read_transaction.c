/* Texts of read-only transactions, complete and truncated at every byte. */
#include "sql/read_transaction.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* A copy of the first `size` bytes, in an allocation of that size. To be freed. */
static uint8_t *copy_of(const char *text, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, text, size);
	return copy;
}

static enum read_begin begin_of(const char *text, size_t size)
{
	uint8_t *copy = copy_of(text, size);
	enum read_begin result = read_transaction_begin(copy, size);

	free(copy);
	return result;
}

static bool suits(const char *text, size_t size)
{
	uint8_t *copy = copy_of(text, size);
	bool result = read_transaction_suits_standby(copy, size);

	free(copy);
	return result;
}

/* Checks each text; its beginnings have no NUL. */
static void check_begins(enum read_begin want, const char *const *texts)
{
	for (; *texts; texts++) {
		if (begin_of(*texts, strlen(*texts) + 1) != want)
			UNIT_FAIL("\"%s\"", *texts);
		for (size_t size = 0; size <= strlen(*texts); size++)
			if (begin_of(*texts, size) != READ_BEGIN_NOT)
				UNIT_FAIL("\"%.*s\"", (int)size, *texts);
	}
}

TEST(begin)
{
	static const char *const plain[] = { "BEGIN", "begin ;", "BEGIN WORK", "BEGIN TRANSACTION;;", "START TRANSACTION",
		" /* a /* b */ */ START -- c\n TRANSACTION -- d",
		"BEGIN ISOLATION LEVEL REPEATABLE READ", "begin isolation level read committed",
		"BEGIN ISOLATION LEVEL READ UNCOMMITTED, NOT DEFERRABLE",
		"BEGIN DEFERRABLE", NULL };
	static const char *const only[] = { "BEGIN READ ONLY", "begin work read only;", "START TRANSACTION READ ONLY",
		"BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
		"BEGIN READ ONLY, ISOLATION LEVEL READ COMMITTED", "BEGIN READ ONLY READ ONLY", "BEGIN/**/READ/**/ONLY",
		"BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY NOT DEFERRABLE",
		"/* pgweir: primary*/ BEGIN READ ONLY", NULL };
	static const char *const primary[] = { "BEGIN READ WRITE", "BEGIN READ ONLY, READ WRITE", "BEGIN READ WRITE READ ONLY",
		"BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
		"START TRANSACTION READ ONLY ISOLATION LEVEL SERIALIZABLE, DEFERRABLE", "BEGIN ISOLATION LEVEL SERIALIZABLE",
		READ_HINT "BEGIN READ ONLY", READ_HINT " begin", NULL };

	check_begins(READ_BEGIN_PLAIN, plain);
	check_begins(READ_BEGIN_ONLY, only);
	check_begins(READ_BEGIN_PRIMARY, primary);
}

TEST(no_begin)
{
	static const char *const others[] = { "", ";", ";BEGIN", "BEGIN READ ONLY; SELECT 1", "BEGIN; BEGIN",
		"BEGIN READ ONLY; SELECT 1; COMMIT; INSERT INTO a VALUES (1)", "START", "START READ ONLY",
		"START WORK", "BEGIN,", "BEGIN, READ ONLY", "BEGIN READ ONLY,", "BEGIN READ ONLY,, DEFERRABLE", "BEGIN READ",
		"BEGIN READ COMMITTED", "BEGIN ISOLATION SERIALIZABLE",
		"BEGIN ISOLATION LEVEL REPEATABLE", "BEGIN ISOLATION LEVEL READ ONLY", "BEGIN NOT", "BEGIN NOT READ ONLY", "BEGIN ONLY",
		"\"BEGIN\"", "BEGIN 'READ' ONLY",
		"BEGIN READ ONLY /* a", "BEGIN READ ONLY; /* a", "/* BEGIN READ ONLY", "BEGIN READ ONLY $1", "BEGIN READ \"only\"",
		"BEGIN\vREAD ONLY", "BEGINREAD ONLY", "COMMIT",
		"BEGIN READ ONLY \xc2\xa0", "BEGIN TRANSACTION WORK", "BEGIN ATOMIC", "PREPARE TRANSACTION 'a'", NULL };

	check_begins(READ_BEGIN_NOT, others);
}

static void check_suits(bool want, const char *const *texts)
{
	for (; *texts; texts++) {
		if (suits(*texts, strlen(*texts) + 1) != want)
			UNIT_FAIL("\"%s\"", *texts);
		for (size_t size = 0; size <= strlen(*texts); size++)
			if (suits(*texts, size))
				UNIT_FAIL("\"%.*s\"", (int)size, *texts);
	}
}

TEST(statements_for_standbys)
{
	static const char *const any_host[] = { "SELECT 1", "select * from a;", "(SELECT 1) UNION (SELECT 2)", "WITH a AS (SELECT 1) TABLE a",
		"VALUES (1)", "TABLE a ;; ", "-- a\nSELECT ';'",
		"EXPLAIN (ANALYZE) SELECT f(1)", "DECLARE c CURSOR FOR SELECT 1", "DECLARE c NO SCROLL CURSOR WITHOUT h FOR SELECT 1",
		"COPY a TO STDOUT", "COPY (SELECT * FROM a) TO STDOUT (FORMAT csv)",
		"SET LOCAL statement_timeout = '5s'", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY", "SELECT pg_catalog.lower('A')",
		"SELECT set_config('app.tenant', '7', true)",
		"SELECT current_setting('app.tenant')", "SELECT current_setting ( 'app.tenant', true)", "SELECT current_setting FROM a",
		"SELECT version FROM a", "SELECT snapshot, hold, serializable, \"write\" FROM snapshots",
		"SELECT 'a\"b', u&b", "SELECT advisor, locks FROM a", "/* pgweir:primary */ SELECT 1", NULL };

	check_suits(true, any_host);
}

TEST(statements_for_the_primary)
{
	static const char *const primary[] = { "", "INSERT INTO a VALUES (1)", "CALL f()", "DO $$ $$", "SHOW transaction_read_only", "SHOW ALL",
		"LISTEN a", "NOTIFY a", "UNLISTEN *", "LOCK a", "PREPARE a AS SELECT 1",
		"EXECUTE a", "DEALLOCATE a", "DISCARD ALL", "CHECKPOINT", "LOAD 'a'", "ALTER SYSTEM SET a = 1", "VACUUM", "FETCH a", "CLOSE a",
		"COMMIT", "SAVEPOINT a", "BEGIN", "SET a = 1", "SET SESSION a = 1",
		"RESET ALL", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
		/* several statements */
		"SELECT 1; SELECT 2", "SELECT 1;; COMMIT", "SELECT $$;$$; INSERT INTO a VALUES (1)", "SELECT 'a\\'; SELECT 2 --'", "SELECT 1 /* ; ",
		"SELECT 'a", "SELECT E'\\'; COMMIT --'; SELECT 2",
		/* files and programs */
		"COPY a FROM STDIN", "COPY a TO '/tmp/a'", "COPY a TO PROGRAM 'stdout'", "COPY (SELECT 1 TO STDOUT) TO 'a'", "COPY a",
		"COPY a FROM PROGRAM 'TO STDOUT'", "COPY a (b, c) FROM stdin -- TO STDOUT",
		/* the transaction */
		"SET TRANSACTION READ WRITE", "SET LOCAL transaction_read_only = off", "SET TRANSACTION SNAPSHOT '1'",
		"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET LOCAL transaction_isolation = 'serializable'",
		"DECLARE c CURSOR WITH HOLD FOR SELECT 1", "SELECT set_config('transaction_read_only', 'off', true)",
		/* locks, other sessions, sequences, the server */
		"SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_xact_lock(1)", "SELECT take_advisory_lock(1)", "SELECT PG_EXPORT_SNAPSHOT()",
		"SELECT U&\"pg\\005fadvisory_lock\"(1)", "SELECT u&\"a\"",
		"SELECT pg_notify('a', '')", "SELECT pg_terminate_backend(1)", "SELECT pg_reload_conf()", "SELECT pg_is_in_recovery()",
		"SELECT * FROM pg_stat_activity", "SELECT pg_catalog.pg_switch_wal()",
		"SELECT \"pg_is_in_recovery\"()", "SELECT query_to_xml('select pg_is_in_recovery()', true, true, '')", "SELECT inet_server_addr()",
		"SELECT txid_current()", "SELECT lo_get(1)", "SELECT loread(1, 2)",
		"SELECT nextval('a')", "SELECT currval('a')", "SELECT lastval()", "SELECT setval('a', 1)", "EXPLAIN ANALYZE SELECT nextval('a')",
		"SELECT current_setting('transaction_read_only')",
		"SELECT current_setting($1)", "SELECT current_setting('in_hot' || '_standby' || 'a.b')", "SELECT version()",
		"SELECT version /* a */ ()", "SELECT \"version\" ()", "SELECT * FROM dblink('a', 'b') AS c(d int)",
		"SELECT public.dblink_exec('a')", READ_HINT "SELECT 1", NULL };

	check_suits(false, primary);
}

TEST(later_statements)
{
	static const char *const affects[] = { "SELECT pg_advisory_lock(1)", "select pg_catalog.PG_TRY_ADVISORY_XACT_LOCK_shared(1, 2)", "SELECT \"take_advisory_lock\"(1)",
		"SELECT 1; SELECT pg_reload_conf()", "DO 'begin perform pg_advisory_lock(1); end'", "SELECT U&\"pg\\005fadvisory_lock\"(1)",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "SELECT pg_stat_reset_shared('bgwriter')", "SELECT pg_wal_replay_pause()", "SELECT pg_promote()",
		"SELECT pg_create_physical_replication_slot('a')", NULL };
	static const char *const reads[] = { "", "SELECT 1", "SELECT pg_is_in_recovery()", "SELECT * FROM pg_stat_activity", "FETCH 10 FROM c", "COMMIT", "SELECT u&1",
		"SELECT advisor, pg_sleep(1)", "SELECT pg_promot", NULL };

	for (const char *const *text = affects; *text; text++) {
		uint8_t *copy = copy_of(*text, strlen(*text));

		if (!read_transaction_affects_standby(copy, strlen(*text)) || suits(*text, strlen(*text) + 1))
			UNIT_FAIL("\"%s\"", *text);
		free(copy);
	}
	for (const char *const *text = reads; *text; text++) {
		uint8_t *copy = copy_of(*text, strlen(*text));

		if (read_transaction_affects_standby(copy, strlen(*text)))
			UNIT_FAIL("\"%s\"", *text);
		free(copy);
	}
}

TEST(hint)
{
	const uint8_t text[] = READ_HINT;

	CHECK(read_has_hint(text, sizeof(text)));
	for (size_t size = 0; size < sizeof(text); size++)
		CHECK(!read_has_hint(text, size));
	CHECK(!read_has_hint((const uint8_t *)" " READ_HINT, sizeof(READ_HINT) + 1));
}

TEST(long_texts)
{
	size_t size = 100000;
	char *text = malloc(size);

	if (!text)
		abort();
	memset(text, '(', size);
	text[size - 1] = '\0';
	CHECK(!suits(text, size));
	CHECK_INT(begin_of(text, size), READ_BEGIN_NOT);
	memcpy(text, "SELECT ", 7);
	CHECK(suits(text, size));
	memset(text, 'a', size - 1);
	memcpy(text, "SELECT ", 7);
	CHECK(suits(text, size));
	/* a call may follow the window */
	memset(text + 7, ' ', size - 8);
	memcpy(text + 7, "version", 7);
	CHECK(!suits(text, size));
	memcpy(text + 20, "FROM a", 6);
	CHECK(suits(text, size));
	/* nested comments */
	for (size_t i = 7; i + 30 < size; i += 24)
		memcpy(text + i, i < size / 2 ? "version /*             */ " : "*/ ", 3 + (i < size / 2) * 7);
	CHECK(!suits(text, size));
	for (size_t i = 0; i + 2 < size; i += 2)
		memcpy(text + i, "/*", 2);
	CHECK_INT(begin_of(text, size), READ_BEGIN_NOT);
	free(text);
}

UNIT_MAIN
