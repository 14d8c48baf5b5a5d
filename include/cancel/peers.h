#ifndef CANCEL_PEERS_H
#define CANCEL_PEERS_H

#include "cancel/cancel.h"
#include "pg/startup.h"

/* Other poolers of the group ([peers]): see peers.c. */

/* The first two bytes of the secret of a cancel key, if peer_id is set: 14 bits peer_id, 2 bits for the number of hops left. */
#define PEER_KEY_HOPS 0x03		/* in the second byte */

/* Forwards a CancelRequest with an unknown key to the peer that made the key. The canceller is in WAITING_CANCEL afterwards, or
   has ended, for example if the queue of the peer is full. False: the key names no known peer, has no hops left, or no memory. */
bool peers_forward(struct client *canceller, const struct pg_startup *request);
/* For SHOW PEER_POOLS: requests in progress to this peer. */
struct peer_count {
	int queued, connecting, handed_over;	/* each has a client and, except in the queue, a connection or an attempt to connect */
};
struct peer_count peers_count(const struct cancels *cancels, int id);
/* Called for a canceller (peer_come_again): begins its request if it waits in the queue and there is room. The canceller may end. */
void peers_go_on(struct client *canceller);
/* Called about ten times a second: tries the next address of peers that do not answer, and begins requests that have room.
   Cancellers may end. */
void peers_tick(struct world *world);
/* The canceller ends. */
void peers_forget(struct client *canceller);
/* Frees the queues; no request may be in progress. */
void peers_free(struct cancels *cancels);
/* Asserts that the counts equal the calls. */
void peers_check(const struct world *world);

#endif
