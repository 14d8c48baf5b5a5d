/*
 * Prints pgweir's verdict about SQL texts, for test_read_text.py, which compares servers. Each line of standard input is a text in hex, "-" for an empty one.
 * Each line of output is "no", or the question to the catalogue in hex. The arguments are names of read_functions.
 */
#include "sql/read_text.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST (2 * READ_TEXT_MOST + 100)

static void answer(const uint8_t *text, size_t size, const char *functions)
{
	static struct read_names names;
	struct bytes sql = BYTES_EMPTY;
	char *hex;

	if (!read_text_only_reads(text, size, functions, &names)) {
		puts("no");
		return;
	}
	read_text_ask(text, &names, &sql);
	hex = malloc(2 * bytes_size(&sql) + 1);
	if (!hex || sql.failed)
		abort();
	text_hex(hex, bytes_front(&sql), bytes_size(&sql));
	puts(hex);
	free(hex);
	bytes_free(&sql);
}

int main(int argc, char **argv)
{
	static char line[LINE_MOST];
	static uint8_t text[LINE_MOST / 2];

	while (fgets(line, sizeof(line), stdin)) {
		size_t size = 0;

		line[strcspn(line, "\n")] = '\0';
		for (const char *at = strcmp(line, "-") == 0 ? "" : line; *at; at += 2)
			if (sscanf(at, "%2hhx", &text[size++]) != 1)
				abort();
		text[size++] = 0;
		answer(text, size, argc > 1 ? argv[1] : NULL);
		fflush(stdout);
	}
	return 0;
}
