/*
 * The line of a peer: the cancel requests that wait for it, and those that are on their way to it (peers.h).
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
	bool is_told;			/* the log has it that the line is full; until none waits */
	UT_hash_handle hh;
};

enum call_phase { CALL_WAITS, CALL_CONNECTS, CALL_HANDED_OVER };

/* A request on its way to a peer, or that waits to be. */
struct peer_call {
	struct verify_place place;	/* in its line, while it waits */
	struct list node;		/* in its line, when it has begun */
	struct peer_line *line;
	enum call_phase phase;
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
	struct address one, *addresses;	/* to be tried; they are &one, or owned */
	int address_count, next_address;
	usec_t attempt_ends;		/* the address that is being tried has time until then; 0: as long as there is any */
	uint16_t port;
	uint32_t pid;
	size_t key_size;
	uint8_t key[CANCEL_KEY_LONG];
};

/* The line of the peer with this id, which begins if there is none. NULL: no memory. */
struct peer_line *peer_line_get(struct cancels *all, int id);

bool peer_line_is_empty(const struct peer_line *line);

/* Of an empty line. */
void peer_line_free(struct cancels *all, struct peer_line *line);

/* One more may be on its way to the peer (pool_size). */
bool peer_line_has_room(const struct world *w, const struct peer_line *line, const struct conf_peer *peer);

/* The line takes one more request of the canceller's address. A request of another address may end for that. */
bool peer_line_has_place(const struct world *w, struct peer_line *line, const struct conf_peer *peer, const struct client *canceller);

/* The request that begins next, in its place of the queue still. NULL: none waits. */
struct peer_call *peer_line_next(struct peer_line *line);

/* The call, which has a canceller, waits in the line. False: no memory. */
bool peer_call_join(struct peer_call *call, struct peer_line *line);

void peer_call_leave(struct peer_call *call);

/* A later phase. */
void peer_call_become(struct peer_call *call, enum call_phase phase);

#endif
