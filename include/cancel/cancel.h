#ifndef CANCEL_CANCEL_H
#define CANCEL_CANCEL_H

#include "conn/world.h"
#include "pg/startup.h"

/* Cancel requests: see cancel.c. */

struct peer_line;

/* State of cancel requests for the whole process. Initialise with zeros and list_init(). */
struct cancels {
	/* uthash: clients by the process number of their cancel key */
	struct client *by_pid;
	/* uthash: requests for other poolers of the group; see peers.c */
	struct peer_line *lines;
	/* processes that were replaced and still have clients; see predecessors.c */
	struct list predecessors;
};
/* There must be no clients. */
void cancels_free(struct cancels **cancels);

/* ---- keys: cancel_key.c ---- */

/* Gives the client a cancel key with this process number; 0: a random number. False: no memory or
   no randomness. */
bool cancel_make_key(struct client *client, uint32_t pid);
/* The key in the record of a handover (handover/handover.c). cancel_key_unpack() sets in->bad if
   another client has the key, or without memory. */
void cancel_key_pack(struct bytes *out, const struct client *client);
void cancel_key_unpack(struct unpack *in, struct client *client);
/* Returns the client with this key: a process number and a secret of `size` bytes. NULL: no such
   client. */
struct client *cancel_find(const struct world *world, uint32_t pid, const uint8_t *key,
			   size_t size);
/* Returns the client with this process number, which is above SERVER_PID_MOST and therefore unique.
   NULL: no such client. */
struct client *cancel_find_pid(const struct world *world, uint32_t pid);

/* ---- requests: cancel.c ---- */

/* Handles a CancelRequest that arrived on the connection `canceller`. */
void cancel_request(struct client *canceller, const struct pg_startup *request);
/* POST_REFUSE: if the client still waits for a server, it gets the error that PostgreSQL would
   send, and its request is discarded. False: it does not wait. */
bool cancel_refuse_waiting(struct client *client);
/* Returns the server whose query the request of this connection cancels. NULL: none, or the
   connection is no cancel request. */
struct server *cancel_target_of(const struct client *canceller);
/* Reads and discards the input of a canceller. */
void cancel_read(struct client *canceller);
/* struct pool_ops: opens a connection for this request. */
void cancel_dial(struct pool *pool, struct pool_client *request);
/* SERVER_FINISHING: sends a cancel request of pgweir's own. False: not possible now, because
   another request is on its way, there are as many as pool_size allows, no memory, or the server
   has no key. */
bool cancel_abandoned(struct server *target);
/* The parameters of this client's server are set: cancel requests that waited for that can
   continue. */
void cancel_release_waiting(struct client *target);
/* The server has answered everything: requests without a connection yet have nothing to cancel. */
void cancel_query_over(struct server *target);
/* A client or a server ends: removes all references to it. */
void cancel_forget_client(struct client *client);
void cancel_forget_server(struct server *server);

/* ---- other poolers of the group ([peers]): peers.c ---- */

/* The first two bytes of the secret of a cancel key, if peer_id is set: 14 bits peer_id, 2 bits for
   the number of hops left. */
#define PEER_KEY_HOPS 0x03		/* in the second byte */

/* For SHOW PEER_POOLS: requests in progress to this peer. */
struct peer_count {
	/* each has a client and, except in the queue, a connection or an attempt to connect */
	int queued, connecting, handed_over;
};
struct peer_count peers_count(const struct cancels *cancels, int id);
/* Called about ten times a second: tries the next address of peers that do not answer, and begins
   requests that have room. Cancellers may end. */
void peers_tick(struct world *world);
/* Asserts that the counts equal the calls. */
void peers_check(const struct world *world);

#endif
