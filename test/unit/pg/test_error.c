/* ErrorResponse bodies: fields in any order, missing or unknown fields, and invalid bodies. */
#include "pg/error.h"
#include "unit.h"

#include <stdlib.h>

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

UNIT_MAIN
