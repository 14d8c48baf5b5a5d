/*
 * Memory with a named lifetime: single blocks, secrets and arenas. All memory is zeroed, because a
 * forgotten member should be 0 rather than data of another session.
 *
 * Invariant of an arena: its blocks form a list, newest first; only the newest block has free
 * memory; the memory after `used` is zero.
 */
#include "base/mem.h"

#include "base/log.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *mem_try(size_t size)
{
	return calloc(1, size ? size : 1);
}

void *mem_must(size_t size)
{
	void *memory = mem_try(size);

	if (!memory) {
		log_fatal("out of memory (%zu bytes wanted)", size);
		exit(1);
	}
	return memory;
}

void *mem_resize(void *old, size_t size)
{
	return realloc(old, size ? size : 1);
}

char *mem_copy_string(const char *text)
{
	return text ? strdup(text) : NULL;
}

bool mem_equal_constant_time(const void *a, const void *b, size_t size)
{
	const volatile unsigned char *x = a, *y = b;
	unsigned char difference = 0;

	for (size_t i = 0; i < size; i++)
		difference |= (unsigned char)(x[i] ^ y[i]);
	return difference == 0;
}

struct secret *secret_new(const void *bytes, size_t length)
{
	struct secret *secret;

	if (length > SIZE_MAX - sizeof(*secret) - 1)
		return NULL;
	secret = mem_try(sizeof(*secret) + length + 1);
	if (!secret)
		return NULL;
	secret->length = length;
	if (bytes && length > 0)
		memcpy(secret->bytes, bytes, length);
	return secret;
}

/* ---- hidden from core files ---- */

void *mem_try_hidden(size_t size)
{
#ifdef PGWEIR_TEST_BUILD
	return mem_try(size);
#else
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* on a kernel without MADV_DONTDUMP, the setting core_dumps still applies */
	madvise(memory, size, MADV_DONTDUMP);
	return memory;
#endif
}

void mem_free_hidden(void *memory, size_t size)
{
	if (!memory)
		return;
	mem_wipe(memory, size);
#ifdef PGWEIR_TEST_BUILD
	mem_free(memory);
#else
	munmap(memory, size);
#endif
}

/* ---- arenas ---- */

struct block {
	struct block *next;
	size_t size, used;	/* of `memory` */
	max_align_t memory[];
};

struct arena {
	struct block *blocks;
	size_t next_size;	/* of the next regular block */
	bool is_hidden;
};

/* A login needs some hundred bytes, a configuration may need megabytes: the block size begins small
   and doubles. */
#define BLOCK_LEAST 1024
#define BLOCK_MOST  65536

struct arena *arena_new(bool is_hidden)
{
	struct arena *arena = mem_try(sizeof(*arena));

	if (arena) {
		arena->next_size = BLOCK_LEAST;
		arena->is_hidden = is_hidden;
	}
	return arena;
}

void *arena_take(struct arena *arena, size_t size)
{
	const size_t unit = sizeof(max_align_t);
	struct block *block = arena->blocks;
	char *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	/* Sizes are multiples of the strictest alignment, so each allocation is aligned. */
	size = (size ? size + unit - 1 : unit) / unit * unit;
	if (!block || block->size - block->used < size) {
		size_t room = arena->next_size < size ? size : arena->next_size;

		block = arena->is_hidden ? mem_try_hidden(sizeof(*block) + room)
					 : mem_try(sizeof(*block) + room);
		if (!block)
			return NULL;
		block->size = room;
		block->next = arena->blocks;
		arena->blocks = block;
		if (arena->next_size < BLOCK_MOST)
			arena->next_size *= 2;
	}
	memory = (char *)block->memory + block->used;
	block->used += size;
	return memory;
}

void arena_free(struct arena **arena)
{
	struct block *next;

	if (!*arena)
		return;
	for (struct block *block = (*arena)->blocks; block; block = next) {
		next = block->next;
		if ((*arena)->is_hidden) {
			mem_free_hidden(block, sizeof(*block) + block->size);
			continue;
		}
		mem_wipe(block->memory, block->used);
		mem_free(block);
	}
	mem_free(*arena);
	*arena = NULL;
}
