#ifndef PG_FRAME_H
#define PG_FRAME_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Frames of protocol 3 after start-up ("Message Formats" in the PostgreSQL documentation): a type
 * byte, an Int32 length that counts itself, the body. Each parser of this room returns one of three
 * verdicts, and reads and writes only its arguments.
 */
enum pg_verdict {
	PG_OK,			/* complete */
	PG_MORE,		/* incomplete: call again with more bytes */
	PG_BAD			/* invalid, whatever bytes follow */
};

#define PG_HEADER 5		/* bytes of type and length */
#define PG_LENGTH_WORD 4u	/* bytes of the length itself */
#define PG_LENGTH_LIMIT 0x7fffffffu	/* an Int32 is signed */

struct pg_frame {
	uint8_t type;
	uint32_t size;		/* of the body, without type and length word */
	const uint8_t *body;	/* the part of the body that has arrived */
	size_t here;		/* bytes of that part, <= size */
};

/* Reads an Int32 of the protocol. */
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

/* Reads the header of the frame at p; n bytes of the frame have arrived. PG_OK: the header is
   complete, which suffices: a body of a gigabyte is forwarded as it arrives. PG_BAD: the length is
   below 4, or above max_length (which counts the length itself, and is at most 2^31-1). Only this
   function, and pg_frame_is_here() for short messages, turn the length of a message into a size.
   The comparison before the subtraction excludes a length of 0 to 3, which would become a huge
   size. */
static inline enum pg_verdict pg_frame_look(const uint8_t *p, size_t n, uint32_t max_length,
					    struct pg_frame *out)
{
	uint32_t length;
	size_t after;

	if (n < PG_HEADER)
		return PG_MORE;
	length = pg_u32_at(p + 1);
	if (length < PG_LENGTH_WORD || length > max_length || length > PG_LENGTH_LIMIT)
		return PG_BAD;
	after = n - PG_HEADER;
	out->type = p[0];
	out->size = length - PG_LENGTH_WORD;
	out->body = p + PG_HEADER;
	out->here = after < out->size ? after : out->size;
	return PG_OK;
}
/* Whether the whole body has arrived. */
static inline int pg_frame_is_whole(const struct pg_frame *f) { return f->here == f->size; }

/* The bytes of a peer, from which complete messages are taken one by one: for logins, look-ups and
   commands of the console. */
struct pg_frames {
	const uint8_t *at;	/* the bytes that have not been taken */
	size_t left;
};
static inline struct pg_frames pg_frames_of(const struct bytes *held)
{
	size_t size = bytes_size(held);

	return (struct pg_frames){ size > 0 ? bytes_front(held) : NULL, size };
}
/* PG_OK: takes the next message into *out. PG_MORE: the rest is an incomplete message. PG_BAD: as
   from pg_frame_look(). Takes nothing with PG_MORE and PG_BAD. */
static inline enum pg_verdict pg_frames_next(struct pg_frames *in, uint32_t max_length,
					     struct pg_frame *out)
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

/* Whether the message at `at` is complete; n bytes have arrived, at least a header. Sets *size to
   the size of the body. For the fast paths of the relay: three instructions. An incomplete or
   invalid message is read again with pg_frame_look(). */
static inline int pg_frame_is_here(const uint8_t *at, size_t n, uint32_t *size)
{
	/* a length below four becomes a very large size */
	*size = pg_u32_at(at + 1) - PG_LENGTH_WORD;
	return *size <= n - PG_HEADER;
}

/*
 * A cursor over a body. A read past the end sets `bad` and returns 0, NULL or ""; the caller checks
 * `bad` once.
 */
struct pg_cursor {
	const uint8_t *at, *end;
	int bad;
};
static inline struct pg_cursor pg_cursor_of(const uint8_t *body, size_t size)
{
	return (struct pg_cursor){ body, body + size, 0 };
}
/* Returns a string with its NUL inside the body. */
const char *pg_read_string(struct pg_cursor *c);
/* Returns `size` bytes inside the body. */
const uint8_t *pg_read_bytes(struct pg_cursor *c, size_t size);
static inline uint8_t pg_read_u8(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 1);

	return p ? p[0] : 0;
}
static inline uint16_t pg_read_u16(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 2);

	return p ? (uint16_t)(p[0] << 8 | p[1]) : 0;
}
static inline uint32_t pg_read_u32(struct pg_cursor *c)
{
	const uint8_t *p = pg_read_bytes(c, 4);

	return p ? pg_u32_at(p) : 0;
}

#endif
