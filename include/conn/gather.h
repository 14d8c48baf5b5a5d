#ifndef CONN_GATHER_H
#define CONN_GATHER_H

#include "conn/world.h"
#include "pg/frame.h"

#include <string.h>

/*
 * Access to the read buffer for both directions of the relay: see gather.c.
 */
#define GATHER_PIECES 64	/* runs gathered for one writev */
#define GATHER_SCRATCH 1024	/* bytes of inserted pieces between two flushes */

/* Runs of the read buffer that are sent to one stream, with small pieces that pgweir inserts
   between them. */
struct gather {
	struct stream *to;
	int count;			/* number of `pieces` */
	bool broken;			/* a write has failed, and nothing more is sent */
	const uint8_t *end;		/* of the last run; NULL: no run */
	size_t bytes;			/* added since gather_begin() */
	size_t scratch_used;		/* bytes of `scratch` */
	struct iovec pieces[GATHER_PIECES];	/* runs and inserted pieces, in order */
	uint8_t scratch[GATHER_SCRATCH];	/* the inserted pieces */
};

/* Initialises the members that need it. */
static inline void gather_begin(struct gather *g, struct stream *to)
{
	g->to = to;
	g->count = 0;
	g->end = NULL;
	g->broken = false;
	g->bytes = g->scratch_used = 0;
}

/* Sends the gathered runs. */
void gather_flush(struct gather *gather);
/* Adds bytes as a new run; part of gather_add(). */
void gather_begin_run(struct gather *gather, const uint8_t *from, size_t size);
/* gather_add() for an empty gather. */
static inline void gather_first(struct gather *g, const uint8_t *from, size_t size)
{
	g->pieces[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)from, .iov_len = size };
	g->count = 1;
	g->bytes = size;
	g->end = from + size;
}
/* Adds bytes that do not change until the next flush. Usually they continue the last run. */
static inline void gather_add(struct gather *g, const uint8_t *from, size_t size)
{
	g->bytes += size;
	if (g->end == from)
		g->pieces[g->count - 1].iov_len += size;
	else
		gather_begin_run(g, from, size);
	g->end = from + size;
}
/* Adds `size` bytes, at most GATHER_SCRATCH, of the scratch memory, and returns their address. The
   caller writes them at once. */
uint8_t *gather_place(struct gather *gather, size_t size);
/* Adds a copy of at most GATHER_SCRATCH bytes. */
static inline void gather_copy(struct gather *g, const void *from, size_t size)
{
	memcpy(gather_place(g, size), from, size);
}
/* Adds or drops the bytes of the current message of the peer among the n bytes at `at`. Returns
   their number. */
static inline size_t gather_pass(struct gather *g, struct peer *peer, const uint8_t *at, size_t n)
{
	size_t size = n < peer->passing ? n : peer->passing;

	if (!peer->passing_dropped)
		gather_add(g, at, size);
	peer->passing -= (uint32_t)size;
	return size;
}

/* The first `size` bytes of the message are replaced: the rest passes. */
static inline void peer_pass_some(struct peer *peer, size_t size)
{
	peer->passing -= (uint32_t)size;
}
/* The rest of the message has no receiver any more. */
static inline void peer_drop_rest(struct peer *peer)
{
	peer->passing_dropped = peer->passing > 0;
}
/* Forwards or drops this message, header included, without looking at its body. */
static inline void peer_begin_frame(struct peer *peer, const struct pg_frame *frame, bool dropped)
{
	peer->passing = frame->size + PG_HEADER;
	peer->passing_dropped = dropped;
}

#endif
