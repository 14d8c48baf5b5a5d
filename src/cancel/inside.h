#ifndef CANCEL_INSIDE_H
#define CANCEL_INSIDE_H

#include "cancel/cancel.h"

/* Functions between the files of this room. */

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
