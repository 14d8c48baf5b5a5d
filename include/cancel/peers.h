#ifndef CANCEL_PEERS_H
#define CANCEL_PEERS_H

#include "cancel/cancel.h"
#include "pg/startup.h"

/* Other poolers of the group ([peers]): see peers.c. */

/* A CancelRequest with a key that is none of ours: when it belongs to a peer, hands it on; the canceller is then in
   WAITING_CANCEL, or has ended, as when too many wait for that peer already. False: it belongs to no known peer, has come
   too far, or there is no memory for it. */
bool peers_forward(struct client *canceller, const struct pg_startup *request);
/* For SHOW PEER_POOLS: requests under way to this peer. */
struct peer_count {
	int queued, connecting, handed_over;	/* each has a client; but for those in the queue, also a connection or its beginning */
};
struct peer_count peers_count(const struct cancels *cancels, int id);
/* A canceller that was called (peer_come_again), or any other: begins, if it is one that waits for others to end, and may. The
   canceller may end. */
void peers_go_on(struct client *canceller);
/* About ten times a second: an address of a peer that does not answer is given up for the next, and requests that have found room begin.
   Cancellers may end. */
void peers_tick(struct world *world);
/* The canceller ends. */
void peers_forget(struct client *canceller);
/* What is kept for each peer; no request is under way. */
void peers_free(struct cancels *cancels);
/* The counts are those of the calls: ASSERTs. */
void peers_check(const struct world *world);

#endif
