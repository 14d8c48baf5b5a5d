/*
 * Frames and cursors.
 *
 * After start-up both sides of protocol 3 speak in messages of one shape
 * ("Message Formats"): a type byte, an Int32 that counts itself and the body,
 * the body. pg_frame_look, and for short messages pg_frame_is_here, are the only
 * places in pgweir that turn that Int32 into a size. pg_frame_look checks before it subtracts, so a length word of 0 to 3 cannot
 * wrap into a huge body, and one with the top bit set is never taken for a
 * negative number. It asks for the header only: the body may be a gigabyte that
 * is relayed as it comes.
 *
 * Inside a body a cursor reads. It never steps over the end; once it would
 * have to, it stays bad, so that a parser may read all of its fields first and
 * judge them in one place.
 *
 * Invariant: whatever the bytes, here <= size, here <= n - PG_HEADER and
 * at <= end.
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
