#ifndef CONN_GATHER_H
#define CONN_GATHER_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * Access to the read buffer for both directions of the relay: see gather.c.
 */
#define GATHER_PIECES 64	/* runs gathered for one writev */
#define GATHER_SCRATCH 1024	/* room for bytes that the pooler inserts */

/* Runs of the read buffer that go to one stream unchanged, with small pieces that the pooler inserts between them. */
struct gather {
	struct stream *to;
	int count;
	bool broken;
	const uint8_t *end;		/* of the last run; NULL: there is none */
	size_t bytes, scratch_used;
	struct iovec pieces[GATHER_PIECES];
	uint8_t scratch[GATHER_SCRATCH];
};

/* An empty one; not all of it is worth being zeroed. */
static inline void gather_begin(struct gather *g, struct stream *to)
{
	g->to = to;
	g->count = 0;
	g->end = NULL;
	g->broken = false;
	g->bytes = g->scratch_used = 0;
}

/* Sends the gathered runs; a stream that fails is `broken`, and gets nothing more. */
void gather_flush(struct gather *gather);
void gather_begin_run(struct gather *gather, const uint8_t *from, size_t size);
/* The first run of an empty one. */
static inline void gather_first(struct gather *g, const uint8_t *from, size_t size)
{
	g->pieces[0] = (struct iovec){ .iov_base = (void *)(uintptr_t)from, .iov_len = size };
	g->count = 1;
	g->bytes = size;
	g->end = from + size;
}
/* Adds bytes that stay where they are until the next flush: mostly the run goes on. */
static inline void gather_add(struct gather *g, const uint8_t *from, size_t size)
{
	g->bytes += size;
	if (g->end == from)
		g->pieces[g->count - 1].iov_len += size;
	else
		gather_begin_run(g, from, size);
	g->end = from + size;
}
/* Adds a place of at most GATHER_SCRATCH bytes, which the caller fills before it does anything else. */
uint8_t *gather_place(struct gather *gather, size_t size);
/* Adds a copy of at most GATHER_SCRATCH bytes. */
void gather_copy(struct gather *gather, const void *from, size_t size);
/* Handles the part of the n bytes at `at` that belongs to the current frame: adds it to the run, or drops it. Returns how many. */
static inline size_t gather_pass(struct gather *g, struct peer *peer, const uint8_t *at, size_t n)
{
	size_t size = n < peer->passing ? n : peer->passing;

	if (!peer->passing_dropped)
		gather_add(g, at, size);
	peer->passing -= (uint32_t)size;
	return size;
}

/* This frame passes from here on, header included. */
static inline void peer_begin_frame(struct peer *peer, const struct pg_frame *frame, bool dropped)
{
	peer->passing = frame->size + PG_HEADER;
	peer->passing_dropped = dropped;
}

/* Holds the unused bytes for the peer, which must not hold any yet. False: no memory. */
bool peer_hold_rest(struct peer *peer, const uint8_t *rest, size_t size);
static inline bool peer_hold(struct peer *peer, const uint8_t *rest, size_t size)
{
	return size == 0 || peer_hold_rest(peer, rest, size);
}
/* As peer_hold, for bytes that the peer held before: takes `all` without its first `used` bytes. `first`: that may begin with whole
   messages. */
bool peer_hold_rest_of(struct peer *peer, struct bytes *all, size_t used, bool first);
/* Moves the held bytes to the front of the read buffer; returns their size. */
size_t peer_unhold_some(struct peer *peer);
static inline size_t peer_unhold(struct peer *peer)
{
	return peer->held.data ? peer_unhold_some(peer) : 0;
}

#endif
