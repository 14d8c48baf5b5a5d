#ifndef CONF_INDEX_H
#define CONF_INDEX_H

#include "base/mem.h"

/*
 * A hash table from names to objects that keeps the order of insertion. Names, objects and nodes are allocated from the arena;
 * the hash table itself is not, and index_clear frees it.
 */
struct index_node;
struct index {
	struct index_node *nodes;
};

/* Adds `name`, or replaces the object of an existing name, which keeps its place in the order. False: no memory. */
bool index_put(struct index *index, struct arena *arena, const char *name, void *object);
/* Returns the object, or NULL. */
void *index_get(const struct index *index, const char *name);
size_t index_count(const struct index *index);
/* Iterates over the objects in order. Begin with *node NULL; returns NULL at the end. */
void *index_next(const struct index *index, const struct index_node **node);
void index_clear(struct index *index);

#endif
