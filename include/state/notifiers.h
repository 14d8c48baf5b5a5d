#ifndef STATE_NOTIFIERS_H
#define STATE_NOTIFIERS_H

#include "conn/world.h"

/* Servers whose clients have sent notifications: see notifiers.c. */

/* Returns the process ID that clients of `to` know for server process `pid`: the ID that the
   present or last client of the process was told; `pid` if the process belongs to no server
   connection of pgweir, or has had no client. */
uint32_t notify_sender(const struct server *to, uint32_t pid);
/* If servers wait for listeners (world->notify.is_wait_due): sends each of these listeners a query,
   and releases the servers whose notifications have arrived. Called once a turn, and after each
   answer of a listener. */
void notifiers_continue(struct world *world);

#endif
