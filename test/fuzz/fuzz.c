/* Functions shared by all fuzz targets: see fuzz.h. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void fuzz_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

static void show(const char *name, const struct bytes *b)
{
	fprintf(stderr, "%s (%zu bytes): ", name, bytes_size(b));
	for (size_t i = 0; i < bytes_size(b); i++) {
		uint8_t c = bytes_front(b)[i];

		fprintf(stderr, c >= ' ' && c < 0x7f ? "%c" : "\\x%02x", c);
	}
	fprintf(stderr, "\n");
}

void fuzz_same(const char *file, int line, const struct bytes *a, const struct bytes *b)
{
	if (bytes_size(a) == bytes_size(b) && (bytes_size(a) == 0 || memcmp(bytes_front(a), bytes_front(b), bytes_size(a)) == 0))
		return;
	show("first", a);
	show("second", b);
	fuzz_failed(file, line, "both are the same");
}

uint8_t fuzz_u8(struct fuzz_input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

uint16_t fuzz_u16(struct fuzz_input *in)
{
	uint16_t high = fuzz_u8(in);

	return (uint16_t)(high << 8 | fuzz_u8(in));
}

uint8_t *fuzz_copy(const void *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);

	if (!copy)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

bool fuzz_has(const struct bytes *where, const void *what, size_t size)
{
	return bytes_size(where) > 0 && memmem(bytes_front(where), bytes_size(where), what, size);
}

/* How many bytes there are before the mark, which is passed. */
static size_t take(struct fuzz_input *in, uint8_t mark, const uint8_t **from)
{
	size_t left = fuzz_left(in), size;
	const uint8_t *end = left > 0 ? memchr(in->at, mark, left) : NULL;

	*from = in->at;
	size = end ? (size_t)(end - in->at) : left;
	in->at = end ? end + 1 : in->end;
	return size;
}

uint8_t *fuzz_bytes(struct fuzz_input *in, uint8_t mark, size_t *size)
{
	const uint8_t *from;

	*size = take(in, mark, &from);
	return fuzz_copy(from, *size);
}

char *fuzz_text(struct fuzz_input *in, uint8_t mark)
{
	const uint8_t *from;
	size_t size = take(in, mark, &from);
	char *text = malloc(size + 1);

	if (!text)
		abort();
	if (size > 0)
		memcpy(text, from, size);
	text[size] = '\0';
	return text;
}

size_t fuzz_cut_next(enum fuzz_cut cut, uint64_t *state, const uint8_t *at, size_t left)
{
	size_t size;

	if (cut == FUZZ_WHOLE || left <= 1)
		return left;
	if (cut == FUZZ_SINGLE)
		return 1;
	*state = (*state + *at + 1) * 6364136223846793005ULL + 1442695040888963407ULL;
	size = 1 + (size_t)((*state >> 33) % (1u << ((*state >> 60) & 7)));
	return size < left ? size : left;
}
