#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * Memory with a named lifetime. Allocations for connections and messages use mem_try and refuse the
 * work if it fails; allocations that the process needs in order to start use mem_must. Both are
 * freed with mem_free.
 */

/* Returns zeroed memory of `size` bytes, owned by the caller, or NULL. */
void *mem_try(size_t size);
/* Returns zeroed memory of `size` bytes. Without memory logs FATAL and exits with status 1. */
void *mem_must(size_t size);
/* As realloc(3): the first min(old, size) bytes are kept, the rest is not zeroed. Without memory
   returns NULL, and `old` is unchanged. */
void *mem_resize(void *old, size_t size);
/* Returns a copy of a string. NULL: no memory, or text is NULL. */
char *mem_copy_string(const char *text);
/* NULL is allowed. */
static inline void mem_free(void *memory)
{
	free(memory);
}
/* Returns zeroed memory, or NULL, in separate pages that core files do not contain (MADV_DONTDUMP):
   for long-lived secrets. Test builds use the heap, for the sanitizer. */
void *mem_try_hidden(size_t size);
/* Wipes and frees memory from mem_try_hidden of this size; NULL is allowed. */
void mem_free_hidden(void *memory, size_t size);
/* Overwrites `size` bytes with zeros; the compiler does not remove this. */
static inline void mem_wipe(void *memory, size_t size)
{
	if (size > 0)
		explicit_bzero(memory, size);
}
/* Compares in the same time for all contents of this size, so that the time reveals nothing about a
   secret. Returns whether the bytes are equal. */
bool mem_equal_constant_time(const void *a, const void *b, size_t size);

/*
 * A secret: bytes that are never printed and that are wiped when they are freed. A separate type,
 * so that no format string and no log call accepts it.
 */
struct secret {
	size_t length;		/* without the terminating NUL */
	char bytes[];
};

/* Returns a secret of `length` bytes copied from `bytes` (NULL: zeros). NULL: no memory. Free with
   secret_free. */
struct secret *secret_new(const void *bytes, size_t length);
/* Wipes and frees *secret and sets it to NULL. */
static inline void secret_free(struct secret **secret)
{
	if (!*secret)
		return;
	mem_wipe(*secret, sizeof(**secret) + (*secret)->length + 1);
	mem_free(*secret);
	*secret = NULL;
}
/* Whether both are NULL, or have the same bytes. Constant time in the bytes, not in the length. */
static inline bool secret_is_same(const struct secret *a, const struct secret *b)
{
	if (!a || !b)
		return a == b;
	return a->length == b->length && mem_equal_constant_time(a->bytes, b->bytes, a->length);
}

/*
 * An arena: many small allocations that are freed together (for a login, or a reload). Its memory
 * is wiped before it is freed.
 */
struct arena;
/* `is_hidden`: the memory comes from mem_try_hidden, for long-lived secrets. NULL: no memory. */
struct arena *arena_new(bool is_hidden);
/* Returns zeroed memory that is valid as long as the arena. NULL: no memory. */
void *arena_take(struct arena *arena, size_t size);
/* Returns a copy of `length` bytes with a NUL appended. NULL: no memory. */
static inline char *arena_copy(struct arena *arena, const void *bytes, size_t length)
{
	char *copy = length < SIZE_MAX / 2 ? arena_take(arena, length + 1) : NULL;

	if (copy && length > 0)
		memcpy(copy, bytes, length);
	return copy;
}
/* Wipes and frees everything and sets *arena to NULL. */
void arena_free(struct arena **arena);

#endif
