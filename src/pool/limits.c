/*
 * Effective settings of pools, databases and users, each from the most specific place that sets a value, and the checks that
 * follow from them and from the counts: whether another client may join, and whether the pool is full, paused or held.
 *
 * Invariant: `allowed` of a pool equals what its user, its database and the global settings give (pools_check). All other
 * limits are read when they are needed, so a RELOAD or SET copies nothing.
 */
#include "pool/inside.h"

#include <string.h>

#define SETTINGS(pools) (&(pools)->conf->settings)

static int64_t first_set(int64_t a, int64_t b, int64_t fallback)
{
	if (a != CONF_UNSET)
		return a;
	return b != CONF_UNSET ? b : fallback;
}

#define OF_USER(user, name) ((user) && (user)->conf ? (user)->conf->name : CONF_UNSET)

int64_t pool_min_size_of(const struct pool *pool)
{
	return first_set(CONF_UNSET, pool->database->conf->min_pool_size, SETTINGS(pool->pools)->min_pool_size);
}

struct pool_allowance pool_allowance_of(const struct pool *pool)
{
	const struct conf_database *database = pool->database->conf;
	const struct settings *set = SETTINGS(pool->pools);

	return (struct pool_allowance){
		.mode = (enum pool_mode)first_set(OF_USER(pool->user, pool_mode), database->pool_mode, set->pool_mode),
		.link = (enum session_link)first_set(OF_USER(pool->user, session_link), database->session_link, set->session_link),
		.state = (enum session_state)first_set(OF_USER(pool->user, session_state), database->session_state, set->session_state),
		.size = first_set(OF_USER(pool->user, pool_size), database->pool_size, set->default_pool_size),
		.reserve = first_set(OF_USER(pool->user, reserve_pool_size), database->reserve_pool_size, set->reserve_pool_size),
		.server_lifetime = first_set(CONF_UNSET, database->server_lifetime, set->server_lifetime),
	};
}

/* When the mode changes to or from session mode, the servers are closed: their sessions belong to single clients in one mode
   and to all clients in the other. */
static void renew(struct pool *pool)
{
	bool had_sessions = pool->allowed.mode == MODE_SESSION, kept_state = pool_keeps_state(pool);

	pool->allowed = pool_allowance_of(pool);
	if (had_sessions != (pool->allowed.mode == MODE_SESSION))
		pool_retire_all(pool, REASON_OBSOLETE, REASON_OBSOLETE);
	/* clients have ended that the pool did not record while session_state was not full */
	if (!kept_state && pool_keeps_state(pool))
		pool_forget_last(pool, NULL);
}

void database_renew_allowances(struct database *database)
{
	LIST_EACH(node, &database->members)
		renew(LIST_OBJECT(node, struct pool, of_database));
}

void pools_renew_allowances(struct pools *pools)
{
	LIST_EACH(node, &pools->all)
		renew(pool_at(node));
}

int64_t pool_max_pinned_of(const struct pool *pool)
{
	return first_set(OF_USER(pool->user, max_pinned), pool->database->conf->max_pinned, SETTINGS(pool->pools)->max_pinned);
}

usec_t pool_pinned_idle_timeout_of(const struct pool *pool)
{
	return first_set(OF_USER(pool->user, pinned_idle_timeout), pool->database->conf->pinned_idle_timeout,
			 SETTINGS(pool->pools)->pinned_idle_timeout);
}

usec_t client_query_wait_timeout_of(const struct pool_client *client)
{
	const struct pool *pool = client->pool;

	return first_set(OF_USER(client->login_user, query_wait_timeout), pool->database->conf->query_wait_timeout,
			 SETTINGS(pool->pools)->query_wait_timeout);
}

usec_t client_query_timeout_of(const struct pool_client *client)
{
	return first_set(OF_USER(client->login_user, query_timeout), CONF_UNSET, SETTINGS(client->pool->pools)->query_timeout);
}

int64_t database_max_servers(const struct database *database)
{
	return first_set(CONF_UNSET, database->conf->max_db_connections, SETTINGS(database->pools)->max_db_connections);
}

