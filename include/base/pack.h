#ifndef BASE_PACK_H
#define BASE_PACK_H

#include "base/bytes.h"

/*
 * Values one behind the other, for another process of ours to read: numbers in network byte order, runs of bytes with their
 * length in front. Written with these and bytes_append_u8, _u16, _u32; whether memory sufficed, out->failed says in the end.
 */
static inline void pack_bool(struct bytes *out, bool value) { bytes_append_u8(out, value); }
void pack_u64(struct bytes *out, uint64_t value);
/* A number that may be negative, such as a time. */
static inline void pack_i64(struct bytes *out, int64_t value) { pack_u64(out, (uint64_t)value); }
void pack_blob(struct bytes *out, const void *data, size_t size);
/* NULL is another thing than "". */
void pack_text(struct bytes *out, const char *text);

/*
 * The way back. What is not there, or cannot be, sets `bad` and gives zero, NULL or false; the caller looks once, at the end.
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
/* Only 0 and 1 are truth values. */
bool unpack_bool(struct unpack *in);
uint16_t unpack_u16(struct unpack *in);
uint32_t unpack_u32(struct unpack *in);
uint64_t unpack_u64(struct unpack *in);
/* A time in microseconds. None is further from 0 than 36,000 years, so that no difference of two overflows. */
#define UNPACK_TIME_MOST ((int64_t)1 << 60)
static inline int64_t unpack_i64(struct unpack *in)
{
	int64_t time = (int64_t)unpack_u64(in);

	if (time <= UNPACK_TIME_MOST && time >= -UNPACK_TIME_MOST)
		return time;
	in->bad = true;
	return 0;
}
/* Both are not copied: they lie in what is read. */
const uint8_t *unpack_blob(struct unpack *in, size_t *size);
const char *unpack_text(struct unpack *in);
/* A run of exactly `size` bytes goes to `to`. */
void unpack_exactly(struct unpack *in, void *to, size_t size);
/* How many of something follow, each of which takes at least `least` bytes: never more than there is room for. */
uint32_t unpack_count(struct unpack *in, size_t least);
/* All was good, and nothing is left. */
static inline bool unpack_is_done(const struct unpack *in) { return !in->bad && in->at == in->end; }

#endif
