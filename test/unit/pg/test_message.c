/* A walk over every row of message.tbl, and over every byte without a row. */
#include "pg/ledger.h"
#include "pg/message.h"
#include "unit.h"

#include <stdlib.h>

static const char client_types[] = "BCDEFHPQSXcdf";
static const char server_types[] = "123ACDEGHINSTVWZcdnst";

TEST(each_type_byte_has_at_most_one_row)
{
	for (int c = 0; c < 256; c++) {
		const struct pg_client_message *from_client = pg_client_message((uint8_t)c, PG_SESSION | PG_COPY);
		const struct pg_server_message *from_server = pg_server_message((uint8_t)c, PG_SESSION);

		CHECK_INT(from_client != NULL, c && strchr(client_types, c));
		CHECK_INT(from_server != NULL, c && strchr(server_types, c));
		if (from_client)
			CHECK_INT(from_client->type, c);
		if (from_server)
			CHECK_INT(from_server->type, c);
	}
}

TEST(type_bytes_that_are_legal_at_login)
{
	for (int c = 0; c < 256; c++) {
		CHECK_INT(pg_client_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("pX", c));
		CHECK_INT(pg_server_message((uint8_t)c, PG_LOGIN) != NULL, c && strchr("RKvSZEN", c));
	}
}

TEST(only_required_messages_are_collected)
{
	for (const char *c = client_types; *c; c++)
		CHECK_INT(pg_client_messages[(uint8_t)*c].look, strchr("CD", *c) ? 1 : 0);
	for (const char *c = server_types; *c; c++)
		CHECK_INT(pg_server_messages[(uint8_t)*c].whole, strchr("SZ", *c) != NULL);
}

TEST(directions_are_not_mixed_up)
{
	CHECK_TEXT(pg_client_messages['S'].name, "Sync");
	CHECK_TEXT(pg_server_messages['S'].name, "ParameterStatus");
	CHECK_TEXT(pg_client_messages['D'].name, "Describe");
	CHECK_TEXT(pg_server_messages['D'].name, "DataRow");
}

/* A message without an answer has no entry. */
TEST(copy_messages)
{
	for (const char *c = client_types; *c; c++) {
		const struct pg_client_message *m = &pg_client_messages[(uint8_t)*c];

		CHECK_INT(m->owes == LEDGER_COPY_END, strchr("cf", *c) != NULL);
		CHECK_INT(m->owes == LEDGER_NOTHING, strchr("HXd", *c) != NULL);
	}
}

/* The entries that each message answers, at each stage. */
TEST(only_answers_remove_entries)
{
	for (int stage = 0; stage < STAGES; stage++)
		for (int kind = 0; kind <= LEDGER_NOTHING; kind++)
			for (int c = 0; c < 256; c++) {
				uint8_t does = pg_answers[stage][kind][c], by = pg_server_messages[c].taken_by;

				if (does == LEDGER_DOES_NOT_FIT)
					continue;
				CHECK(pg_server_message((uint8_t)c, PG_SESSION) && kind < LEDGER_COPY_END);
				CHECK(by == TAKEN_AS_ANSWER || by == TAKEN_AS_READY);
				CHECK(by == TAKEN_AS_ANSWER || kind == LEDGER_QUERY || kind == LEDGER_SYNC || kind == LEDGER_CALL);
			}
}

/* The short path does not change the stage, except at the beginning of an entry that ends there. */
TEST(answers_that_may_pass_unread)
{
	for (int stage = 0; stage < STAGES; stage++)
		for (int kind = 0; kind <= LEDGER_NOTHING; kind++)
			for (int c = 0; c < 256; c++) {
				uint8_t does = pg_answers[stage][kind][c];

				if (stage == STAGE_COPY_OUT || stage == STAGE_COPY_BOTH)
					CHECK(does <= LEDGER_STAYS || does > LEDGER_CROSSES_OFF_ENDED);
			}
}

/* The short path makes the same entry as ledger_sent. */
TEST(messages_that_may_pass_unread)
{
#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) [type] = UNREAD_##unread,
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
	static const uint8_t unread[256] = {
#include "tbl/message.tbl"
	};
	struct ledger fast = { .used = 0 }, careful = { .used = 0 };

	for (int c = 0; c < 256; c++) {
		const struct pg_client_message *m = &pg_client_messages[c];

		ledger_clear(&fast);
		ledger_clear(&careful);
		CHECK_INT(ledger_sent_plain(&fast, (uint8_t)c), m->name && unread[c] != UNREAD_NEVER && m->owes <= LEDGER_SYNC);
		CHECK(ledger_sent(&careful, (uint8_t)c, PG_OF_PORTAL, OWED_TO_CLIENT));
		if (fast.used > 0) {
			CHECK_INT(ledger_next_kind(&fast), m->owes);
			CHECK_INT(ledger_next_kind(&careful), m->owes);
		}
		ledger_clear(&fast);
		ledger_clear(&careful);
	}
}

