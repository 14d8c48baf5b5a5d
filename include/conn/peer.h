#ifndef CONN_PEER_H
#define CONN_PEER_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/inline.h"
#include "base/list.h"
#include "net/address.h"
#include "net/stream.h"
#include "pool/close_reason.h"

/*
 * The common part of client and server connections: the socket, the position in the current
 * message, the reasons why the socket is not read, and the mark that the connection ends.
 *
 * Received bytes are in the read buffer of the loop while they are handled, or in `held` if they
 * cannot be handled yet: the beginning of a message, requests of a client that waits for a server,
 * or messages that exceed the share of this turn. The next `passing` received bytes belong to a
 * message that is forwarded (or dropped) without being looked at. Bytes to be sent are in
 * stream.out if the socket is full. An idle connection has none.
 *
 * The end of a connection is handled after all bytes that came before it: while held_first is set,
 * the socket is not read, and the connection is on world->peers.again or waits for an event that
 * puts it there.
 */
struct world;

enum peer_fate {
#define PEER_FATE(id, moves) PEER_##id,
#include "tbl/peer_fate.tbl"
#undef PEER_FATE
	PEER_FATES
};

/* Requests of other connections to a client, which handles them in its own turn: see
   peer_post(). */
enum peer_post {
	POST_READY = 1,			/* send the ReadyForQuery that waited for the listener */
	POST_LINK = 2,			/* the channels of the client may move to the listener */
	/* a cancel request has arrived while the client waits for a server */
	POST_REFUSE = 4,
	POST_LEAVE = 8			/* a transaction of a client that is drained has ended */
};

/* Reasons why the socket of a connection is not read. */
enum flow_block {
	/* bytes for the other side of the link, or without a link for the client itself, are
	   unsent */
	FLOW_ROOM = 1,
	/* the next message of the client must wait for earlier answers of the server */
	FLOW_ANSWERS = 2,
	/* the connection holds the maximum number of bytes, and waits for an event */
	FLOW_HELD = 4,
	/* server: a ReadyForQuery is withheld until the listener has answered (state/notify.c) */
	FLOW_READY = 8,
	FLOW_SUSPENDED = 16,		/* SUSPEND */
	/* client: its TLS handshake waits for its turn (login/handshake.c) */
	FLOW_TLS_TURN = 32,
	FLOW_KEY = 64,			/* server: a SCRAM key is being derived */
	FLOW_EOF = 128			/* cancel request: the client has closed its side */
};

struct peer {
	struct stream stream;		/* socket, TLS, unsent bytes */
	struct world *world;
	/* in world->peers.clients or world->peers.servers; from peer_end() on in
	   world->peers.ending */
	struct list node;
	/* in world->peers.again: input to be handled that no event announces */
	struct list again;
	/* shown in SHOW and the log; unique among clients and servers, ascending */
	uint64_t id;
	bool is_client;			/* embedded in struct client; false: in struct server */
	uint32_t passing;		/* bytes of the current message that are still to come */
	bool passing_dropped;		/* ... and are dropped instead of forwarded */
	/* POST_ bits; set by peer_post(), cleared by core/dispatch.c */
	uint8_t posted;
	/* FLOW_ bits; the socket is read exactly if it is 0. Written by flow_block() and
	   flow_unblock() */
	uint8_t blocked;
	/* `held` may begin with complete messages: they are handled before the socket is read */
	bool held_first;
	uint8_t fate;			/* enum peer_fate; written by peer_become() */
	uint8_t end_reason;		/* enum close_reason; written by peer_end() */
	/* pooled.state at the call of client_end() or server_end() */
	uint8_t ended_in;
	struct bytes held;		/* received and not handled yet */
	/* the local address is read from the descriptor where it is shown */
	struct brief_address remote;
	usec_t connected_at;		/* wall clock */
	/* wall clock: last request of the client, or last assignment of the server */
	usec_t request_at;
	/* replaces %s in the text of end_reason; owned; NULL: none */
	char *end_detail;
};

/* The only writer of peer->fate. Asserts that tbl/peer_fate.tbl allows the move. */
void peer_become(struct peer *peer, enum peer_fate fate);
/* Whether the connection, or the connection that it is linked to, is ending: its events are ignored
   until the reap. */
static inline bool peer_is_stopped(const struct peer *peer) { return peer->fate != PEER_STAYS; }
/* Whether the reap will close the connection. */
static inline bool peer_is_ending(const struct peer *peer) { return peer->fate > PEER_STOPPED; }
/* Records the end of the connection with its reason, and moves the connection to
   world->peers.ending. Copies `detail`, which may be NULL. */
void peer_end(struct peer *peer, enum peer_fate fate, enum close_reason why, const char *detail);

/* ---- flow: whether the socket is read ---- */

/* flow_unblock() for a peer that has one of the bits. */
void flow_unblock_set(struct peer *peer, unsigned bits);
/* Clears bits. If no bit is left, the socket is read again, and on_readable is called for input
   that TLS has decrypted already. Does not read a connection that is stopped. */
static ALWAYS_INLINE void flow_unblock(struct peer *peer, unsigned bits)
{
	if (peer->blocked & bits)
		flow_unblock_set(peer, bits);
}
/* Sets bits: the socket is not read from now on. */
static inline void flow_block(struct peer *peer, unsigned bits)
{
	peer->blocked |= (uint8_t)bits;
	stream_set_reading(&peer->stream, false);
}

/* ---- held bytes ---- */

/* Copies bytes to `held`, which must be empty. False: no memory. */
bool peer_hold_rest(struct peer *peer, const uint8_t *rest, size_t size);
static inline bool peer_hold(struct peer *peer, const uint8_t *rest, size_t size)
{
	return size == 0 || peer_hold_rest(peer, rest, size);
}
/* Moves *all, the previous `held`, back without its first `used` bytes. `first` becomes held_first.
   False: no memory. */
bool peer_hold_rest_of(struct peer *peer, struct bytes *all, size_t used, bool first);
/* Moves the held bytes to the front of the read buffer. Returns their number. */
size_t peer_unhold_some(struct peer *peer);
static inline size_t peer_unhold(struct peer *peer)
{
	return peer->held.data ? peer_unhold_some(peer) : 0;
}

#endif
