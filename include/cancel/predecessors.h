#ifndef CANCEL_PREDECESSORS_H
#define CANCEL_PREDECESSORS_H

#include "cancel/cancel.h"
#include "net/records.h"
#include "pg/startup.h"

/* Processes that this one has replaced, or that has replaced this one, and cancel requests between them: see predecessors.c. */

/* The type of the record that carries a cancel request, with the descriptor of its connection. */
#define PREDECESSOR_CANCEL 'c'

/* A cancel request with a key that is not known here goes to all of them, with its connection; the client that brought it is gone then.
   False: there is none. */
bool predecessors_forward(struct client *canceller, const struct pg_startup *request);
void predecessors_free(struct cancels *cancels);
/* Sends the channel to each of them as a record of this type. */
bool predecessors_send(const struct cancels *cancels, struct records *to, uint8_t type, int patience);
/* Takes the channel over. False: no memory. */
bool predecessors_add(struct world *world, struct records **channel);
/* This process is a predecessor from now on. False: no memory to listen to the channel, which is closed. */
bool predecessors_follow(struct world *world, struct records **successor);
void successor_free(struct successor **successor);

#endif
