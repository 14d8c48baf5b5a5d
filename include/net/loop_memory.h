#ifndef NET_LOOP_MEMORY_H
#define NET_LOOP_MEMORY_H

#include <stddef.h>

/*
 * The memory of the event loop. libevent keeps a small block for each number that a descriptor ever had, for as long as the loop
 * lives. Those blocks get a place of their own, because among the blocks that come and go with connections each would keep a page
 * of the heap from being given back.
 */
#define LOOP_BLOCK ((size_t)32)		/* blocks up to this size are such ones */

/* From now on libevent takes its memory here, with room for so many small blocks; when that is used up, or where there is none, from
   malloc. To be called once, before the first call of libevent. */
void loop_memory_begin(size_t blocks);
/* How many small blocks there are in that place now. */
size_t loop_memory_used(void);

#endif
