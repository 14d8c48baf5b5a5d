#ifndef CANCEL_CANCEL_H
#define CANCEL_CANCEL_H

#include "conn/world.h"
#include "pg/startup.h"

/* Cancel requests: see cancel.c. */

struct peer_line;

/* What cancel requests need of the whole process. */
struct cancels {
	struct client *by_pid;		/* uthash: clients by the process number in their key */
	struct peer_line *lines;	/* uthash: requests that go on to other poolers; see peers.c */
	struct list predecessors;	/* processes before this one that still have clients; see predecessors.c */
};
/* NULL: no memory. */
struct cancels *cancels_new(void);
/* No client is left. */
void cancels_free(struct cancels **cancels);

/* Gives the client a key that a CancelRequest can name it by, with this process number; 0: one is drawn. False: no memory or no randomness. */
bool cancel_make_key(struct client *client, uint32_t pid);
/* Makes its key known, which no other client has. False: no memory. */
bool cancel_enlist(struct client *client);
/* The client with this key, a process number and a secret of `size` bytes; NULL: none. */
struct client *cancel_find(const struct world *world, uint32_t pid, const uint8_t *key, size_t size);
/* The connection `canceller` brought a CancelRequest. */
void cancel_request(struct client *canceller, const struct pg_startup *request);
/* A canceller's socket has something: it is passed over. */
void cancel_read(struct client *canceller);
/* The connection that carries a cancel request has something to read. */
void cancel_server_read(struct server *carrier);
/* Its client has waited for the connection as long as cancel_wait_timeout allows: both end. */
void cancel_waited_too_long(struct server *carrier);
/* It has taken too long: its target cannot be trusted any more and is closed when it is released. */
void cancel_timed_out(struct server *carrier);
/* pool's verdict: open a connection for this request. */
void cancel_dial(struct client *canceller);
/* The parameters of this client's server are set: cancel requests that waited for it may go. */
void cancel_may_go(struct client *target);
/* Everything the server owed has come: requests that are not under way yet have nothing to cancel. */
void cancel_query_over(struct server *target);
/* A client or a server ends. */
void cancel_forget_client(struct client *client);
void cancel_forget_server(struct server *server);

#endif
