/*
 * Spellings of character sets, as PostgreSQL 15 reports them.
 */
#include "pg/encoding.h"
#include "unit.h"

TEST(spellings)
{
	CHECK_TEXT(pg_encoding_spelled("utf-8"), "UTF8");
	CHECK_TEXT(pg_encoding_spelled("UTF8"), "UTF8");
	CHECK_TEXT(pg_encoding_spelled(" Utf_8 "), "UTF8");
	CHECK_TEXT(pg_encoding_spelled("unicode"), "UTF8");
	CHECK_TEXT(pg_encoding_spelled("iso-8859-1"), "LATIN1");
	CHECK_TEXT(pg_encoding_spelled("ISO_8859-16"), "LATIN10");
	CHECK_TEXT(pg_encoding_spelled("Windows-1252"), "WIN1252");
	CHECK_TEXT(pg_encoding_spelled("win"), "WIN1251");
	CHECK_TEXT(pg_encoding_spelled("abc"), "WIN1258");
	CHECK_TEXT(pg_encoding_spelled("windows950"), "BIG5");
	CHECK_TEXT(pg_encoding_spelled("shift_jis_2004"), "SHIFT_JIS_2004");
}

/* Older drivers compare with the spelling that they sent. */
TEST(upper_case_unicode_is_kept)
{
	CHECK_TEXT(pg_encoding_spelled("UNICODE"), "UNICODE");
}

TEST(unknown_character_set_is_kept)
{
	CHECK_TEXT(pg_encoding_spelled(""), "");
	CHECK_TEXT(pg_encoding_spelled("--"), "--");
	CHECK_TEXT(pg_encoding_spelled("utf9"), "utf9");
	CHECK_TEXT(pg_encoding_spelled("utf8\xc3\xa9"), "UTF8");
	CHECK_TEXT(pg_encoding_spelled("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

UNIT_MAIN
