/*
 * Seats: every server counts for the budgets of its pool, its database and its user, and a server
 * that only look-ups use for max_auth_query_connections. This file is the only one that takes from
 * these budgets and gives back, and that sets their limits. A host has a budget of its own, because
 * the host is chosen later: see host.c.
 *
 * In the order of time: pool_dial() takes a seat from each budget, or from none if one has no
 * room; ops->dial opens the server, and pool_server_init() uses the seat (seat_use()). If no
 * server was made, pool_dial() gives the seat back. A server that was not opened by this way
 * (another process has handed it over) counts in any case, also beyond a limit. When its socket is
 * closed, the server gives everything back (seat_give()). Connections that carry cancel requests
 * and watchers have no seats.
 *
 * A pool that a limit holds waits in the list of that budget, and every server that is released or
 * closed under that budget marks it (seats_wake()).
 *
 * Several worlds: a pool with a client that waits also waits in the list of its own budget, and
 * asks the other worlds (bell.is_asked), which give idle servers at the end of their turns
 * (give.c).
 *
 * Invariant: `used` of a budget is the number of servers that count for it, over all worlds.
 */
#include "pool/host.h"
#include "pool/inside.h"

#include "base/assert.h"
#include "base/inline.h"

/* how much longer a client of another world must have waited to get a server first: the clocks of
   two worlds differ by a turn */
#define LATER_MOST (5 * (USEC / 1000))

/* ---- taking and giving ---- */

static bool seat_take(struct pool *pool, int64_t most)
{
	bool for_lookups = pool_is_for_internal(pool);

	ASSERT(pool->seats == 0);
	if (!budget_take_up_to(pool->budget, most))
		return false;
	if (budget_take(pool->database->servers)) {
		if (budget_take(pool->user->servers)) {
			if (!for_lookups || budget_take(&pool->pools->shared->lookup_servers)) {
				pool->seats = 1;
				pool->seat_is_for_internal = for_lookups;
				return true;
			}
			budget_give(pool->user->servers);
		}
		budget_give(pool->database->servers);
	}
	budget_give(pool->budget);
	return false;
}

static void seat_untake(struct pool *pool)
{
	pool->seats = 0;
	budget_give(pool->budget);
	budget_give(pool->database->servers);
	budget_give(pool->user->servers);
	if (pool->seat_is_for_internal)
		budget_give(&pool->pools->shared->lookup_servers);
}

bool pool_dial(struct pool *pool, struct pool_client *client, int64_t most)
{
	if (!seat_take(pool, most))
		return false;
	pool->pools->ops->dial(pool, client);
	if (pool->seats > 0)
		seat_untake(pool);
	return true;
}

void seat_use(struct pool_server *server)
{
	struct pool *pool = server->pool;

	server->for_internal = false;
	if (server_is_apart(server))
		return;
	pool->live++;
	if (pool->seats > 0) {
		pool->seats = 0;
		server->for_internal = pool->seat_is_for_internal;
		return;
	}
	budget_add(pool->budget);
	budget_add(pool->database->servers);
	budget_add(pool->user->servers);
	/* the server is for internal requests only if no client of the pool can get it */
	server->for_internal = pool_is_for_internal(pool);
	if (server->for_internal)
		budget_add(&pool->pools->shared->lookup_servers);
}

void seat_serves_clients(struct pool_server *server)
{
	if (server->for_internal)
		budget_give(&server->pool->pools->shared->lookup_servers);
	server->for_internal = false;
}

void seat_give(struct pool_server *server)
{
	struct pool *pool = server->pool;

	if (server_is_apart(server))
		return;
	seat_serves_clients(server);
	pool->live--;
	budget_give(pool->budget);
	budget_give(pool->database->servers);
	budget_give(pool->user->servers);
}

/* ---- waiting ---- */

/* The worlds that may have an idle server for this one look for it. */
static void worlds_ask(struct pools *asker)
{
	LIST_EACH(node, &asker->shared->worlds) {
		struct pools *other = LIST_OBJECT(node, struct pools, bell.node);

		if (other != asker)
			pools_ask(other);
	}
}

void pool_wait_for(struct pool *pool, enum pool_limit limit, const struct pool_client *first)
{
	struct shared *shared = pool->pools->shared;
	bool has_worlds = shared->world_count > 1,
	     waits = has_worlds && first && limit != LIMIT_PAUSED && limit != LIMIT_DRAINING &&
		     limit != LIMIT_ROLE,
	     is_waiting = waits || limit == LIMIT_DATABASE || limit == LIMIT_USER ||
			  limit == LIMIT_HOST || (has_worlds && limit == LIMIT_INTERNAL);

	if (!is_waiting && !pool->is_waiting)
		return;
	pool->is_waiting = is_waiting;
	budget_wait(shared, &pool->database->servers->waiting, &pool->wait_for_database,
		    limit == LIMIT_DATABASE);
	budget_wait(shared, &pool->user->servers->waiting, &pool->wait_for_user,
		    limit == LIMIT_USER);
	budget_wait(shared, &shared->waiting_for_hosts, &pool->wait_for_host, limit == LIMIT_HOST);
	budget_wait(shared, &shared->lookup_servers.waiting, &pool->wait_for_lookups,
		    has_worlds && limit == LIMIT_INTERNAL);
	budget_wait(shared, &pool->budget->waiting, &pool->wait_for_server, waits);
	if (waits)
		pool->wait_for_server.since = first->since;
	if (has_worlds && is_waiting)
		worlds_ask(pool->pools);
}

static void seat_ring(void *pool, void *server)
{
	pool_ring(pool, server);
}

struct pool *pool_elsewhere(const struct pool *pool)
{
	struct budget_wait *first = NULL;

