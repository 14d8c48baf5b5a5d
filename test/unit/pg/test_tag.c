/*
 * Tags that say more than that a command is complete, and tags of the same sizes that do not.
 */
#include "pg/tag.h"
#include "unit.h"

static enum pg_tag read_tag(const char *text)
{
	uint32_t size = (uint32_t)strlen(text) + 1;

	return pg_tag_may_tell('C', size) ? pg_tag_read((const uint8_t *)text, size) : TAG_NOTHING;
}

TEST(tags_that_tell)
{
	CHECK_INT(read_tag("SET"), TAG_SET);
	CHECK_INT(read_tag("RESET"), TAG_SET);
	CHECK_INT(read_tag("DISCARD ALL"), TAG_DISCARD_ALL);
	CHECK_INT(read_tag("DO"), TAG_CODE);
	CHECK_INT(read_tag("CALL"), TAG_CODE);
	CHECK_INT(read_tag("ALTER TABLE"), TAG_ALTER_TABLE);
	CHECK_INT(read_tag("DEALLOCATE ALL"), TAG_DEALLOCATE_ALL);
}

TEST(tags_that_do_not)
{
	static const char *const others[] = { "", "S", "SEX", "BEGIN", "FETCH", "SHOW", "LOAD", "DX", "CREATE ROLE", "DISCARD ALS", "CREATE SCHEMA x", "DEALLOCATE",
		"SELECT 1", "INSERT 0 10000", "DEALLOCATE ALL AND MORE" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_INT(read_tag(others[i]), TAG_NOTHING);
}

TEST(only_of_a_command_that_is_complete)
{
	CHECK(pg_tag_may_tell('C', 4));
	CHECK(!pg_tag_may_tell('D', 4) && !pg_tag_may_tell('Z', 4) && !pg_tag_may_tell('C', UINT32_MAX));
}

UNIT_MAIN
