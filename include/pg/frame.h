#ifndef PG_FRAME_H
#define PG_FRAME_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Frames of protocol 3 after start-up ("Message Formats" in the PostgreSQL
 * documentation): one type byte, an Int32 length that counts itself, the body.
 * Every parser of this room gives one of three verdicts and touches nothing
 * but its arguments.
 */
enum pg_verdict {
	PG_OK,			/* what was asked for is there */
	PG_MORE,		/* not yet: call again with more bytes */
	PG_BAD			/* no continuation of these bytes is valid */
};

#define PG_HEADER 5		/* bytes: type and length */
#define PG_LENGTH_WORD 4u	/* the part of the length that is not body */
#define PG_LENGTH_LIMIT 0x7fffffffu	/* the wire's Int32 is signed */

struct pg_frame {
	uint8_t type;
	uint32_t size;		/* of the body, without type and length word */
	const uint8_t *body;	/* the part of the body that is here */
	size_t here;		/* bytes of it that are here, <= size */
};

/* The Int32 of the wire. */
static inline uint32_t pg_u32_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void pg_u32_put(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	p[1] = (uint8_t)(value >> 16);
	p[2] = (uint8_t)(value >> 8);
	p[3] = (uint8_t)value;
}

/* Looks at the frame that begins at p, n bytes of which have arrived. PG_OK as
   soon as the header is complete; PG_BAD when the length is below 4 or above
   max_length (as on the wire: body + 4; at most 2^31-1). */
static inline enum pg_verdict pg_frame_look(const uint8_t *p, size_t n, uint32_t max_length, struct pg_frame *out)
{
	uint32_t length;
	size_t behind;

	if (n < PG_HEADER)
		return PG_MORE;
	length = pg_u32_at(p + 1);
	if (length < PG_LENGTH_WORD || length > max_length || length > PG_LENGTH_LIMIT)
		return PG_BAD;
	behind = n - PG_HEADER;
	out->type = p[0];
	out->size = length - PG_LENGTH_WORD;
	out->body = p + PG_HEADER;
	out->here = behind < out->size ? behind : out->size;
	return PG_OK;
}
/* True when the whole body is here. */
static inline int pg_frame_is_whole(const struct pg_frame *f) { return f->here == f->size; }

/* Bytes of a peer from which whole messages are taken, one after the other: what reads logins, look-ups and commands of the console. */
struct pg_frames {
	const uint8_t *at;	/* what has not been taken */
	size_t left;
};
static inline struct pg_frames pg_frames_of(const struct bytes *held)
{
	size_t size = bytes_size(held);

	return (struct pg_frames){ size > 0 ? bytes_front(held) : NULL, size };
}
/* PG_OK: *out is the next message, all of which is here, and it is taken. PG_MORE: the rest is no whole message yet. PG_BAD: as
   pg_frame_look says. With these two nothing is taken. */
static inline enum pg_verdict pg_frames_next(struct pg_frames *in, uint32_t max_length, struct pg_frame *out)
{
	enum pg_verdict verdict = pg_frame_look(in->at, in->left, max_length, out);

	if (verdict != PG_OK)
		return verdict;
	if (!pg_frame_is_whole(out))
		return PG_MORE;
	in->at += PG_HEADER + (size_t)out->size;
	in->left -= PG_HEADER + (size_t)out->size;
	return PG_OK;
}

/*
 * The same for the two short walks of the relay, at the cost of three instructions: all of the message at `at`, of which n bytes, a header
 * at least, are here, has come; *size is that of its body. They have no use for a struct, nor for why it is not so: what they leave
 * goes to pg_frame_look, as do the frames that the relay passes on in parts.
 */
static inline int pg_frame_is_here(const uint8_t *at, size_t n, uint32_t *size)
{
	/* a length below four is a very large size */
	*size = pg_u32_at(at + 1) - PG_LENGTH_WORD;
	return *size <= n - PG_HEADER;
}

/*
 * A cursor over a body. A read past the end sets `bad` and gives zero, NULL or
 * ""; the caller checks `bad` once.
 */
struct pg_cursor {
	const uint8_t *at, *end;
	int bad;
};
static inline struct pg_cursor pg_cursor_of(const uint8_t *body, size_t size)
{
	return (struct pg_cursor){ body, body + size, 0 };
}
uint8_t pg_read_u8(struct pg_cursor *c);
uint16_t pg_read_u16(struct pg_cursor *c);
uint32_t pg_read_u32(struct pg_cursor *c);
/* A NUL-terminated string inside the body (not copied). */
const char *pg_read_string(struct pg_cursor *c);
/* `size` bytes inside the body (not copied). */
const uint8_t *pg_read_bytes(struct pg_cursor *c, size_t size);

#endif
