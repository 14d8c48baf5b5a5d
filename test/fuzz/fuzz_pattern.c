/*
 * Regular expressions of HBA and ident files, and the match of their first group.
 *
 * Input: the expression, a newline, the text. Properties: a match with the group gives the same result as a match without; the group is inside the
 * text; parentheses (?:...) around the whole change neither; a text that matches from end to end matches.
 */
#include "conf/pattern.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verdict {
	bool is_taken, matches;
	long start;
	size_t size;
};

static struct verdict ask(const char *before, const char *expression, const char *behind, const char *text)
{
	struct verdict v = { .start = -1 };
	size_t room = strlen(before) + strlen(expression) + strlen(behind) + 1;
	char *whole = malloc(room), why[100] = "";
	struct pattern *pattern;

	FUZZ_CHECK(whole);
	snprintf(whole, room, "%s%s%s", before, expression, behind);
	pattern = pattern_new(whole, why, sizeof(why));
	FUZZ_CHECK(!pattern == (*why != '\0'));
	if (pattern) {
		v.is_taken = true;
		v.matches = pattern_matches(pattern, text);
		FUZZ_CHECK(pattern_captures(pattern, text, &v.start, &v.size) == v.matches);
		FUZZ_CHECK(v.matches || v.start < 0);
		FUZZ_CHECK(v.start < 0 || (size_t)v.start + v.size <= strlen(text));
		FUZZ_CHECK(v.start < 0 || !pattern_group_fault(pattern));
	}
	pattern_free(&pattern);
	free(whole);
	return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input_of(data, size);
	char *expression = fuzz_text(&in, '\n'), *text = fuzz_text(&in, '\n');
	struct verdict plain, grouped, whole;

	if (strlen(text) <= PATTERN_CAPTURE_MOST) {
		plain = ask("", expression, "", text);
		grouped = ask("(?:", expression, ")", text);
		whole = ask("^(?:", expression, ")$", text);
		if (plain.is_taken && grouped.is_taken)
			FUZZ_CHECK(plain.matches == grouped.matches && plain.start == grouped.start &&
				   plain.size == grouped.size);
		if (plain.is_taken && whole.is_taken)
			FUZZ_CHECK(plain.matches || !whole.matches);
	}
	free(expression);
	free(text);
	return 0;
}