/* ---- errors ---- */

#define READ(text, out) pg_error_read((const uint8_t *)(text), sizeof(text) - 1, out)

static void check_nothing(const struct pg_error *e)
{
	CHECK_TEXT(e->severity, "");
	CHECK_TEXT(e->sqlstate, "");
	CHECK_TEXT(e->message, "");
	CHECK_TEXT(e->detail, "");
	CHECK_TEXT(e->hint, "");
}

TEST(all_fields)
{
	struct pg_error e;

	CHECK(READ("SFEHLER\0VERROR\0C42P01\0Mno table\0Dnot there\0Hmake it\0Ffile.c\0L12\0\0", &e) == PG_OK);
	CHECK_TEXT(e.severity, "ERROR");
	CHECK_TEXT(e.sqlstate, "42P01");
	CHECK_TEXT(e.message, "no table");
	CHECK_TEXT(e.detail, "not there");
	CHECK_TEXT(e.hint, "make it");
}

TEST(severity_localized_or_not)
{
	struct pg_error e;

	CHECK(READ("VFATAL\0SSCHLIMM\0\0", &e) == PG_OK);
	CHECK_TEXT(e.severity, "FATAL");
	CHECK(READ("SPANIC\0Mx\0\0", &e) == PG_OK);
	CHECK_TEXT(e.severity, "PANIC");
}

TEST(missing_and_unknown_fields)
{
	struct pg_error e;

	CHECK(READ("\0", &e) == PG_OK);
	check_nothing(&e);
	CHECK(READ("?what\0M\0\0", &e) == PG_OK);
	check_nothing(&e);
}

TEST(not_an_error)
{
	struct pg_error e;

	CHECK(READ("", &e) == PG_BAD);
	check_nothing(&e);
	CHECK(READ("Mtext", &e) == PG_BAD);
	check_nothing(&e);
	CHECK(READ("Mtext\0", &e) == PG_BAD);
	check_nothing(&e);
	CHECK(READ("Mtext\0\0more", &e) == PG_BAD);
	check_nothing(&e);
}

/* Each truncated body is in an allocation of the exact size, so that the sanitizer detects a read past the end. */
TEST(truncated_bodies)
{
	static const char body[] = "SERROR\0C23505\0Mduplicate\0Dkey\0Hno\0";	/* its own NUL is the terminator */

	for (size_t n = 0; n <= sizeof(body); n++) {
		uint8_t *copy = malloc(n ? n : 1);
		struct pg_error e;

		REQUIRE(copy != NULL);
		memcpy(copy, body, n);
		CHECK_INT(pg_error_read(copy, n, &e), n == sizeof(body) ? PG_OK : PG_BAD);
		free(copy);
	}
}

#define IS_FATAL(body) pg_error_is_fatal((const uint8_t *)(body), sizeof(body))

TEST(fatal_severities)
{
	CHECK(IS_FATAL("SFATAL\0VFATAL\0C57P01\0Mend\0"));
	CHECK(IS_FATAL("SPANIC\0C57P01\0Mend\0"));		/* from a server before 9.6 */
	CHECK(IS_FATAL("SFATALE\0VFATAL\0"));			/* translated */
	CHECK(!IS_FATAL("SFATAL\0VERROR\0"));
	CHECK(!IS_FATAL("SERROR\0VERROR\0MFATAL\0"));
	CHECK(!IS_FATAL("SERROR\0MVFATAL\0"));
	CHECK(!IS_FATAL(""));
	CHECK(!pg_error_is_fatal((const uint8_t *)"SFATAL", 6));	/* cut off */
}

/* ---- command tags ---- */

static enum pg_tag read_if(const char *text, uint64_t sizes)
{
	uint32_t size = (uint32_t)strlen(text) + 1;

	return pg_tag_may_tell('C', size, sizes) ? pg_tag_read((const uint8_t *)text, size) : TAG_NOTHING;
}

static enum pg_tag read_tag(const char *text)
{
	CHECK_INT(read_if(text, TAG_ANY_SIZE), read_if(text, TAG_SIZES));
	return read_if(text, TAG_SIZES);
}

