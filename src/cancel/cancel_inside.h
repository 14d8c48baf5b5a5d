#ifndef CANCEL_CANCEL_INSIDE_H
#define CANCEL_CANCEL_INSIDE_H

#include "cancel/cancel.h"

/* What the files of this room share. */

/* A cancel request in progress: client->cancel_request. Made by cancel_request(), and freed when
   its connection ends. */
struct cancel_request {
	struct server *target;		/* the server that executes the query; NULL: none */
	/* the connection that sends the request to PostgreSQL; NULL: none */
	struct server *carrier;
	/* the request to another process (peers.c); NULL: none */
	struct peer_call *call;
};

/* ---- peers.c ---- */

/* Forwards a CancelRequest with an unknown key to the peer that made the key. The canceller is in
   WAITING_CANCEL afterwards, or has ended, for example if the queue of the peer is full. False: the
   key names no known peer, has no hops left, or no memory. */
bool peers_forward(struct client *canceller, const struct pg_startup *request);
/* Begins the request of a canceller if it waits in the queue and there is room. The canceller may
   end. */
void peers_go_on(struct client *canceller);
/* The canceller ends. */
void peers_forget(struct client *canceller);
/* Frees the queues, in which no request waits. */
void peers_free(struct cancels *cancels);

/* ---- cancel_key.c ---- */

/* The client ends: no request finds it any more. */
void cancel_key_forget(struct client *client);

#endif
