/*
 * The one object that all worlds of a process share (shared/shared.h): made before the first world,
 * freed after the last one.
 */
#include "shared/shared.h"

#include "base/assert.h"
#include "base/mem.h"

struct shared *shared_new(void)
{
	struct shared *shared = mem_must(sizeof(*shared));

	budget_init(&shared->clients, 0);
	budget_init(&shared->lookup_servers, 0);
	list_init(&shared->waiting_for_hosts);
	list_init(&shared->worlds);
	return shared;
}

void shared_free(struct shared **place)
{
	struct shared *shared = *place;

	if (!shared)
		return;
	ASSERT(!shared->budgets && shared->world_count == 0);
	ASSERT(shared->clients.used == 0 && shared->lookup_servers.used == 0);
	mem_free(shared);
	*place = NULL;
}

void shared_join(struct shared *shared, struct bell *bell)
{
	struct list *first = list_first(&shared->worlds);

	bell->shortages = first ? LIST_OBJECT(first, struct bell, node)->shortages : 0;
	bell->is_asked = false;
	list_append(&shared->worlds, &bell->node);
	shared->world_count++;
}

void shared_leave(struct shared *shared, struct bell *bell)
{
	list_remove(&bell->node);
	shared->world_count--;
}

void shared_count_shortages(struct shared *shared, int64_t change)
{
	LIST_EACH(node, &shared->worlds)
		LIST_OBJECT(node, struct bell, node)->shortages += change;
}
