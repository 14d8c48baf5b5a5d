#ifndef CONF_INDEX_H
#define CONF_INDEX_H

#include "base/mem.h"

/*
 * Names to objects, hashed, in the order in which they were added. The names and objects belong to the
 * arena; so do the nodes, but the hash table itself does not: index_clear gives it back.
 */
struct index_node;
struct index {
	struct index_node *nodes;
};

/* Adds `name`, or gives a name that is there its new object (its place in the order stays). False: no
   memory. */
bool index_put(struct index *index, struct arena *arena, const char *name, void *object);
/* The object, or NULL. */
void *index_get(const struct index *index, const char *name);
size_t index_count(const struct index *index);
/* Walks: the objects in order. Begin with *node NULL; NULL at the end. */
void *index_next(const struct index *index, const struct index_node **node);
void index_clear(struct index *index);

#endif
