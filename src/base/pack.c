/*
 * Serialisation and deserialisation of values.
 *
 * Invariant: a reader never moves past its end, even with wrong lengths. After an error the reader does not move and returns
 * only zeros, so that a caller may check `bad` once, at the end.
 */
#include "base/pack.h"

#include <string.h>

void pack_u64(struct bytes *out, uint64_t value)
{
	bytes_append_u32(out, (uint32_t)(value >> 32));
	bytes_append_u32(out, (uint32_t)value);
}

void pack_blob(struct bytes *out, const void *data, size_t size)
{
	if (size > UINT32_MAX) {
		out->failed = true;
		return;
	}
	bytes_append_u32(out, (uint32_t)size);
	bytes_append(out, data, size);
}

/* The NUL is included, so that an empty sequence means NULL. */
void pack_text(struct bytes *out, const char *text)
{
	pack_blob(out, text, text ? strlen(text) + 1 : 0);
}

static const uint8_t *take(struct unpack *in, size_t size)
{
	const uint8_t *at = in->at;

	if (in->bad || (size_t)(in->end - in->at) < size) {
		in->bad = true;
		return NULL;
	}
	in->at += size;
	return at;
}

static uint64_t take_number(struct unpack *in, size_t size)
{
	const uint8_t *at = take(in, size);
	uint64_t value = 0;

	for (size_t i = 0; at && i < size; i++)
		value = value << 8 | at[i];
	return value;
}

uint8_t unpack_u8(struct unpack *in)
{
	return (uint8_t)take_number(in, 1);
}

bool unpack_bool(struct unpack *in)
{
	uint8_t value = unpack_u8(in);

	in->bad |= value > 1;
	return value == 1;
}

uint16_t unpack_u16(struct unpack *in)
{
	return (uint16_t)take_number(in, 2);
}

uint32_t unpack_u32(struct unpack *in)
{
	return (uint32_t)take_number(in, 4);
}

uint64_t unpack_u64(struct unpack *in)
{
	return take_number(in, 8);
}

const uint8_t *unpack_blob(struct unpack *in, size_t *size)
{
	uint32_t length = unpack_u32(in);
	const uint8_t *at = take(in, length);

	*size = at ? length : 0;
	return at;
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
