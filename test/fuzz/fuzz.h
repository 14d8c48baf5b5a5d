#ifndef FUZZ_H
#define FUZZ_H

/*
 * What fuzz targets share. A target is one file, fuzz_NAME.c, which defines LLVMFuzzerTestOneInput:
 * libFuzzer and AFL++ link it with their own main(), all other builds with the one of replay.c. The same
 * input always does the same: clock, randomness and files are the target's own (sandbox.h), and what an
 * input sets up it takes down.
 */
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property of what is tested: ends the process with the place and a text when it does not hold. */
#define FUZZ_CHECK(cond) ((cond) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #cond))
_Noreturn void fuzz_failed(const char *file, int line, const char *what);
/* The same for two texts, which are shown. */
#define FUZZ_SAME(a, b) fuzz_same(__FILE__, __LINE__, a, b)
void fuzz_same(const char *file, int line, const struct bytes *a, const struct bytes *b);

/* What is left of an input. A read past its end gives zeros. */
struct fuzz_input {
	const uint8_t *at, *end;
};
static inline struct fuzz_input fuzz_input_of(const uint8_t *data, size_t size)
{
	return (struct fuzz_input){ data, data ? data + size : data };
}
static inline size_t fuzz_left(const struct fuzz_input *in) { return (size_t)(in->end - in->at); }
uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
/* The bytes up to the next `mark` (which is taken, too) or the end, in memory of just that size, so that the
   sanitizer sees each read beyond; with a NUL behind them for fuzz_text. To be freed. */
uint8_t *fuzz_bytes(struct fuzz_input *in, uint8_t mark, size_t *size);
char *fuzz_text(struct fuzz_input *in, uint8_t mark);
/* A copy of its own size of these bytes. To be freed. */
uint8_t *fuzz_copy(const void *data, size_t size);
/* Whether it has these bytes somewhere. */
bool fuzz_has(const struct bytes *where, const void *what, size_t size);

/* How a stream is cut in pieces: the whole at once, single bytes, or pieces with lengths that follow from what is in it. */
enum fuzz_cut { FUZZ_WHOLE, FUZZ_SINGLE, FUZZ_PIECES, FUZZ_CUTS };
/* Bytes of the next piece, when `left` bytes are left; *state is 0 before the first. */
size_t fuzz_cut_next(enum fuzz_cut cut, uint64_t *state, const uint8_t *at, size_t left);

#endif
