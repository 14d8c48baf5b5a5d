/* Command tags with information beyond completion, and other tags of equal length. */
#include "pg/tag.h"
#include "unit.h"

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
	CHECK(pg_tag_changes_meaning(TAG_ALTER) && pg_tag_changes_meaning(TAG_DROP) && pg_tag_changes_meaning(TAG_DEFINE));
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
