#ifndef SESSION_GATHER_H
#define SESSION_GATHER_H

#include "pg/frame.h"
#include "session/world.h"

/*
 * What both directions of the relay do with the read buffer: see gather.c.
 */
#define GATHER_PIECES 16	/* runs gathered for one writev */

/* Runs of the read buffer that go to one stream unchanged. */
struct gather {
	struct stream *to;
	struct iovec pieces[GATHER_PIECES];
	int count;
	size_t bytes;
	bool broken;
};

/* Sends what was gathered; a stream that does not take it is `broken`, and gets nothing more. */
void gather_flush(struct gather *gather);
/* Of the n bytes at `at`, those that belong to the frame under way: part of the run, or dropped. Returns how many. */
size_t gather_pass(struct gather *gather, struct peer *peer, const uint8_t *at, size_t n);

/* This frame passes from here on, header included. */
static inline void peer_begin_frame(struct peer *peer, const struct pg_frame *frame, bool dropped)
{
	peer->passing = frame->size + PG_HEADER;
	peer->passing_dropped = dropped;
}

/* What could not be used stays with the peer, which holds nothing yet. False: no memory. */
bool peer_hold(struct peer *peer, const uint8_t *rest, size_t size);
/* Moves what is held to the front of the read buffer; its size. */
size_t peer_unhold(struct peer *peer);

#endif
