/*
 * Frames and cursors ("Message Formats").
 *
 * Only pg_frame_look(), and pg_frame_is_here() for short messages, turn the length of a message into a size. pg_frame_look() compares before it
 * subtracts, so that a length of 0 to 3 does not wrap to a huge size, and a length with the top bit set is never a negative number. It needs the
 * header only: a body of a gigabyte is forwarded as it arrives.
 *
 * A cursor never moves past the end of a body. After a read past the end it stays bad, so that a parser can read all fields before it checks.
 *
 * Invariant: whatever the bytes, here <= size, here <= n - PG_HEADER and at <= end.
 */
#include "pg/frame.h"

#include <string.h>

const uint8_t *pg_read_bytes(struct pg_cursor *c, size_t size)
{
	const uint8_t *found = c->at;

	if (c->bad || size > (size_t)(c->end - c->at)) {
		c->bad = 1;
		return NULL;
	}
	c->at += size;
	return found;
}

uint8_t pg_read_u8(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 1);

	return p ? p[0] : 0;
}

uint16_t pg_read_u16(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 2);

	return p ? (uint16_t)(p[0] << 8 | p[1]) : 0;
}

uint32_t pg_read_u32(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 4);

	return p ? pg_u32_at(p) : 0;
}

const char *pg_read_string(struct pg_cursor *c)
{
	const uint8_t *text = c->at;
	const uint8_t *nul;

	nul = c->bad || c->at == c->end ? NULL : memchr(text, 0, (size_t)(c->end - text));
	if (!nul) {
		c->bad = 1;
		return "";
	}
	c->at = nul + 1;
	return (const char *)text;
}
