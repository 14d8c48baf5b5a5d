/*
 * A growable buffer with a read position.
 *
 * Invariant: start <= end <= capacity; data is NULL exactly if capacity is 0; after bytes_consume,
 * a buffer without unread bytes has start == end == 0. The capacity doubles. The buffer may contain
 * a password, so the old memory is wiped when the buffer grows: bytes_wipe could not reach it
 * later.
 */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"

#define CAPACITY_LEAST 128

/* Moves the unread bytes to the front, or to a larger block. Not inlined: nearly all appends have
   room, and save no registers. */
static NEVER_INLINE uint8_t *bytes_make_room(struct bytes *b, size_t more)
{
	size_t size = bytes_size(b), capacity = b->capacity ? b->capacity : CAPACITY_LEAST;
	uint8_t *data;

	/* Move the unread bytes down only if this frees at least as many bytes as it copies.
	   Otherwise a loop of appending and consuming would copy the same bytes repeatedly. */
	if (b->data && b->start >= size && b->capacity - size >= more) {
		memmove(b->data, bytes_front(b), size);
		b->start = 0;
		b->end = size;
		return b->data + size;
	}
	if (more > SIZE_MAX - size) {
		b->failed = true;
		return NULL;
	}
	while (capacity < size + more)
		capacity = capacity > SIZE_MAX / 2 ? size + more : capacity * 2;
	data = mem_resize(NULL, capacity);
	if (!data) {
		b->failed = true;
		return NULL;
	}
	if (b->data) {
		memcpy(data, bytes_front(b), size);
		mem_wipe(b->data, b->end);
		mem_free(b->data);
	}
	*b = (struct bytes){ .data = data, .end = size, .capacity = capacity };
	return data + size;
}

uint8_t *bytes_reserve(struct bytes *b, size_t more)
{
	if (b->failed)
		return NULL;
	if (b->capacity - b->end >= more && b->data)
		return b->data + b->end;
	return bytes_make_room(b, more);
}

void bytes_append(struct bytes *b, const void *data, size_t size)
{
	uint8_t *to;

	if (size == 0)
		return;
	to = bytes_reserve(b, size);
	if (!to)
		return;
	memcpy(to, data, size);
	b->end += size;
}

void bytes_append_format(struct bytes *b, const char *format, ...)
{
	va_list args;
	int length;
	uint8_t *to;

	va_start(args, format);
	length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0) {
		b->failed = true;
		return;
	}
	/* vsnprintf also writes a NUL: reserve room for it, but do not count it. */
	to = bytes_reserve(b, (size_t)length + 1);
	if (!to)
		return;
	va_start(args, format);
	vsnprintf((char *)to, (size_t)length + 1, format, args);
	va_end(args);
	b->end += (size_t)length;
}

void bytes_append_decimal(struct bytes *b, uint64_t value)
{
	char text[20], *end = text + sizeof(text), *at = end;

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	bytes_append(b, at, (size_t)(end - at));
}

void bytes_consume(struct bytes *b, size_t size)
{
	ASSERT(size <= bytes_size(b));
	b->start += size;
	if (b->start == b->end)
		b->start = b->end = 0;
}

void bytes_free(struct bytes *b)
{
	mem_free(b->data);
	*b = (struct bytes)BYTES_EMPTY;
}

/* ---- values for another process ---- */

/*
 * Serialisation and deserialisation of values.
 *
 * Invariant: a reader never moves past its end, even with wrong lengths. After an error the reader
 * does not move and returns only zeros, so that a caller may check `bad` once, at the end.
 */

void pack_blob(struct bytes *out, const void *data, size_t size)
{
	if (size > UINT32_MAX) {
		out->failed = true;
		return;
	}
	bytes_append_u32(out, (uint32_t)size);
	bytes_append(out, data, size);
}

static const uint8_t *bytes_take(struct unpack *in, size_t size)
{
	const uint8_t *at = in->at;

	if (in->bad || (size_t)(in->end - in->at) < size) {
		in->bad = true;
		return NULL;
	}
	in->at += size;
	return at;
}

uint64_t unpack_number(struct unpack *in, size_t size)
{
	const uint8_t *at = bytes_take(in, size);
	uint64_t value = 0;

	for (size_t i = 0; at && i < size; i++)
		value = value << 8 | at[i];
	return value;
}

void pack_wiped(struct bytes *out, struct bytes *part)
{
	pack_blob(out, part->data ? bytes_front(part) : NULL, bytes_size(part));
	out->failed |= part->failed;
	bytes_wipe(part);
}

const uint8_t *unpack_blob(struct unpack *in, size_t *size)
{
	uint32_t length = unpack_u32(in);
	const uint8_t *at = bytes_take(in, length);

	*size = at ? length : 0;
	return at;
}

bool unpack_compare(struct unpack *in, struct bytes *part)
{
	size_t size;
	const uint8_t *other = unpack_blob(in, &size);
	bool is_same = !in->bad && !part->failed && bytes_size(part) == size &&
		       (size == 0 || memcmp(bytes_front(part), other, size) == 0);

	bytes_wipe(part);
	return is_same;
}

const char *unpack_text(struct unpack *in)
{
	size_t size;
	const uint8_t *at = unpack_blob(in, &size);

	if (size == 0)
		return NULL;
	/* an earlier NUL is invalid */
	in->bad |= memchr(at, 0, size) != at + size - 1;
	return in->bad ? NULL : (const char *)at;
}

void unpack_exactly(struct unpack *in, void *to, size_t size)
{
	size_t there;
	const uint8_t *at = unpack_blob(in, &there);

	in->bad |= there != size;
	if (in->bad)
		memset(to, 0, size);
	else if (size > 0)
		memcpy(to, at, size);
}

uint32_t unpack_count(struct unpack *in, size_t least)
{
	uint32_t count = unpack_u32(in);

	in->bad |= count > (size_t)(in->end - in->at) / least;
	return in->bad ? 0 : count;
}
