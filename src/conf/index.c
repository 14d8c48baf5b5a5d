/*
 * A hash table from names to objects, for thousands of databases and users. uthash is configured to report missing memory
 * instead of ending the process, because a RELOAD without memory must leave the old configuration in force.
 */
#include "conf/index.h"

#include "base/hash.h"

#include <string.h>

struct index_node {
	const char *name;
	void *object;
	UT_hash_handle hh;
};

bool index_put(struct index *index, struct arena *arena, const char *name, void *object)
{
	struct index_node *node;

	HASH_FIND_STR(index->nodes, name, node);
	if (node) {
		node->object = object;
		return true;
	}
	node = arena_take(arena, sizeof(*node));
	if (!node)
		return false;
	node->name = name;
	node->object = object;
	HASH_ADD_KEYPTR(hh, index->nodes, node->name, strlen(node->name), node);
	return HASH_HAS(hh, node);
}

void *index_get(const struct index *index, const char *name)
{
	struct index_node *node;

	HASH_FIND_STR(index->nodes, name, node);
	return node ? node->object : NULL;
}

size_t index_count(const struct index *index)
{
	return HASH_COUNT(index->nodes);
}

void *index_next(const struct index *index, const struct index_node **node)
{
	*node = *node ? (*node)->hh.next : index->nodes;
	return *node ? (*node)->object : NULL;
}

void index_clear(struct index *index)
{
	HASH_CLEAR(hh, index->nodes);
}
