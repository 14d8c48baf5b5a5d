/*
 * An area for the small blocks of the event loop. On the heap, the blocks of a past crowd of
 * clients would prevent the allocator from returning memory to the system: with 19,000 clients,
 * more than half of their memory.
 *
 * The area is one mapping; the kernel allocates only pages that were written. All blocks have the
 * same size and are handed out in order; a freed block goes to the front of a list and is reused
 * next. Larger blocks come from malloc.
 *
 * Invariant: a block is in the area if and only if it was allocated from it.
 */
#include "net/loop_memory.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

struct free_block {
	struct free_block *next;
};

static struct {
	uint8_t *start, *unused, *end;
	struct free_block *free;
} place;

static bool is_inside(const void *block)
{
	return (const uint8_t *)block >= place.start && (const uint8_t *)block < place.end;
}

static void *loop_take(size_t size)
{
	void *block = place.free;

	if (size > LOOP_BLOCK || (!block && place.unused == place.end))
		return malloc(size);
	if (block) {
		place.free = place.free->next;
	} else {
		block = place.unused;
		place.unused += LOOP_BLOCK;
	}
	return block;
}

static void loop_give(void *block)
{
	struct free_block *freed = block;

	if (!is_inside(block)) {
		free(block);
		return;
	}
	freed->next = place.free;
	place.free = freed;
}

static void *resize(void *block, size_t size)
{
	void *larger;

	if (!block)
		return loop_take(size);
	if (!is_inside(block))
		return realloc(block, size);
	if (size <= LOOP_BLOCK)
		return block;
	larger = malloc(size);
	if (larger) {
		memcpy(larger, block, LOOP_BLOCK);
		loop_give(block);
	}
	return larger;
}

void loop_memory_begin(size_t blocks)
{
	size_t size = blocks * LOOP_BLOCK;
	uint8_t *start = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return;
	place.start = place.unused = start;
	place.end = start + size;
#ifdef __SANITIZE_ADDRESS__
	/* memory that is referenced from the area is not leaked */
	__lsan_register_root_region(start, size);
#endif
	event_set_mem_functions(loop_take, resize, loop_give);
}
