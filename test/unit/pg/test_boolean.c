/*
 * Values of boolean parameters.
 */
#include "pg/boolean.h"
#include "unit.h"

TEST(spelled)
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

UNIT_MAIN
