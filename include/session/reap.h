#ifndef SESSION_REAP_H
#define SESSION_REAP_H

#include "session/world.h"

/* Does for each connection on world->ending all that its end means, and frees it. To be called with no event handler on the stack. */
void world_reap_ending(struct world *world);
static inline void world_reap(struct world *w)
{
	if (world_has_ending(w))
		world_reap_ending(w);
}

#endif
