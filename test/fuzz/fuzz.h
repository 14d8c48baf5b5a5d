#ifndef FUZZ_H
#define FUZZ_H

/*
 * Declarations shared by fuzz targets. A target is one file, fuzz_NAME.c, which defines LLVMFuzzerTestOneInput: libFuzzer and AFL++ link the file
 * with their own main(), all other builds with main() of replay.c. The same input always has the same effect: clock, randomness and files belong to
 * the target (sandbox.h), and the target frees everything that an input allocates.
 */
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A tested property: ends the process with the place and a text if the property does not hold. */
#define FUZZ_CHECK(cond) ((cond) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #cond))
_Noreturn void fuzz_failed(const char *file, int line, const char *what);
/* The same for two texts, which are shown. */
#define FUZZ_SAME(a, b) fuzz_same(__FILE__, __LINE__, a, b)
void fuzz_same(const char *file, int line, const struct bytes *a, const struct bytes *b);

/* The rest of an input. A read past its end returns zeros. */
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
/*
 * Returns the bytes up to the next `mark` (which is consumed) or the end, in an allocation of that size, so that the sanitizer detects each read
 * beyond; fuzz_text appends a NUL. The caller frees the result.
 */
uint8_t *fuzz_bytes(struct fuzz_input *in, uint8_t mark, size_t *size);
char *fuzz_text(struct fuzz_input *in, uint8_t mark);
/* A copy of its own size of these bytes. To be freed. */
uint8_t *fuzz_copy(const void *data, size_t size);
/* Whether it has these bytes somewhere. */
bool fuzz_has(const struct bytes *where, const void *what, size_t size);

/* How a stream is split: the whole at once, single bytes, or pieces whose lengths follow from the content. */
enum fuzz_cut { FUZZ_WHOLE, FUZZ_SINGLE, FUZZ_PIECES, FUZZ_CUTS };
/* Bytes of the next piece, when `left` bytes are left; *state is 0 before the first. */
size_t fuzz_cut_next(enum fuzz_cut cut, uint64_t *state, const uint8_t *at, size_t left);

#endif
