#ifndef CANCEL_PREDECESSORS_H
#define CANCEL_PREDECESSORS_H

#include "cancel/cancel.h"
#include "net/records.h"
#include "pg/startup.h"

/* Processes that this process has replaced, or the process that has replaced it, and the cancel
   requests between them: see predecessors.c. */

/* The type of the record that has a cancel request and the descriptor of its connection. */
#define PREDECESSOR_CANCEL 'c'

/* Sends a cancel request with an unknown key to all predecessors, with its connection; the
   canceller ends. False: there is no predecessor. */
bool predecessors_forward(struct client *canceller, const struct pg_startup *request);
/* Forgets all predecessors and the successor. */
void predecessors_free(struct world *world);
/* Sends the channel of each predecessor as a record of this type. */
bool predecessors_send(const struct cancels *cancels, struct records *to, uint8_t type,
		       int patience);
/* Takes ownership of the channel. False: no memory. */
bool predecessors_add(struct world *world, struct records **channel);
/* Makes this process a predecessor of the process at the other end of the channel. False: no
   memory; the channel is closed. */
bool predecessors_follow(struct world *world, struct records **successor);

#endif
