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

UNIT_MAIN