int64_t database_max_clients(const struct database *database)
{
	return first_set(CONF_UNSET, database->conf->max_db_client_connections,
			 SETTINGS(database->pools)->max_db_client_connections);
}

int64_t user_max_servers(const struct pools *pools, const struct user *user)
{
	return first_set(OF_USER(user, max_user_connections), CONF_UNSET, SETTINGS(pools)->max_user_connections);
}

static int64_t user_max_clients(const struct pools *pools, const struct user *user)
{
	return first_set(OF_USER(user, max_user_client_connections), CONF_UNSET,
			 SETTINGS(pools)->max_user_client_connections);
}

static bool is_reached(int64_t count, int64_t limit)
{
	return limit > 0 && count >= limit;
}

/* Returns why the pool admits no client at all, or REASON_NONE. */
static enum close_reason closed_because(const struct pool *pool)
{
	if (pool->pools->draining == POOL_DRAIN_SERVERS)
		return REASON_POOLER_SHUTTING_DOWN;
	if (pool->database->removed)
		return REASON_DATABASE_REMOVED;
	return pool->database->disabled ? REASON_DATABASE_DISABLED : REASON_NONE;
}

enum close_reason pool_may_join(const struct pool *pool, const struct user *login_user, bool is_admin)
{
	const struct database *database = pool->database;
	enum close_reason why = database->is_console ? REASON_NONE : closed_because(pool);

	/* An administrator must be able to log in to the console of a pooler that is full or shutting down. */
	if (why != REASON_NONE || (database->is_console && is_admin))
		return why;
	if (is_reached(database->clients, database_max_clients(database)))
		return REASON_MAX_DB_CLIENTS;
	if (login_user && is_reached(login_user->clients, user_max_clients(pool->pools, login_user)))
		return REASON_MAX_USER_CLIENTS;
	return REASON_NONE;
}

bool pool_is_for_internal(const struct pool *pool)
{
	return pool->internal_requests > 0 && pool->internal_requests == pool_clients(pool);
}

int64_t pool_max_internal_servers(const struct pool *pool)
{
	return pool_is_for_internal(pool) ? SETTINGS(pool->pools)->max_auth_query_connections : 0;
}

bool pool_is_unwanted(const struct pool *pool)
{
	return pool_is_stray(pool) && pool_clients(pool) == 0;
}

bool pools_may_accept(const struct pools *pools)
{
	return pools->clients <= SETTINGS(pools)->max_client_conn;
}

int pool_clients(const struct pool *pool)
{
	int count = 0;

	for (int state = 0; state < CLIENT_STATES; state++)
		count += pool->client_count[state];
	return count;
}

bool pool_is_empty(const struct pool *pool)
{
	return pool_clients(pool) == 0 && pool_live(pool) == 0 && pool->cancel_logins == 0 &&
	       pool->server_count[SERVER_ACTIVE_CANCEL] == 0;
}

bool pool_is_full(const struct pool *pool)
{
	return is_reached(pool_live(pool), pool_size_of(pool));
}

bool pool_is_forced(const struct pool *pool)
{
	const char *forced = pool->database->conf->user;

	return forced && strcmp(forced, pool->user->name) == 0;
}

int64_t pool_floor(const struct pool *pool)
{
	int64_t least = pool_min_size_of(pool), size = pool_size_of(pool);

	if (pool_is_paused(pool) || pool_is_stray(pool) || pool->database->removed || pool->pools->draining != POOL_DRAIN_NO)
		return 0;
	if (!pool_is_forced(pool) && pool_clients(pool) == 0)
		return 0;
	return size > 0 && least > size ? size : least;
}

usec_t pool_waited(const struct pool_client *client, usec_t now)
{
	usec_t held_until = client->pool->held_until;

	return now - (client->since > held_until ? client->since : held_until);
}

struct pool_client *pool_first_client(const struct pool *pool, enum client_state state)
{
	struct list *node = list_first(&pool->clients[state]);

	return node ? client_at(node) : NULL;
}
