#ifndef CONN_PEER_H
#define CONN_PEER_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/list.h"
#include "net/address.h"
#include "net/stream.h"
#include "pool/close_reason.h"

/*
 * Shared by client and server connections: a stream of frames, and the position in the current frame. `passing` bytes of the frame under
 * way still come and go through without being looked at; `held` are bytes that came but cannot be acted upon yet: the beginning of a frame,
 * or a client's request while it waits for a server, or messages for which this turn had no time left. An idle peer holds nothing.
 *
 * The end of a connection comes after all bytes sent on it: a peer with held_first is on world->again, or waits for something that puts it
 * there, and its socket is not read before that, because the socket may have only the end.
 */
struct world;

enum peer_fate {
#define PEER_FATE(id, moves) PEER_##id,
#include "tbl/peer_fate.tbl"
#undef PEER_FATE
	PEER_FATES
};

/* What other connections have for a client; it acts in its own turn (link_posted, cancel_refuse_waiting). */
enum peer_post {
	POST_READY = 1,			/* its ReadyForQuery, which waited for the listener, can be sent */
	POST_LINK = 2,			/* its channels may move to the listener */
	POST_REFUSE = 4			/* a cancel request for it, while it waits for a server */
};

struct peer {
	struct stream stream;
	struct world *world;
	struct list node;		/* world->clients or world->servers; world->ending */
	struct list again;		/* world->again: has input left that no event will announce */
	uint64_t id;			/* counts up over clients and servers */
	bool is_client;			/* which of the two it is embedded in */
	uint32_t passing;		/* bytes of the current frame still to come */
	bool passing_dropped;		/* ... and they go nowhere */
	uint8_t posted;			/* POST_ bits: what others have for it (peer_post) */
	uint8_t blocked;		/* FLOW_ bits: why the socket is not read (conn/flow.h) */
	bool held_first;		/* `held` may begin with whole messages: they are dealt with before the socket is read */
	uint8_t fate;			/* enum peer_fate; set by peer_become */
	uint8_t end_reason;		/* enum close_reason */
	uint8_t ended_in;		/* pooled.state when it was ended */
	struct bytes held;
	struct brief_address remote;	/* the local one is asked of the descriptor where it is shown */
	usec_t connected_at;		/* wall clock */
	usec_t request_at;		/* wall clock: last request (client), or lending (server) */
	char *end_detail;		/* fills the %s of the reason's text; owned; NULL: nothing */
};

/* The only writer of peer->fate: asserts that the table allows the move. */
void peer_become(struct peer *peer, enum peer_fate fate);
/* The connection, or the other end of its link, is ending: its events are ignored until the reap. */
static inline bool peer_is_stopped(const struct peer *peer) { return peer->fate != PEER_STAYS; }
/* The reap closes it. */
static inline bool peer_is_ending(const struct peer *peer) { return peer->fate > PEER_STOPPED; }
/* Records that the connection ends, and why, and moves it to world->ending. `detail` is copied. */
void peer_end(struct peer *peer, enum peer_fate fate, enum close_reason why, const char *detail);

#endif
