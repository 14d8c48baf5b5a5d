#ifndef CORE_REAP_H
#define CORE_REAP_H

#include "core/world.h"

/* Ends and frees each connection on world->ending. Must be called without an event handler on the stack. */
void world_reap_ending(struct world *world);
static inline void world_reap(struct world *w)
{
	if (world_has_ending(w))
		world_reap_ending(w);
}

#endif
