/*
 * Answers what a regular expression of an HBA or ident file means to pgweir, for test_hba_expressions.py, which asks
 * PostgreSQL the same.
 *
 * Each line of the standard input is EXPRESSION SUBJECT, both in hex, "-" for an empty one. Each line of the answer is one of
 *
 *	refused WHY		the expression cannot be used
 *	no			it does not match
 *	yes ?			it matches; it is not certain what \1 is
 *	yes -			it matches; \1 took no part
 *	yes =HEX		it matches; \1 is this
 */
#include "base/text.h"
#include "conf/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Undoes the hex of a word into `to`, with a NUL behind. */
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
