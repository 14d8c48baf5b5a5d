#ifndef SHARED_BUDGETS_H
#define SHARED_BUDGETS_H

#include "base/hash.h"
#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A budget is a limit of the configuration that all worlds share: how many there may be, how many
 * there are, and which objects wait for one. Example: max_db_connections = 20 of the database app
 * is the budget (BUDGET_DATABASE, "app") with limit 20; `used` is the number of its servers.
 *
 * Take before a connection is opened, and give after its socket is closed: then `used` is never too
 * low, and PostgreSQL never sees one connection too many.
 *
 * Only the functions of this file write the members. They are inlined, because a taken budget must
 * cost no more than an int that is incremented.
 */
struct budget {
	int64_t limit;			/* 0: unlimited */
	/* exceeds the limit after a RELOAD that lowers it, and after an online restart */
	int64_t used;
	struct list waiting;		/* struct budget_wait, longest waiting first */
	int64_t found;			/* what the check in progress has found */
};
/* An object that waits for a budget; a member of that object. */
struct budget_wait {
	struct list node;		/* of budget->waiting; detached: it does not wait */
	void *owner;			/* the object, for budget_wake() */
	int64_t since;			/* microseconds: since when, on the clock of all worlds */
};

/* The kinds of budgets that have names. */
enum budget_kind {
	BUDGET_POOL,			/* servers of (database, user, host): the pool size */
	BUDGET_DATABASE,		/* servers of a database: max_db_connections */
	BUDGET_USER,			/* servers of a user: max_user_connections */
	BUDGET_HOST,			/* servers at a host: max_host_connections */
	/* servers at a host that belong to databases that clients may have invented */
	BUDGET_TRIALS,
	BUDGET_DATABASE_CLIENTS,	/* max_db_client_connections */
	BUDGET_USER_CLIENTS		/* max_user_client_connections */
};

static inline void budget_init(struct budget *budget, int64_t limit)
{
	budget->limit = limit;
	budget->used = budget->found = 0;
	list_init(&budget->waiting);
}
static inline void budget_set_limit(struct budget *budget, int64_t limit)
{
	budget->limit = limit;
}
static inline bool budget_has_room(const struct budget *budget)
{
	return budget->limit <= 0 || budget->used < budget->limit;
}
static inline bool budget_is_exceeded(const struct budget *budget)
{
	return budget->limit > 0 && budget->used > budget->limit;
}
/* Returns how many must be given before another can be taken; 0: there is room. */
static inline int64_t budget_excess(const struct budget *budget)
{
	return budget_has_room(budget) ? 0 : budget->used - budget->limit + 1;
}
/* Takes one unless `most` are taken already; `most` 0: unlimited. Returns whether it was taken.
   `most` is the limit, more than it for a reserve, or less for a minimum that is to be reached. */
static inline bool budget_take_up_to(struct budget *budget, int64_t most)
{
	if (most > 0 && budget->used >= most)
		return false;
	budget->used++;
	return true;
}
static inline bool budget_take(struct budget *budget)
{
	return budget_take_up_to(budget, budget->limit);
}
/* Counts an object that exists already, also beyond the limit. Examples: a server that an online
   restart has handed over, or a client whose limit is checked after it was counted. */
static inline void budget_add(struct budget *budget) { budget->used++; }
static inline void budget_give(struct budget *budget) { budget->used--; }
/* The check has found an object that counts for the budget. */
static inline void budget_found(struct budget *budget) { budget->found++; }

struct shared;

/* Begin and end a check of all budgets. The end asserts that budget_found() was called as often as
   each budget has objects in use. */
void budgets_check_begin(struct shared *shared);
void budgets_check_end(const struct shared *shared);
/* Returns the budget of this kind and name, and adds a reference; a new one has no limit. The name
   has up to three parts; a part that the kind does not have is NULL. NULL: no memory. */
struct budget *budget_hold(struct shared *shared, enum budget_kind kind, const char *database,
			   const char *user, const char *host);
/* Drops the reference and sets *budget to NULL; NULL is allowed. The last holder has given
   everything that it took. */
void budget_drop(struct shared *shared, struct budget **budget);

static inline void budget_wait_init(struct budget_wait *wait, void *owner)
{
	list_init(&wait->node);
	wait->owner = owner;
	wait->since = 0;
}
static inline bool budget_is_awaited(const struct budget_wait *wait)
{
	return !list_is_empty(&wait->node);
}
/* The owner begins to wait at the end of this list of a budget, or ends; no effect if it does so
   already. */
void budget_wait(struct shared *shared, struct list *waiting, struct budget_wait *wait,
		 bool is_waiting);
/* Calls ring(owner, context) for each waiting object, longest waiting first. ring() must not change
   the list. */
static inline void budget_wake(const struct list *waiting, void (*ring)(void *owner, void *context),
			       void *context)
{
	LIST_EACH(node, waiting)
		ring(LIST_OBJECT(node, struct budget_wait, node)->owner, context);
}

#endif