	LIST_EACH(node, &pool->budget->waiting) {
		struct budget_wait *wait = LIST_OBJECT(node, struct budget_wait, node);
		const struct pool *other = wait->owner;

		if (other->pools != pool->pools && (!first || wait->since < first->since))
			first = wait;
	}
	return first ? first->owner : NULL;
}

bool pool_owes(const struct pool *pool, const struct pool_client *first)
{
	const struct pool *other = pool_elsewhere(pool);

	return other && (!first || other->wait_for_server.since + LATER_MOST < first->since);
}

NEVER_INLINE void seats_wake(const struct pool_server *server)
{
	struct pool *pool = server->pool;
	void *context = (void *)(uintptr_t)server;

	budget_wake(&pool->database->servers->waiting, seat_ring, context);
	budget_wake(&pool->user->servers->waiting, seat_ring, context);
	budget_wake(&pool->budget->waiting, seat_ring, context);
	budget_wake(&pool->pools->shared->lookup_servers.waiting, seat_ring, context);
	pool->owes = pool_owes(pool, client_first(pool, CLIENT_WAITING));
}

/* ---- the budgets of databases, users and pools, and their limits ---- */

bool database_hold_budgets(struct database *database)
{
	struct shared *shared = database->pools->shared;

	database->servers = budget_hold(shared, BUDGET_DATABASE, database->name, NULL, NULL);
	database->clients = budget_hold(shared, BUDGET_DATABASE_CLIENTS, database->name, NULL,
					NULL);
	if (database->servers && database->clients)
		return true;
	database_drop_budgets(database);
	return false;
}

void database_drop_budgets(struct database *database)
{
	budget_drop(database->pools->shared, &database->servers);
	budget_drop(database->pools->shared, &database->clients);
}

bool user_hold_budgets(struct pools *pools, struct user *user)
{
	user->servers = budget_hold(pools->shared, BUDGET_USER, NULL, user->name, NULL);
	user->clients = budget_hold(pools->shared, BUDGET_USER_CLIENTS, NULL, user->name, NULL);
	if (user->servers && user->clients)
		return true;
	user_drop_budgets(pools, user);
	return false;
}

void user_drop_budgets(struct pools *pools, struct user *user)
{
	budget_drop(pools->shared, &user->servers);
	budget_drop(pools->shared, &user->clients);
}

struct budget *pool_hold_budget(const struct database *database, const struct user *user,
				const struct host *host)
{
	/* no server is opened where clients wait for a host */
	const char *at = !host ? NULL : host->key[0] ? host->key : "-";

	return budget_hold(database->pools->shared, BUDGET_POOL, database->name, user->name, at);
}

void database_set_limits(struct database *database)
{
	const struct settings *set = &database->pools->conf->settings;
	const struct conf_database *conf = database->conf;

	budget_set_limit(database->servers, first_set(CONF_UNSET, conf->max_db_connections,
						      set->max_db_connections));
	budget_set_limit(database->clients,
			 first_set(CONF_UNSET, conf->max_db_client_connections,
				   set->max_db_client_connections));
}

void user_set_limits(struct pools *pools, struct user *user)
{
	const struct settings *set = &pools->conf->settings;

	budget_set_limit(user->servers, first_set(OF_USER(user, max_user_connections), CONF_UNSET,
						  set->max_user_connections));
	budget_set_limit(user->clients, first_set(OF_USER(user, max_user_client_connections),
						  CONF_UNSET, set->max_user_client_connections));
}

void pools_set_limits(struct pools *pools)
{
	const struct settings *set = &pools->conf->settings;

	budget_set_limit(&pools->shared->clients, set->max_client_conn);
	budget_set_limit(&pools->shared->lookup_servers, set->max_auth_query_connections);
	for (struct database *database = pools->databases; database; database = database->hh.next)
		database_set_limits(database);
	for (struct user *user = pools->users; user; user = user->hh.next)
		user_set_limits(pools, user);
}

/* ---- the check ---- */

static void seats_check_pool(const struct pool *pool)
{
	for (int state = 0; state < CLIENT_STATES; state++) {
		LIST_EACH(node, &pool->clients[state]) {
			const struct pool_client *client = client_at(node);

			if (!client->is_internal && state != CLIENT_WAITING_CANCEL &&
			    state != CLIENT_ACTIVE_CANCEL)
				budget_found(&pool->pools->shared->clients);
			if (!client->counted)
				continue;
			budget_found(pool->database->clients);
			budget_found(client->login_user->clients);
		}
	}
	for (int state = 0; state < SERVER_STATES; state++) {
		LIST_EACH(node, &pool->servers[state]) {
			const struct pool_server *server = server_at(node);

			if (server_is_apart(server))
				continue;
			budget_found(pool->budget);
			budget_found(pool->database->servers);
			budget_found(pool->user->servers);
			if (server->for_internal)
				budget_found(&pool->pools->shared->lookup_servers);
			if (server->host)
				budget_found(server->host->servers);
			if (server->is_trial)
				budget_found(server->host->trials);
		}
	}
}

void seats_check(struct shared *shared)
{
	budgets_check_begin(shared);
	LIST_EACH(world, &shared->worlds) {
		const struct pools *pools = LIST_OBJECT(world, struct pools, bell.node);

		LIST_EACH(node, &pools->all)
			seats_check_pool(pool_at(node));
		for (int state = 0; state < CLIENT_STATES; state++) {
			bool counts = state != CLIENT_WAITING_CANCEL &&
				      state != CLIENT_ACTIVE_CANCEL;

			LIST_EACH(node, &pools->unauthenticated[state])
				if (counts && !client_at(node)->is_internal)
					budget_found(&shared->clients);
		}
	}
	budgets_check_end(shared);
}
