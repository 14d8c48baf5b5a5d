/*
 * A growable buffer with a read position.
 *
 * Invariant: start <= end <= capacity; data is NULL exactly if capacity is 0; after bytes_consume, a buffer without unread
 * bytes has start == end == 0. The capacity doubles. The buffer may contain a password, so the old memory is wiped when the
 * buffer grows: bytes_wipe could not reach it later.
 */
#include "base/bytes.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CAPACITY_LEAST 128

static bool grow(struct bytes *b, size_t needed)
{
	size_t capacity = b->capacity ? b->capacity : CAPACITY_LEAST;
	size_t size = bytes_size(b);
	uint8_t *data;

	while (capacity < needed)
		capacity = capacity > SIZE_MAX / 2 ? needed : capacity * 2;
	data = mem_resize(NULL, capacity);
	if (!data)
		return false;
	if (b->data) {
		memcpy(data, bytes_front(b), size);
		mem_wipe(b->data, b->end);
		mem_free(b->data);
	}
	b->data = data;
	b->capacity = capacity;
	b->start = 0;
	b->end = size;
	return true;
}

uint8_t *bytes_reserve(struct bytes *b, size_t more)
{
	size_t size = bytes_size(b);

	if (b->failed)
		return NULL;
	if (b->capacity - b->end >= more && b->data)
		return b->data + b->end;
	/* Move the unread bytes down only if this frees at least as many bytes as it copies. Otherwise a loop that appends and
	   consumes would copy the same bytes repeatedly. */
	if (b->data && b->start >= size && b->capacity - size >= more) {
		memmove(b->data, bytes_front(b), size);
		b->start = 0;
		b->end = size;
	} else if (more > SIZE_MAX - size || !grow(b, size + more)) {
		b->failed = true;
		return NULL;
	}
	return b->data + b->end;
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

void bytes_append_text(struct bytes *b, const char *text)
{
	bytes_append(b, text, strlen(text));
}

void bytes_append_string(struct bytes *b, const char *text)
{
	bytes_append(b, text, strlen(text) + 1);
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

void bytes_append_u8(struct bytes *b, uint8_t value)
{
	bytes_append(b, &value, 1);
}

void bytes_append_u16(struct bytes *b, uint16_t value)
{
	const uint8_t wire[2] = { (uint8_t)(value >> 8), (uint8_t)value };

	bytes_append(b, wire, sizeof(wire));
}

void bytes_append_u32(struct bytes *b, uint32_t value)
{
	const uint8_t wire[4] = {
		(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value,
	};

	bytes_append(b, wire, sizeof(wire));
}

void bytes_fit(struct bytes *b, const void *data, size_t size)
{
	ASSERT(!b->data);
	if (size == 0)
		return;
	b->data = mem_resize(NULL, size);
	b->failed = !b->data;
	if (b->failed)
		return;
	memcpy(b->data, data, size);
	b->end = b->capacity = size;
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

void bytes_wipe(struct bytes *b)
{
	mem_wipe(b->data, b->capacity);
	bytes_free(b);
}
