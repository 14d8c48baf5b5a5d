/*
 * The ident file: maps of names, with regular expressions, and the question whether a name of the system
 * may be a user.
 *
 * Input: the name that the system knows, a newline, the user, a newline, then files, as sandbox_files reads
 * them. Properties: the answer is the same each time and for the file read twice; without a map names must
 * be equal; a map that no line has allows no name; lines that cannot be used, in front, change nothing.
 */
#include "fuzz.h"
#include "hba_read.h"
#include "rules.h"
#include "sandbox.h"

#include <stdlib.h>

static struct hba *load(struct hba *running)
{
	struct conf_problems problems = { .count = 0 };
	struct hba *hba = hba_read("hba", SANDBOX_MAIN, HBA_TLS_ON, running, &problems);

	FUZZ_CHECK(!running || problems.errors == 0);
	conf_problems_free(&problems);
	return hba;
}

/* The same files, with unusable lines at the beginning of the first. */
static struct hba *load_behind_faults(const uint8_t *data, size_t size)
{
	struct bytes longer = BYTES_EMPTY;
	struct hba *hba;

	bytes_append_text(&longer, "m alice\nm \"alice bob\nm alice +bob\nm /( bob\ninclude\nm /(.)* \\1\n");
	bytes_append(&longer, data, size);
	sandbox_files((const char *)bytes_front(&longer), bytes_size(&longer));
	hba = load(NULL);
	bytes_free(&longer);
	return hba;
}

/* A repeated file, or a file that includes itself, is different after the unusable lines; so is a file with a byte order mark. */
static bool is_other_behind_faults(const uint8_t *data, size_t size)
{
	return memmem(data, size, SANDBOX_MAIN, strlen(SANDBOX_MAIN)) || memmem(data, size, "\xef\xbb\xbf", 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const maps[] = { "m", "map", "all", "" }, rules[] = "local all all peer map=m\n";
	struct fuzz_input in = fuzz_input_of(data, size);
	char *system_name = fuzz_text(&in, '\n'), *user = fuzz_text(&in, '\n');
	struct hba *hba, *again, *behind;

	if (size <= RULES_MOST && strlen(system_name) < 256 && strlen(user) < 256) {
		sandbox_begin();
		sandbox_file("hba", rules, sizeof(rules) - 1);
		sandbox_files((const char *)in.at, fuzz_left(&in));
		hba = load(NULL);
		again = load(hba);
		FUZZ_CHECK(!hba == !again);
		behind = is_other_behind_faults(in.at, fuzz_left(&in)) ? NULL : load_behind_faults(in.at, fuzz_left(&in));
		for (int i = 0; hba && i < 4; i++) {
			bool allows = hba_map_allows(hba, maps[i], system_name, user);

			FUZZ_CHECK(allows == hba_map_allows(hba, maps[i], system_name, user));
			FUZZ_CHECK(allows == hba_map_allows(again, maps[i], system_name, user));
			FUZZ_CHECK(!behind || allows == hba_map_allows(behind, maps[i], system_name, user));
		}
		if (hba) {
			FUZZ_CHECK(hba_map_allows(hba, NULL, system_name, user) == (strcmp(system_name, user) == 0));
			FUZZ_CHECK(!hba_map_allows(hba, "no line has this one\n", system_name, user));
		}
		hba_drop(&hba);
		hba_drop(&again);
		hba_drop(&behind);
		sandbox_end();
	}
	free(system_name);
	free(user);
	return 0;
}
