#ifndef BASE_PACK_H
#define BASE_PACK_H

#include "base/bytes.h"

/*
 * Serialisation of values for another process of pgweir: numbers in network byte order, byte sequences with their length in
 * front. Written with these functions and bytes_append_u8, _u16, _u32; the caller checks out->failed at the end.
 */
static inline void pack_bool(struct bytes *out, bool value) { bytes_append_u8(out, value); }
void pack_u64(struct bytes *out, uint64_t value);
/* A signed number, for example a time. */
static inline void pack_i64(struct bytes *out, int64_t value) { pack_u64(out, (uint64_t)value); }
void pack_blob(struct bytes *out, const void *data, size_t size);
/* NULL and "" are different. */
void pack_text(struct bytes *out, const char *text);

/*
 * Deserialisation. A missing or invalid value sets `bad` and returns zero, NULL or false; the caller checks `bad` once, at the
 * end.
 */
struct unpack {
	const uint8_t *at, *end;
	bool bad;
};
static inline struct unpack unpack_of(const void *data, size_t size)
{
	return (struct unpack){ data, (const uint8_t *)data + size, false };
}
uint8_t unpack_u8(struct unpack *in);
/* Any value except 0 and 1 is invalid. */
bool unpack_bool(struct unpack *in);
uint16_t unpack_u16(struct unpack *in);
uint32_t unpack_u32(struct unpack *in);
uint64_t unpack_u64(struct unpack *in);
/* A time in microseconds. Times more than 36,000 years from 0 are invalid, so that differences of times cannot overflow. */
#define UNPACK_TIME_MOST ((int64_t)1 << 60)
static inline int64_t unpack_i64(struct unpack *in)
{
	int64_t time = (int64_t)unpack_u64(in);

	if (time <= UNPACK_TIME_MOST && time >= -UNPACK_TIME_MOST)
		return time;
	in->bad = true;
	return 0;
}
/* These return pointers into the input. */
const uint8_t *unpack_blob(struct unpack *in, size_t *size);
const char *unpack_text(struct unpack *in);
/* Copies a byte sequence of exactly `size` bytes to `to`. */
void unpack_exactly(struct unpack *in, void *to, size_t size);
/* Returns a number of items of at least `least` bytes each; a number that is too large for the remaining input is invalid. */
uint32_t unpack_count(struct unpack *in, size_t least);
/* Whether all values were valid and all input was read. */
static inline bool unpack_is_done(const struct unpack *in) { return !in->bad && in->at == in->end; }

#endif
