#ifndef STATE_NOTIFIER_H
#define STATE_NOTIFIER_H

#include "conn/world.h"

/* Process ids in notifications: see notifier.c. */

/* What a client of `to` is told as the process that has notified, where the server says `pid`: the process id that the client was told
   which that server process works for, or has worked for last; `pid` itself where no server of ours is that process, or no client has had it. */
uint32_t notifier_told(const struct server *to, uint32_t pid);
/* What other clients are told in place of this number, which may be half of a cancel key. */
uint32_t notifier_public(uint32_t told);
/* Which of both this client is told: the first one, if that is its own. */
uint32_t notifier_for(const struct client *client, uint32_t told, uint32_t public);

#endif
