/*
 * The queue of a peer: cancel requests that wait for the peer, and requests in progress (peers.h).
 */
#ifndef CANCEL_PEER_LINE_H
#define CANCEL_PEER_LINE_H

#include "auth/auth.h"
#include "base/hash.h"
#include "cancel/peers.h"
#include "verify/queue.h"

/* The requests for one peer. */
struct peer_line {
	int id;
	struct verify_queue waiting;
	struct list begun;
	struct peer_count count;
	bool is_told;			/* the log has reported that the queue is full; reset when no request waits */
	UT_hash_handle hh;
};

enum call_phase { CALL_WAITS, CALL_CONNECTS, CALL_HANDED_OVER };

/* A request that waits for a peer, or is in progress. */
struct peer_call {
	struct verify_place place;	/* in the queue, while it waits */
	struct list node;		/* in line->begun, after it has begun */
	struct peer_line *line;
	enum call_phase phase;
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
	struct address one, *addresses;	/* addresses to try: &one, or allocated */
	int address_count, next_address;
	usec_t attempt_ends;		/* end of the current attempt to connect; 0: unlimited */
	uint16_t port;
	uint32_t pid;
	size_t key_size;
	uint8_t key[CANCEL_KEY_LONG];
};

/* Returns the queue for the peer with this id; creates it if needed. NULL: no memory. */
struct peer_line *peer_line_get(struct cancels *all, int id);

bool peer_line_is_empty(const struct peer_line *line);

/* The queue must be empty. */
void peer_line_free(struct cancels *all, struct peer_line *line);

/* Whether another request to the peer may begin (pool_size). */
bool peer_line_has_room(const struct world *w, const struct peer_line *line, const struct conf_peer *peer);

/* Makes room for a request from the canceller's address, if necessary by ending a request from another address. False: the
   queue is full. */
bool peer_line_make_room(const struct world *w, struct peer_line *line, const struct conf_peer *peer, const struct client *canceller);

/* Returns the request that begins next, which stays in the queue. NULL: no request waits. */
struct peer_call *peer_line_next(struct peer_line *line);

/* Adds the call, which has a canceller, to the queue. False: no memory. */
bool peer_call_join(struct peer_call *call, struct peer_line *line);

void peer_call_leave(struct peer_call *call);

/* Moves the call to a later phase. */
void peer_call_become(struct peer_call *call, enum call_phase phase);

#endif
