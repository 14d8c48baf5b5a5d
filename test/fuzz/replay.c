/*
 * main() of a fuzz target without a fuzzer: plays inputs again.
 *
 * - fuzz_NAME: every input of test/fuzz/corpus/NAME.txt below $srcdir, which count as one test
 * - fuzz_NAME FILE...: these files, each of which is one input ("-": standard input)
 *
 * A corpus is a text: a line for each input, with \n, \r, \t, \0, \\ and \xNN for bytes that a line cannot contain, and lines that begin with "#" for
 * remarks. A failing input ends the process; its line number has been printed before.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_ENGINE

static void play(const void *data, size_t size)
{
	/* of its own size, so that a read past the end is seen */
	uint8_t *copy = fuzz_copy(data, size);

	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* In place; its size. */
static size_t unescape(char *line)
{
	char *to = line;

	for (const char *c = line; *c; c++) {
		const char *named = "n\nr\rt\t0\0\\\\";
		int high, low;

		if (*c != '\\' || !c[1]) {
			*to++ = *c;
			continue;
		}
		c++;
		if (*c == 'x' && (high = hex_digit(c[1])) >= 0 && (low = hex_digit(c[2])) >= 0) {
			*to++ = (char)(high << 4 | low);
			c += 2;
			continue;
		}
		for (int i = 0; i < 10; i += 2)
			if (named[i] == *c)
				*to++ = named[i + 1];
	}
	return (size_t)(to - line);
}

static int play_corpus(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t capacity = 0;
	int number = 0, played = 0;
	char *line = NULL;
	ssize_t size;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	while ((size = getline(&line, &capacity, file)) >= 0) {
		number++;
		if (size > 0 && line[size - 1] == '\n')
			line[size - 1] = '\0';
		if (line[0] == '#')
			continue;
		/* the last printed line is the failing one */
		printf("%s:%d\n", path, number);
		fflush(stdout);
		play(line, unescape(line));
		played++;
	}
	free(line);
	fclose(file);
	printf("%d inputs\n1 passed, 0 failed\n", played);
	return played > 0 ? 0 : 1;
}

static int play_file(const char *path)
{
	FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	struct bytes all = BYTES_EMPTY;
	char buffer[4096];
	size_t got;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	while ((got = fread(buffer, 1, sizeof(buffer), file)) > 0)
		bytes_append(&all, buffer, got);
	if (file != stdin)
		fclose(file);
	play(all.data ? bytes_front(&all) : NULL, bytes_size(&all));
	bytes_free(&all);
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/'), *top = getenv("srcdir");
	char path[1024];
	int status = 0;

	name = strstr(name ? name : argv[0], "fuzz_");
	for (int i = 1; i < argc; i++)
		status |= play_file(argv[i]);
	if (argc > 1)
		return status;
	snprintf(path, sizeof(path), "%s/test/fuzz/corpus/%s.txt", top ? top : ".", name ? name + strlen("fuzz_") : "");
	return play_corpus(path);
}

#endif