TEST(significant_tags)
{
	CHECK_INT(read_tag("SET"), TAG_SET);
	CHECK_INT(read_tag("RESET"), TAG_SET);
	CHECK_INT(read_tag("DISCARD ALL"), TAG_DISCARD_ALL);
	CHECK_INT(read_tag("DO"), TAG_CODE);
	CHECK_INT(read_tag("CALL"), TAG_CODE);
	CHECK_INT(read_tag("ALTER TABLE"), TAG_ALTER);
	CHECK_INT(read_tag("ALTER TYPE"), TAG_ALTER);
	CHECK_INT(read_tag("ALTER ROLE"), TAG_ALTER_SESSIONS);
	CHECK_INT(read_tag("ALTER DATABASE"), TAG_ALTER_SESSIONS);
	CHECK_INT(read_tag("DROP VIEW"), TAG_DROP);
	CHECK_INT(read_tag("DROP TABLE"), TAG_DROP);
	CHECK_INT(read_tag("DROP ACCESS METHOD"), TAG_DROP);
	CHECK_INT(read_tag("CREATE CAST"), TAG_DEFINE);
	CHECK_INT(read_tag("CREATE VIEW"), TAG_DEFINE);
	CHECK_INT(read_tag("CREATE FUNCTION"), TAG_DEFINE);
	CHECK_INT(read_tag("CREATE TABLESPACE"), TAG_DEFINE);
	CHECK_INT(read_tag("CREATE TABLE"), TAG_CREATE);
	CHECK_INT(read_tag("CREATE INDEX"), TAG_CREATE);
	CHECK_INT(read_tag("CREATE SEQUENCE"), TAG_CREATE);
	CHECK_INT(read_tag("DEALLOCATE ALL"), TAG_DEALLOCATE_ALL);
}

TEST(insignificant_tags)
{
	static const char *const others[] = { "", "S", "SEX", "BEGIN", "FETCH", "SHOW", "DX", "ALTER", "UPDATE 10",
		"SELECT 1000", "CREATES IT", "COPY 100000", "DROPS A TABLE",
		"SELECT 1", "INSERT 0 10000", "COMMIT", "CREATE", "DROP" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_INT(read_tag(others[i]), TAG_NOTHING);
}

TEST(tags_that_change_the_meaning_of_texts)
{
	CHECK(pg_tag_changes_meaning(TAG_ALTER) && pg_tag_changes_meaning(TAG_ALTER_SESSIONS) && pg_tag_changes_meaning(TAG_DROP) && pg_tag_changes_meaning(TAG_DEFINE));
	/* the statement may create a temporary table in each transaction */
	CHECK(!pg_tag_changes_meaning(TAG_CREATE));
	CHECK(!pg_tag_changes_meaning(TAG_NOTHING) && !pg_tag_changes_meaning(TAG_DISCARD_ALL) && !pg_tag_changes_meaning(TAG_SET));
}

TEST(tags_that_affect_session_state)
{
	static const struct { const char *text; enum pg_tag tag; } tags[] = {
		{ "DISCARD TEMP", TAG_DISCARD }, { "DISCARD SEQUENCES", TAG_DISCARD_SEQUENCES }, { "PREPARE", TAG_PREPARE }, { "DEALLOCATE", TAG_DEALLOCATE },
		{ "CLOSE CURSOR", TAG_CLOSE }, { "CLOSE CURSOR ALL", TAG_CLOSE }, { "LISTEN", TAG_LISTEN }, { "UNLISTEN", TAG_LISTEN },
		{ "LOAD", TAG_LOAD },
	};

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++)
		CHECK_INT(read_if(tags[i].text, TAG_ANY_SIZE), tags[i].tag);
	CHECK_INT(read_if("LISTEN", TAG_SIZES), TAG_NOTHING);
	CHECK_INT(read_if("CREATE a tag with more bytes than any tag of a PostgreSQL server has", TAG_ANY_SIZE), TAG_NOTHING);
}

TEST(only_command_complete_is_read)
{
	CHECK(pg_tag_may_tell('C', 4, TAG_SIZES) && pg_tag_may_tell('C', 4, TAG_ANY_SIZE));
	CHECK(!pg_tag_may_tell('D', 4, TAG_ANY_SIZE) && !pg_tag_may_tell('Z', 4, TAG_SIZES) && !pg_tag_may_tell('C', UINT32_MAX, TAG_ANY_SIZE));
}

UNIT_MAIN
