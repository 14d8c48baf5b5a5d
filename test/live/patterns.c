/*
 * Prints pgweir's interpretation of regular expressions of HBA and ident files, for test_hba_expressions.py, which compares it with PostgreSQL's.
 *
 * Each line of standard input is EXPRESSION SUBJECT, both in hex, "-" for an empty text. Each line of output is one of these:
 *
 * - refused WHY: the expression is invalid
 * - no: no match
 * - yes ?: a match; \1 is ambiguous
 * - yes -: a match; \1 took no part
 * - yes =HEX: a match; \1 is this text
 */
#include "base/text.h"
#include "conf/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decodes the hex of a word into `to`, with a terminating NUL. */
static void decode(char *to, const char *word)
{
	size_t size = strcmp(word, "-") == 0 ? 0 : strlen(word) / 2;

	for (size_t i = 0; i < size; i++)
		if (sscanf(word + 2 * i, "%2hhx", (unsigned char *)to + i) != 1)
			abort();
	to[size] = '\0';
}

static void answer(const struct pattern *pattern, const char *subject)
{
	char hex[2 * PATTERN_CAPTURE_MOST + 1];
	size_t size;
	long start;
	bool matches = pattern_captures(pattern, subject, &start, &size);

	if (matches != pattern_matches(pattern, subject))
		abort();
	if (!matches) {
		puts("no");
	} else if (pattern_group_fault(pattern)) {
		puts("yes ?");
	} else if (start < 0) {
		puts("yes -");
	} else {
		text_hex(hex, subject + start, size);
		printf("yes =%s\n", hex);
	}
}

int main(void)
{
	char line[8192], expression[4096], subject[4096], why[200], *space;

	while (fgets(line, sizeof(line), stdin)) {
		struct pattern *pattern;

		line[strcspn(line, "\n")] = '\0';
		space = strchr(line, ' ');
		if (!space)
			abort();
		*space = '\0';
		decode(expression, line);
		decode(subject, space + 1);
		pattern = pattern_new(expression, why, sizeof(why));
		if (pattern)
			answer(pattern, subject);
		else
			printf("refused %s\n", why);
		pattern_free(&pattern);
	}
	return 0;
}
