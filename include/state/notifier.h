#ifndef STATE_NOTIFIER_H
#define STATE_NOTIFIER_H

#include "conn/world.h"

/* Process ids in notifications: see notifier.c. */

/* Returns the process id that a client of `to` is told for a notification in which the server names process `pid`: the id that the present or last
   client of that process was told; `pid` itself if no server of pgweir is that process, or no client has had it. */
uint32_t notifier_told(const struct server *to, uint32_t pid);
bool notifier_is_same_place(const struct server *one, const struct server *other);
/* The client of the server may send notifications, or has perhaps. */
static inline void notifier_note(struct server *s) { s->notifies = true; }
/* That client leaves the server. */
void notifier_leaves(struct server *server);
/* The server, in SERVER_TESTED, waits until the listeners have received the notifications of its clients. */
void notifier_wait(struct server *server);
/* Servers that have begun to wait for listeners (world->notifiers_due) have these asked; those whose listeners have heard all, or have ended, may be lent
   again. Called once a turn, and after each answer of a listener. */
void notifier_go_on(struct world *world);
/* Returns the number that other clients are told in place of `told`, which may be half of a cancel key. */
uint32_t notifier_public(uint32_t told);
/* Which of both this client is told: the first one, if that is its own. */
uint32_t notifier_for(const struct client *client, uint32_t told, uint32_t public);

#endif
