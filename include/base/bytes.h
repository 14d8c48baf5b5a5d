#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

/*
 * A growable buffer with a read position. Bytes are appended at the end and consumed from the
 * front. An append without memory sets `failed`, and later appends do nothing: the caller checks
 * once, at the end.
 */
struct bytes {
	uint8_t *data;
	size_t start;		/* first unread byte */
	size_t end;		/* after the last byte */
	size_t capacity;
	bool failed;
};

#define BYTES_EMPTY { NULL, 0, 0, 0, false }

static inline size_t bytes_size(const struct bytes *b) { return b->end - b->start; }
/* NULL for a new buffer without bytes: C does not define NULL + 0. */
static inline uint8_t *bytes_front(const struct bytes *b)
{
	return (uint8_t *)((uintptr_t)b->data + b->start);
}
/* Makes room for `more` bytes at the end and returns its address (NULL and failed = true: no
   memory). Does not move `end`, but may move the unread bytes: a pointer from bytes_front is
   invalid after any append. */
uint8_t *bytes_reserve(struct bytes *b, size_t more);
void bytes_append(struct bytes *b, const void *data, size_t size);
/* Appends the text without its NUL. */
static inline void bytes_append_text(struct bytes *b, const char *text)
{
	bytes_append(b, text, strlen(text));
}
/* Appends the text and its NUL. */
static inline void bytes_append_string(struct bytes *b, const char *text)
{
	bytes_append(b, text, strlen(text) + 1);
}
void bytes_append_format(struct bytes *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Appends a number in decimal digits, several times as fast as bytes_append_format(). */
void bytes_append_decimal(struct bytes *b, uint64_t value);
/* Network byte order. */
static inline void bytes_append_u8(struct bytes *b, uint8_t value) { bytes_append(b, &value, 1); }
static inline void bytes_append_u16(struct bytes *b, uint16_t value)
{
	const uint8_t wire[2] = { (uint8_t)(value >> 8), (uint8_t)value };

	bytes_append(b, wire, sizeof(wire));
}
static inline void bytes_append_u32(struct bytes *b, uint32_t value)
{
	const uint8_t wire[4] = { (uint8_t)(value >> 24), (uint8_t)(value >> 16),
				  (uint8_t)(value >> 8), (uint8_t)value };

	bytes_append(b, wire, sizeof(wire));
}
/* Removes the first `size` unread bytes. If no bytes are left, start and end become 0. */
void bytes_consume(struct bytes *b, size_t size);
/* Frees the memory; the buffer is BYTES_EMPTY again. */
void bytes_free(struct bytes *b);
/* Wipes the memory, which may contain a secret, and frees it; the buffer is BYTES_EMPTY again. */
static inline void bytes_wipe(struct bytes *b)
{
	mem_wipe(b->data, b->capacity);
	bytes_free(b);
}

/* ---- values for another process ---- */

/*
 * Serialisation of values for another process of pgweir: numbers in network byte order, byte
 * sequences with their length in front. Written with these functions and bytes_append_u8, _u16,
 * _u32; the caller checks out->failed at the end.
 */
static inline void pack_bool(struct bytes *out, bool value) { bytes_append_u8(out, value); }
static inline void pack_u64(struct bytes *out, uint64_t value)
{
	bytes_append_u32(out, (uint32_t)(value >> 32));
	bytes_append_u32(out, (uint32_t)value);
}
/* A signed number, for example a time. */
static inline void pack_i64(struct bytes *out, int64_t value) { pack_u64(out, (uint64_t)value); }
void pack_blob(struct bytes *out, const void *data, size_t size);
/* NULL and "" are different: the NUL is included, so an empty sequence means NULL. */
static inline void pack_text(struct bytes *out, const char *text)
{
	pack_blob(out, text, text ? strlen(text) + 1 : 0);
}

/* Packs a part as a byte sequence. Frees and wipes the part. */
void pack_wiped(struct bytes *out, struct bytes *part);

/*
 * Deserialisation. A missing or invalid value sets `bad` and returns zero, NULL or false; the
 * caller checks `bad` once, at the end.
 */
struct unpack {
	const uint8_t *at, *end;
	bool bad;
};
static inline struct unpack unpack_of(const void *data, size_t size)
{
	return (struct unpack){ data, (const uint8_t *)data + size, false };
}
/* A number of `size` bytes. */
uint64_t unpack_number(struct unpack *in, size_t size);
static inline uint8_t unpack_u8(struct unpack *in) { return (uint8_t)unpack_number(in, 1); }
static inline uint16_t unpack_u16(struct unpack *in) { return (uint16_t)unpack_number(in, 2); }
static inline uint32_t unpack_u32(struct unpack *in) { return (uint32_t)unpack_number(in, 4); }
static inline uint64_t unpack_u64(struct unpack *in) { return unpack_number(in, 8); }
/* Any value except 0 and 1 is invalid. */
static inline bool unpack_bool(struct unpack *in)
{
	uint8_t value = unpack_u8(in);

	in->bad |= value > 1;
	return value == 1;
}
/* A time in microseconds. Times more than 36,000 years from 0 are invalid, so that differences of
   times cannot overflow. */
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
/* Reads a byte sequence. Returns whether it is equal to `part`, which is freed and wiped. */
bool unpack_compare(struct unpack *in, struct bytes *part);
/* Copies a byte sequence of exactly `size` bytes to `to`. */
void unpack_exactly(struct unpack *in, void *to, size_t size);
/* Returns a number of items of at least `least` bytes each; a number that is too large for the
   remaining input is invalid. */
uint32_t unpack_count(struct unpack *in, size_t least);
/* Whether all values were valid and all input was read. */
static inline bool unpack_is_done(const struct unpack *in) { return !in->bad && in->at == in->end; }

#endif
