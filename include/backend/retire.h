#ifndef BACKEND_RETIRE_H
#define BACKEND_RETIRE_H

#include "conn/world.h"

/*
 * Server connections that have become obsolete: those in use are closed when they are released, the others
 * at once, unless it is said otherwise.
 */

/* Settings or TLS files that server connections depend on are others: every one retires, those over Unix
   sockets, which know no TLS, only with unix_too. */
void retire_all(struct world *world, bool unix_too);
/* Those that were marked as obsolete elsewhere and that no client uses, or that are being opened, end. */
void retire_unused(struct world *world);
/* The resolver's dns_on_change; the context is the world: connections dialled by `name` with an address that
   is not in the answer. Those that are being opened have a second left. */
void retire_moved(void *world, const char *name, const struct dns_answer *now);
/* About once a second: has the resolver watch the names that server connections were dialled by, so that retire_moved hears of
   changes while nothing is dialled. */
void retire_watch(struct world *world);

#endif
