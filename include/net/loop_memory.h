#ifndef NET_LOOP_MEMORY_H
#define NET_LOOP_MEMORY_H

#include <stddef.h>

/*
 * The memory of the event loop. libevent allocates a small block for each descriptor number that
 * was ever used, and keeps it as long as the loop exists. These blocks get a separate area: on the
 * heap, between blocks of connections that come and go, each of them would keep a page from being
 * returned to the system.
 */
#define LOOP_BLOCK ((size_t)32)		/* the largest block size of the area */

/* From now on libevent uses this allocator, with room for this number of small blocks; further
   blocks come from malloc. Called once, before the first call of libevent. */
void loop_memory_begin(size_t blocks);

#endif
