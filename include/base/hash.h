#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/mem.h"

#include <stdint.h>

/*
 * uthash, configured to report missing memory instead of ending the process: HASH_ADD leaves the
 * table unchanged then, so each HASH_ADD must be followed by HASH_HAS. Also configured to use a
 * keyed hash: see hash.c.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) mem_try(size)
#define uthash_free(memory, size) mem_free(memory)
#define HASH_FUNCTION(from, size, hash) ((hash) = hash_of((from), (size)))
#include <uthash.h>
#include <string.h>

/* Whether the preceding HASH_ADD of `object` by its handle `hh` succeeded. */
#define HASH_HAS(hh, object) ((object)->hh.tbl != NULL)

#define HASH_KEY 16		/* bytes */

/* If several objects have the same key, HASH_FIND returns the first, and the others follow it in
   its bucket, among objects with other keys. Returns the next object of the bucket, or NULL. */
#define HASH_NEXT_IN_BUCKET(hh, object) \
	((object)->hh.hh_next ? ELMT_FROM_HH((object)->hh.tbl, (object)->hh.hh_next) : NULL)

/* Sets the random hash key of this process. Called before the first table is created. */
void hash_set_key(const uint8_t key[HASH_KEY]);
/* Returns the hash of `size` bytes under that key: 64 bits, which may stand for the bytes, ... */
uint64_t hash_long(const void *from, size_t size);
/* ... or the lower half, for a table. */
static inline unsigned hash_of(const void *from, size_t size)
{
	return (unsigned)hash_long(from, size);
}

/*
 * A hash table from names to objects that keeps the order of insertion, for thousands of databases
 * and users. Names, objects and nodes are allocated from an arena; the hash table itself is not,
 * and index_clear frees it.
 */
struct index_node {
	const char *name;
	void *object;
	UT_hash_handle hh;
};
struct index {
	struct index_node *nodes;
};

/* Adds `name`, or replaces the object of an existing name, which keeps its place in the order.
   False: no memory. */
bool index_put(struct index *index, struct arena *arena, const char *name, void *object);
/* Returns the object, or NULL. */
static inline void *index_get(const struct index *index, const char *name)
{
	struct index_node *node;

	HASH_FIND_STR(index->nodes, name, node);
	return node ? node->object : NULL;
}
/* Returns an array of all objects in order, in the arena, and their number. NULL: no memory. */
static inline void **index_objects(const struct index *index, struct arena *arena, size_t *count)
{
	void **objects = arena_take(arena, HASH_COUNT(index->nodes) * sizeof(*objects));

	*count = 0;
	for (const struct index_node *node = index->nodes; objects && node; node = node->hh.next)
		objects[(*count)++] = node->object;
	return objects;
}
static inline void index_clear(struct index *index)
{
	HASH_CLEAR(hh, index->nodes);
}

#endif
