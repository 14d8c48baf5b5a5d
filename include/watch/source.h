#ifndef WATCH_SOURCE_H
#define WATCH_SOURCE_H

#include "conn/world.h"

/*
 * Patroni as a source of roles: all databases with the same list of URLs share one source. Promise:
 * a leader counts only while its own Patroni answers, unless the cluster is paused. See source.c.
 */
struct role_source;

/* Called several times a second: begins and ends sources, as the databases name them, and passes on
   their answers. `is_doubtful`: asks at once. *sources: the list, NULL at first. */
void sources_tick(struct role_source **sources, struct world *world, bool is_doubtful);
void sources_free(struct role_source **sources);

#endif
