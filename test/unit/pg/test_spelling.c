/*
 * Values of parameters as a server reports them.
 */
#include "pg/spelling.h"
#include "unit.h"

TEST(booleans)
{
	static const char *const on[] = { "on", "ON", "true", "T", "tru", "yes", "y", "1" };
	static const char *const off[] = { "off", "of", "False", "f", "no", "N", "0" };
	static const char *const refused[] = { "", "o", "2", "10", "onn", "trues", "enable", "ye s" };

	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		CHECK_TEXT(pg_boolean_spelled(on[i]), "on");
	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		CHECK_TEXT(pg_boolean_spelled(off[i]), "off");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK(pg_boolean_spelled(refused[i]) == NULL);
}

TEST(parameters)
{
	CHECK_TEXT(pg_spelled("Client_Encoding", "utf-8"), "UTF8");
	CHECK_TEXT(pg_spelled("STANDARD_conforming_strings", "yes"), "on");
	CHECK_TEXT(pg_spelled("standard_conforming_strings", "0"), "off");
	CHECK_TEXT(pg_spelled("standard_conforming_strings", "maybe"), "maybe");
	CHECK_TEXT(pg_spelled("intervalstyle", "ISO_8601"), "iso_8601");
	CHECK_TEXT(pg_spelled("IntervalStyle", "Postgres_Verbose"), "postgres_verbose");
	CHECK_TEXT(pg_spelled("IntervalStyle", "roman"), "roman");
	CHECK_TEXT(pg_spelled("application_name", "YES"), "YES");
}

/* ---- client encoding ---- */

TEST(spellings)
{
	CHECK_TEXT(pg_spelled("client_encoding", "utf-8"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "UTF8"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", " Utf_8 "), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "unicode"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "iso-8859-1"), "LATIN1");
	CHECK_TEXT(pg_spelled("client_encoding", "ISO_8859-16"), "LATIN10");
	CHECK_TEXT(pg_spelled("client_encoding", "Windows-1252"), "WIN1252");
	CHECK_TEXT(pg_spelled("client_encoding", "win"), "WIN1251");
	CHECK_TEXT(pg_spelled("client_encoding", "abc"), "WIN1258");
	CHECK_TEXT(pg_spelled("client_encoding", "windows950"), "BIG5");
	CHECK_TEXT(pg_spelled("client_encoding", "shift_jis_2004"), "SHIFT_JIS_2004");
}

/* Older drivers compare with the spelling that they sent. */
TEST(upper_case_unicode_is_kept)
{
	CHECK_TEXT(pg_spelled("client_encoding", "UNICODE"), "UNICODE");
}

TEST(unknown_character_set_is_kept)
{
	CHECK_TEXT(pg_spelled("client_encoding", ""), "");
	CHECK_TEXT(pg_spelled("client_encoding", "--"), "--");
	CHECK_TEXT(pg_spelled("client_encoding", "utf9"), "utf9");
	CHECK_TEXT(pg_spelled("client_encoding", "utf8\xc3\xa9"), "UTF8");
	CHECK_TEXT(pg_spelled("client_encoding", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

/* ---- DateStyle ---- */

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

TEST(spellings_DateStyle)
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
