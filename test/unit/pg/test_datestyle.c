/* Partial DateStyle values, compared with the results of PostgreSQL 15. */
#include "pg/datestyle.h"
#include "unit.h"

static const char *over(const char *before, const char *asked)
{
	static char full[PG_DATESTYLE_MOST];

	return pg_datestyle_over(before, asked, full) ? full : NULL;
}

TEST(unmentioned_part_is_kept)
{
	CHECK_TEXT(over("ISO, MDY", "SQL"), "SQL, MDY");
	CHECK_TEXT(over("German, DMY", "ISO"), "ISO, DMY");
	CHECK_TEXT(over("Postgres, YMD", "MDY"), "Postgres, MDY");
	CHECK_TEXT(over("SQL, DMY", "ISO, YMD"), "ISO, YMD");
	CHECK_TEXT(over("SQL, DMY", "YMD, ISO"), "ISO, YMD");
}

TEST(spellings)
{
	CHECK_TEXT(over("ISO, MDY", "iso"), "ISO, MDY");
	CHECK_TEXT(over("ISO, MDY", " sql\t,\n dmy "), "SQL, DMY");
	CHECK_TEXT(over("ISO, MDY", "sql,dmy"), "SQL, DMY");
	CHECK_TEXT(over("ISO, MDY", "postgresql"), "Postgres, MDY");
	CHECK_TEXT(over("ISO, MDY", "European"), "ISO, DMY");
	CHECK_TEXT(over("ISO, DMY", "us"), "ISO, MDY");
	CHECK_TEXT(over("ISO, DMY", "NonEuropean"), "ISO, MDY");
	CHECK_TEXT(over("ISO, DMY", "ISO, ISO"), "ISO, DMY");
}

TEST(german_sets_the_field_order)
{
	CHECK_TEXT(over("ISO, MDY", "German"), "German, DMY");
	CHECK_TEXT(over("ISO, MDY", "German, YMD"), "German, YMD");
	CHECK_TEXT(over("ISO, MDY", "YMD, German"), "German, YMD");
}

TEST(values_that_only_the_server_can_resolve)
{
	CHECK(!over("ISO, MDY", ""));
	CHECK(!over("ISO, MDY", "DEFAULT"));
	CHECK(!over("ISO, MDY", "ISO, DEFAULT"));
	CHECK(!over("ISO, MDY", "ISO MDY"));
	CHECK(!over("ISO, MDY", "ISO,"));
	CHECK(!over("ISO, MDY", ",ISO"));
	CHECK(!over("ISO, MDY", "\"iso\""));
	CHECK(!over("ISO, MDY", "ISO, SQL"));
	CHECK(!over("ISO, MDY", "DMY, MDY"));
	CHECK(!over("ISO, MDY", "is"));
	CHECK(!over("ISO, MDY", "isoo"));
	CHECK(!over("ISO", "SQL"));
	CHECK(!over("", "SQL"));
	CHECK(!over("Klingon, MDY", "SQL"));
}

UNIT_MAIN
