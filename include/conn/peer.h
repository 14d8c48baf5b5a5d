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
 * Received bytes are in the read buffer of the loop while they are handled. Bytes that cannot be
 * handled yet are in `held`: the beginning of a message, requests of a client in the queue, or
 * messages that exceed the share of this turn. The next `passing` received bytes are the rest of a
 * message, and are forwarded (or dropped) without being looked at. Example: a DataRow of 10 MB is
 * forwarded in many reads, and only its header is examined. Bytes to be sent are in stream.out if
 * the socket is full. An idle connection has none.
 *
 * The end of a connection is handled after all bytes that came before it: while held_first is set,
 * the socket is not read, and the connection is on world->peers.again or an awaited event will put
 * it there.
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
	/* the client is to be drained, and its transaction has ended */
	POST_LEAVE = 8
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
	/* `held` may begin with complete messages: they are handled before the socket is read.
	   Written by peer_hold_first(), peer_hold_last() and peer_hold_rest_of() */
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

/* The common part of a new connection, which is on no list yet. */
static inline void peer_init(struct peer *peer, struct world *world, bool is_client)
{
	peer->world = world;
	peer->is_client = is_client;
	list_init(&peer->again);
	list_init(&peer->node);
}
/* Puts the connection on the list of its kind: world->peers.clients or world->peers.servers. */
void peer_enter(struct peer *peer);
/* Gives the connection the next id. */
void peer_number(struct peer *peer);
/* The connection begins now: connected_at and request_at. */
void peer_connected(struct peer *peer);
/* A request of the client begins, or the server is assigned; `now_wall` is world->now_wall. */
static inline void peer_requested(struct peer *peer, usec_t now_wall)
{
	peer->request_at = now_wall;
}
/* The connection is not read in this turn without an event. */
static inline void peer_forget_again(struct peer *peer) { list_remove(&peer->again); }
/* The connection is freed: it leaves its lists, and frees all that it owns but the stream. */
void peer_free(struct peer *peer);
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

/* Sorts a list of the world by id. Without memory the list stays unsorted, which only affects
   SHOW. */
void peers_sort(struct list *list);

/* ---- flow: whether the socket is read ---- */

/* The part of flow_unblock() for a peer with one of the bits. */
void flow_unblock_set(struct peer *peer, unsigned bits);
/* Clears bits. If no bit is left, the socket is read again, and on_readable is called for input
   that TLS has decrypted already. A stopped connection is not read. */
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

/* The held bytes, if there are any, are handled before the socket is read. */
static inline void peer_hold_first(struct peer *peer)
{
	peer->held_first = bytes_size(&peer->held) > 0;
}
/* The held bytes are the beginning of a message: the rest is read from the socket. */
static inline void peer_hold_last(struct peer *peer) { peer->held_first = false; }
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
/* peer_unhold() for bytes that may contain a secret: the memory that held them is wiped. */
size_t peer_unhold_wiped(struct peer *peer);
/* Appends bytes to the held ones. False: no memory, and held.failed is set. */
bool peer_hold_more(struct peer *peer, const uint8_t *more, size_t size);
/* Takes the held bytes for a walk in place; peer_hold_rest_of() or peer_hold_all() takes the rest
   back. */
static inline struct bytes peer_take_held(struct peer *peer)
{
	struct bytes all = peer->held;

	peer->held = (struct bytes)BYTES_EMPTY;
	return all;
}
/* Holds `all`, which the peer owns from now on, instead of the bytes that it holds. */
void peer_hold_all(struct peer *peer, struct bytes all);
/* Returns a place after the held bytes for `size` bytes, which are then read into it, and counted
   by peer_hold_read(). NULL: no memory. */
static inline uint8_t *peer_hold_reserve(struct peer *peer, size_t size)
{
	return bytes_reserve(&peer->held, size);
}
static inline void peer_hold_read(struct peer *peer, size_t size) { peer->held.end += size; }
/* The first `used` held bytes were handled; or all of them, and may contain a secret. */
static inline void peer_held_handled(struct peer *peer, size_t used)
{
	bytes_consume(&peer->held, used);
}
static inline void peer_wipe_held(struct peer *peer) { bytes_wipe(&peer->held); }

#endif
