#ifndef WATCH_NAMES_H
#define WATCH_NAMES_H

#include "conn/world.h"

/* Names of hosts with several addresses: each address is a host of its own for databases with
   roles. See names.c. */
struct role_name;

/* Called several times a second: looks up the names that databases with roles list, each once a
   second from the cache of the resolver. *names: the list, NULL at first. */
void names_tick(struct role_name **names, struct world *world);
void names_free(struct role_name **names);

#endif
