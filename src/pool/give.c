/*
 * Idle servers for other worlds.
 *
 * A pool of another world waits for a server, and has asked (bell.is_asked). At the end of its turn
 * this world looks for an idle server: a server of the same pool moves to the world that waits, and
 * an idle server that only counts for the budget in question closes, so that the other world can
 * open its own. A world keeps a server for its own clients unless the other client has waited
 * longer (pool_owes()); meanwhile no new client of this world gets the server (pool->owes).
 *
 * Invariant: a world changes only its own servers, in its own turn; a server leaves it idle and
 * without a link.
 */
#include "pool/host.h"
#include "pool/inside.h"

/* Whether a pool of another world waits for this budget, which has no room. */
static bool is_wanted_elsewhere(const struct pool *pool, const struct budget *budget)
{
	bool is_wanted = false;

	LIST_EACH(node, &budget->waiting) {
		const struct pool *other = LIST_OBJECT(node, struct budget_wait, node)->owner;

		is_wanted |= other->pools != pool->pools;
	}
	return is_wanted && !budget_has_room(budget);
}

/* Whether closing this server makes room for a pool of another world. */
static bool server_is_wanted(const struct pool_server *server, usec_t now)
{
	const struct pool *pool = server->pool, *first;

	if (is_wanted_elsewhere(pool, pool->budget) ||
	    is_wanted_elsewhere(pool, pool->database->servers) ||
	    is_wanted_elsewhere(pool, pool->user->servers) ||
	    (server->for_internal &&
	     is_wanted_elsewhere(pool, &pool->pools->shared->lookup_servers)))
		return true;
	first = server->host && host_is_full(server->host) ? host_awaited_by(server->host) : NULL;
	return first && first->pools != pool->pools && host_owes(server, first, now);
}

/* Returns an idle server that may move to another world, first of those without a test. NULL:
   none. */
static struct pool_server *pool_movable(const struct pool *pool)
{
	static const enum server_state states[] = { SERVER_IDLE, SERVER_USED };

	for (int i = 0; i < 2; i++) {
		LIST_EACH(node, &pool->servers[states[i]]) {
			struct pool_server *server = server_at(node);

			if (!server->dedicated && server->cancels == 0 &&
			    server->close_reason == REASON_NONE)
				return server;
		}
	}
	return NULL;
}

/* Gives one idle server of the pool to another world. Returns whether there was one to give. */
static bool pool_give_one(struct pool *pool, usec_t now)
{
	const struct pool_ops *ops = pool->pools->ops;
	struct pool_client *first = client_first(pool, CLIENT_WAITING);
	struct pool *to = pool_owes(pool, first) ? pool_elsewhere(pool) : NULL;
	struct pool_server *server = to ? pool_movable(pool) : NULL;

	/* servers with start-up parameters of their own do not move */
	if (server && ops->move && !pool_minds_startup(to, to->dedicated > 0) &&
	    ops->move(server, to))
		return true;
	server = pool_idle_longest(pool);
	return server && !first && server_is_wanted(server, now) &&
	       server_drop(server, REASON_EVICTED);
}

void pools_give(struct pools *pools, usec_t now)
{
	pools->bell.is_asked = false;
	LIST_EACH(node, &pools->all) {
		struct pool *pool = pool_at(node);

		while (!pool->database->is_console && !pool_is_stopped(pool) &&
		       pool_give_one(pool, now))
			;
		if (pool->owes)
			pool_mark(pool);
		pool->owes = false;
	}
}
