/* SQL that may make its session forget prepared statements, complete and truncated at every byte. */
#include "pg/deallocate.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Checks the first `size` bytes of a text, with or without its NUL, in an allocation of that size. */
static bool ask(const char *text, size_t size, bool *may_be_parsed)
{
	uint8_t *copy = malloc(size ? size : 1);
	bool answer;

	if (!copy)
		abort();
	memcpy(copy, text, size);
	answer = deallocate_is_mentioned(copy, size);
	*may_be_parsed = deallocate_may_be_parsed(copy, size);
	free(copy);
	return answer;
}

TEST(texts_that_may_deallocate)
{
	/* `alone`: the text may be the only statement of a Parse */
	static const struct { const char *text; bool alone; } all[] = {
		{ "DISCARD ALL", true }, { "discard all", true }, { "dIsCaRd\n\tall;", true }, { "DEALLOCATE ALL", true },
		{ "Deallocate Prepare All", true }, { "DEALLOCATE a", true }, { "/* a */ DISCARD ALL", true }, { "-- a\nDEALLOCATE ALL", true },
		{ " ;DISCARD/**/ALL", true }, { "DISCARD", true }, { "DEALLOCATE", true }, { "'discard'", true },
		{ "BEGIN; DEALLOCATE ALL", false }, { "SELECT 1;deallocate all", false }, { "SELECT 'discard'", false }, { "ddiscard", true },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool alone;

		if (!ask(all[i].text, strlen(all[i].text) + 1, &alone) || alone != all[i].alone)
			UNIT_FAIL("\"%s\"", all[i].text);
	}
}

TEST(texts_that_cannot_deallocate)
{
	static const char *const all[] = {
		"", ";", "d", "SELECT 1", "DELETE FROM d", "DROP TABLE dis", "DISCAR", "discar d", "deallocat", "de/**/allocate", "DECLARE c CURSOR FOR SELECT 1",
		"\xc3\xa4 d", "/* d */ SELECT 1", "DI\305\237CARD ALL", "BEGIN",
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		bool alone;

		if (ask(all[i], strlen(all[i]) + 1, &alone) || alone)
			UNIT_FAIL("\"%s\"", all[i]);
	}
}

/* Bytes after the NUL of a Parse are ignored. */
TEST(parameter_types_are_ignored)
{
	bool alone;

	CHECK(!ask("; \0DISCARD ALL", 15, &alone) && !alone);
}

/* The missing rest may contain anything, unless a Parse begins with another word. */
TEST(truncated_texts)
{
	static const char *const all[] = { "DISCARD ALL", "SELECT 1", "/**/ DEALLOCATE ALL", "delete from t" };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (size_t size = 0; size <= strlen(all[i]); size++) {
			bool alone;

			if (!ask(all[i], size, &alone) || alone != (size == 0 || *all[i] != 'S'))
				UNIT_FAIL("%zu bytes of \"%s\"", size, all[i]);
		}
}

UNIT_MAIN
