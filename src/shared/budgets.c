/*
 * Budgets with names, and the objects that wait for a budget (shared/budgets.h).
 *
 * The way of a limit, in the order of time. The object that the limit belongs to (a database, a
 * user, a pool, a host) holds the budget of its name from its creation on; the same object of
 * another world holds the same budget. The room that knows the settings sets the limit, at once and
 * at each RELOAD. Each connection takes from every budget that it counts for before it is opened,
 * and gives back when its socket is closed. An object that finds no room waits in the list of the
 * budget; whoever gives wakes the list, and the woken object looks again in the turn of its world.
 *
 * Invariant: a budget is in the table exactly while it has references, and the shortages of a bell
 * count the objects in all lists.
 */
#include "shared/budgets.h"

#include "base/assert.h"
#include "base/mem.h"
#include "shared/shared.h"

#include <string.h>

struct named_budget {
	struct budget budget;
	unsigned holders;		/* references */
	size_t size;			/* of the key */
	UT_hash_handle hh;
	char key[];			/* the kind, then the parts of the name with their NULs */
};

/* Appends one part of a name to the key, which has room for it. Returns the new size. */
static size_t budget_key_add(char *key, size_t size, const char *part)
{
	size_t length = part ? strlen(part) + 1 : 0;

	if (part)
		memcpy(key + size, part, length);
	else
		key[size] = '\0';
	return size + (part ? length : 1);
}

struct budget *budget_hold(struct shared *shared, enum budget_kind kind, const char *database,
			   const char *user, const char *host)
{
	size_t most = 1 + (database ? strlen(database) : 0) + 1 + (user ? strlen(user) : 0) + 1 +
		      (host ? strlen(host) : 0) + 1;
	struct named_budget *fresh = mem_try(sizeof(*fresh) + most), *found;

	if (!fresh)
		return NULL;
	fresh->key[0] = (char)kind;
	fresh->size = budget_key_add(fresh->key, 1, database);
	fresh->size = budget_key_add(fresh->key, fresh->size, user);
	fresh->size = budget_key_add(fresh->key, fresh->size, host);
	HASH_FIND(hh, shared->budgets, fresh->key, fresh->size, found);
	if (found) {
		mem_free(fresh);
		found->holders++;
		return &found->budget;
	}
	budget_init(&fresh->budget, 0);
	fresh->holders = 1;
	HASH_ADD_KEYPTR(hh, shared->budgets, fresh->key, fresh->size, fresh);
	if (HASH_HAS(hh, fresh))
		return &fresh->budget;
	mem_free(fresh);
	return NULL;
}

void budget_drop(struct shared *shared, struct budget **place)
{
	struct named_budget *named;

	if (!*place)
		return;
	named = LIST_OBJECT(*place, struct named_budget, budget);
	*place = NULL;
	if (--named->holders > 0)
		return;
	ASSERT(named->budget.used == 0 && list_is_empty(&named->budget.waiting));
	HASH_DEL(shared->budgets, named);
	mem_free(named);
}

void budgets_check_begin(struct shared *shared)
{
	for (struct named_budget *named = shared->budgets; named; named = named->hh.next)
		named->budget.found = 0;
	shared->clients.found = shared->lookup_servers.found = 0;
}

void budgets_check_end(const struct shared *shared)
{
	for (const struct named_budget *named = shared->budgets; named; named = named->hh.next)
		ASSERT(named->budget.used == named->budget.found);
	ASSERT(shared->clients.used == shared->clients.found);
	ASSERT(shared->lookup_servers.used == shared->lookup_servers.found);
}

void budget_wait(struct shared *shared, struct list *waiting, struct budget_wait *wait,
		 bool is_waiting)
{
	if (budget_is_awaited(wait) == is_waiting)
		return;
	shared_count_shortages(shared, is_waiting ? 1 : -1);
	if (is_waiting)
		list_append(waiting, &wait->node);
	else
		list_remove(&wait->node);
}
