#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory with a named lifetime. Per-connection and per-message allocations use
 * mem_try and refuse the work when it fails; what the process cannot start
 * without uses mem_must. Everything is given back with mem_free.
 */

/* Zeroed memory of `size` bytes, or NULL when there is none. Caller owns it. */
void *mem_try(size_t size);
/* Zeroed memory of `size` bytes; logs FATAL and exits 1 when there is none. */
void *mem_must(size_t size);
/* As realloc(3): the first min(old, size) bytes are kept, the rest is not zeroed.
   NULL when there is none; `old` is then unchanged and still owned by the caller. */
void *mem_resize(void *old, size_t size);
/* Copy of a string, or NULL when there is no memory (or text is NULL). */
char *mem_copy_string(const char *text);
/* As mem_copy_string, but exits 1 when there is no memory. NULL stays NULL. */
char *mem_must_copy_string(const char *text);
/* Frees; NULL is fine. */
void mem_free(void *memory);
/* What was freed goes back to the system, as far as the allocator knows how: free pages that stand between others in use, too. Takes
   about a millisecond for each 10 MB. */
void mem_give_back(void);
/* As mem_try, in pages of their own that no core file gets (MADV_DONTDUMP): for what holds secrets for long. A test build takes them
   from the heap, where its sanitizer sees them. */
void *mem_try_hidden(size_t size);
/* Wipes and frees what mem_try_hidden gave for this size; NULL is fine. */
void mem_free_hidden(void *memory, size_t size);
/* Overwrites `size` bytes with zeros in a way the compiler keeps. */
void mem_wipe(void *memory, size_t size);
/* Compares in a time that depends on `size` only. True when equal. */
bool mem_equal_constant_time(const void *a, const void *b, size_t size);

/*
 * A secret: bytes that are never printed and that are wiped when freed. It is
 * a type of its own so that no format string and no log call takes one.
 */
struct secret {
	size_t length;		/* without the NUL that always follows */
	char bytes[];
};

/* A secret of `length` bytes copied from `bytes` (NULL: zeros); NULL when there
   is no memory. Free with secret_free. */
struct secret *secret_new(const void *bytes, size_t length);
/* Wipes and frees *secret and sets it to NULL. */
void secret_free(struct secret **secret);
/* Both NULL, or of the same bytes. Constant time in the bytes, not in the length. */
bool secret_is_same(const struct secret *a, const struct secret *b);

/*
 * An arena: many small allocations that end together (a login, a reload). Its
 * blocks are wiped before they are freed.
 */
struct arena;
struct arena *arena_new(void);
/* The same, for one that holds secrets for long: see mem_try_hidden. */
struct arena *arena_new_hidden(void);
/* Zeroed memory that lives as long as the arena; NULL when there is none. */
void *arena_take(struct arena *arena, size_t size);
/* Copy of `length` bytes with a NUL behind; NULL when there is no memory. */
char *arena_copy(struct arena *arena, const void *bytes, size_t length);
/* Wipes and frees everything and sets *arena to NULL. */
void arena_free(struct arena **arena);

#endif
