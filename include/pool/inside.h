#ifndef POOL_INSIDE_H
#define POOL_INSIDE_H

#include "pool/pool.h"

#include <string.h>

/*
 * Declarations that the files of room pool share. No other room includes this header.
 *
 * Order of the lists: in clients[WAITING] and the other client lists, the client that is longest in
 * the state is first. In servers[IDLE] and servers[USED], the server that is idle longest is LAST;
 * every USED server is idle for longer than any IDLE server.
 */
static inline struct pool_client *client_at(struct list *node)
{
	return LIST_OBJECT(node, struct pool_client, node);
}
static inline struct pool_server *server_at(struct list *node)
{
	return LIST_OBJECT(node, struct pool_server, node);
}
static inline struct pool *pool_at(struct list *node)
{
	return LIST_OBJECT(node, struct pool, node);
}

/* Whether the connection carries a cancel request or belongs to a watcher. Such a connection serves
   no clients and counts for no limit. */
static inline bool server_is_apart(const struct pool_server *server)
{
	return server->is_cancel || server->is_watcher;
}

/* Returns the first client in this state, or NULL. */
static inline struct pool_client *client_first(const struct pool *pool, enum client_state state)
{
	struct list *node = list_first(&pool->clients[state]);

	return node ? client_at(node) : NULL;
}

/* Returns the IDLE or USED server that is idle longest, or NULL. */
static inline struct pool_server *pool_idle_longest(const struct pool *pool)
{
	struct list *node = list_last(&pool->servers[SERVER_USED]);

	if (!node)
		node = list_last(&pool->servers[SERVER_IDLE]);
	return node ? server_at(node) : NULL;
}

/* Closes the server with ops->drop. Returns whether it has ended: the reap may have to do that
   first. */
static inline bool server_drop(struct pool_server *server, enum close_reason why)
{
	server->pool->pools->ops->drop(server, why);
	return server->state == SERVER_DEAD;
}

/* Whether the client is a cancel request, which waits for a connection or has one. */
static inline bool client_is_canceller(unsigned state)
{
	return state == CLIENT_WAITING_CANCEL || state == CLIENT_ACTIVE_CANCEL;
}
/* Whether the pool has no client, no server and no cancel request. */
static inline bool pool_is_empty(const struct pool *pool)
{
	return pool_clients(pool) == 0 && pool->live == 0 && pool->apart_logins == 0 &&
	       pool->server_count[SERVER_ACTIVE_CANCEL] == 0 &&
	       pool->server_count[SERVER_WATCHING] == 0;
}

/* Whether the pool is paused by PAUSE, KILL or SHUTDOWN WAIT_FOR_SERVERS, so that idle servers
   close. */
static inline bool pool_is_paused(const struct pool *pool)
{
	const struct pools *pools = pool->pools;

	return (pools->paused || pools->draining == POOL_DRAIN_SERVERS || pool->database->paused) &&
	       !pool->database->is_console;
}
/* Whether the pool is paused or suspended, so that no server is lent. */
static inline bool pool_is_stopped(const struct pool *pool)
{
	return pool_is_paused(pool) || (pool->pools->suspended && !pool->database->is_console);
}
/* Returns how long a client has waited, without the time in which the pool was stopped. */
static inline usec_t pool_waited(const struct pool_client *client, usec_t now)
{
	usec_t stopped_until = client->pool->stopped_until;

	return now - (client->since > stopped_until ? client->since : stopped_until);
}

/* life.c */
/* Whether only internal requests, such as auth_query, use the pool. Then a new server counts for
   max_auth_query_connections (pool_server.for_internal). */
static inline bool pool_is_for_internal(const struct pool *pool)
{
	return pool->internal_requests > 0 && pool->internal_requests == pool_clients(pool);
}

/* Returns how many servers can still serve a client: servers without a close_reason, with
   `with_logins` also servers that log in. */
int pool_count_usable(const struct pool *pool, bool with_logins);
/* Whether the host gives the pool no server at the moment, so that the client should use another
   host. */
bool pool_refuses(const struct pool *pool, const struct pool_client *client, usec_t now);

/* seats.c */
/* Opens a server with ops->dial, for a client of the pool or for none, if every budget has room for
   one more; `most` servers of the pool may be open, 0: any number. Returns whether there was
   room. */
bool pool_dial(struct pool *pool, struct pool_client *client, int64_t most);
/* Counts a new server in the budgets: with the seat that pool_dial() has taken, or, if an online
   restart has handed the server over, also beyond a limit. The kind of the server is known. */
void seat_use(struct pool_server *server);
/* A client gets a server that only look-ups have used. */
void seat_serves_clients(struct pool_server *server);
/* The server has ended, or becomes a watcher. */
void seat_give(struct pool_server *server);
/* The pool waits for the budget of this limit, and for no other; `first`: the client that waits
   longest for a server or, without such a client, for the parameters of one; NULL: none. */
void pool_wait_for(struct pool *pool, enum pool_limit limit, const struct pool_client *first);
/* The server is idle, or has ended: marks the pools of this world that wait for a budget that the
   server counts for. Pools of other worlds are marked if it has ended; an idle server is given to
   them at the end of the turn. */
void seats_wake(const struct pool_server *server);
/* Returns the pool of another world that waits for a server of this pool, longest waiting first, or
   NULL. */
struct pool *pool_elsewhere(const struct pool *pool);
/* Whether the idle servers of the pool go to another world first: a client of the same pool there
   has waited longer than `first`, which may be NULL. */
bool pool_owes(const struct pool *pool, const struct pool_client *first);
/* At the end of its turn the world gives idle servers to others. */
static inline void pools_ask(struct pools *pools)
{
	struct list *first = list_first(&pools->all);

	pools->bell.is_asked = true;
	/* the turn schedules a world with a marked pool */
	if (first)
		pool_mark(pool_at(first));
}
/* Marks `pool` for the scheduler: it waits for this server, or for room in a budget of this server.
   NULL: a host has room. */
static inline void pool_ring(struct pool *pool, const struct pool_server *server)
{
	if (!server || pool->pools == server->pool->pools || server->state == SERVER_DEAD)
		pool_mark(pool);
	else
		pools_ask(server->pool->pools);
}
/* The budgets of an object; false, NULL: no memory. */
bool database_hold_budgets(struct database *database);
void database_drop_budgets(struct database *database);
bool user_hold_budgets(struct pools *pools, struct user *user);
void user_drop_budgets(struct pools *pools, struct user *user);
struct budget *pool_hold_budget(const struct database *database, const struct user *user,
				const struct host *host);
/* The limits are set to those of the configuration. */
void database_set_limits(struct database *database);
void user_set_limits(struct pools *pools, struct user *user);
void pools_set_limits(struct pools *pools);
/* Asserts that each budget is used by exactly the connections of all worlds that count for it. */
void seats_check(struct shared *shared);

/* give.c */
/* Gives idle servers to the pools of other worlds that wait for them, at the end of the turn. */
void pools_give(struct pools *pools, usec_t now);

/* host.c */
void host_set_limits(struct host *host);
/* Returns the pool that gets the next room at the host, or NULL; and whether the idle server is to
   close for it. */
struct pool *host_awaited_by(const struct host *host);
bool host_owes(const struct pool_server *server, const struct pool *to, usec_t now);
/* Whether no host of the pool has room for another server of this pool, also because other pools
   come first. Needs pool_places(). */
bool pool_hosts_are_full(const struct pool *pool, usec_t now);
/* Returns the idle server of another pool that can be closed to make room for this pool, or
   NULL. */
struct pool_server *pool_hosts_evictable(const struct pool *pool, usec_t now);
/* Returns why pool_size or max_host_connections closes this server, which its client releases, or
   REASON_NONE. */
enum close_reason pool_server_is_claimed(const struct pool_server *server, usec_t now);
/* Compute close_above of all pools anew after a change of a limit, and set are_hosts_scarce. */
void pools_renew_close_above(struct pools *pools);
void pools_set_scarce(struct pools *pools, bool are_scarce);
int64_t pool_close_above(const struct pool *pool);
/* Marks the pool that comes first at the host, because of this server or, with NULL, because the
   host has room; or at each host of the pool that has room. */
void host_wake(const struct host *host, const struct pool_server *server);
void pool_hosts_wake(const struct pool *pool);
/* Returns the server that its client has had for the longest time, of all servers at hosts of the
   pool, or NULL. */
struct pool_server *pool_hosts_longest_in_use(const struct pool *pool);
void pool_places_clear(struct pool *pool);
/* sets `sharers` and `waiting` of each host */
void hosts_count(const struct pools *pools);
/* closes idle servers of hosts that exceed max_host_connections */
void hosts_maintain(struct pools *pools);

/* closed.c */
/* The host was just made: a DRAIN may concern it. */
void host_admit(struct host *host);

/* schedule.c */
#define LOGINS_AT_ONCE 1000	/* server logins of one pool that may be in progress, less one */

/* registry.c */
/* Whether the database forces the user of this pool on its clients (user= of its entry). */
static inline bool pool_is_forced(const struct pool *pool)
{
	const char *forced = pool->database->conf->user;

	return forced && strcmp(forced, pool->user->name) == 0;
}
/* Returns the allowance that the settings of the user, the database and [pgbouncer] give the pool
   now. */
struct pool_allowance pool_allowance_of(const struct pool *pool);
/* Sets pool->allowed, and what follows from it. */
void pool_allow(struct pool *pool);
/* A client has logged in to an automatic database: from now on autodb_idle_timeout applies to
   it. */
void database_register(struct database *database);
/* Returns the database of this name, also if it was removed, or NULL. */
struct database *database_by_name(struct pools *pools, const char *name);
/* Removes the user, which has no pool and no client, from the table, and frees it. */
void user_free(struct pools *pools, struct user *user);
/* Removes the pool, which is unused, from all tables and lists, and frees it. */
void pool_free(struct pool *pool);

/* databases.c */
/* Frees pools, automatic and removed databases and users that nothing has used for long enough. */
void pools_sweep(struct pools *pools, usec_t now);

/* commands.c */
/* Closes the servers without a client, as PAUSE does. */
void pool_close_idle(struct pool *pool);
/* Closes every client and server of the pool; a linked pair is closed together. */
void pool_kill(struct pool *pool, enum close_reason why);
/* Closes unused servers at once with `idle_why`, and with `logins_too` servers that log in. Marks
   the others with `busy_why`: they close when they are released, and logins after one second. */
void pool_retire(struct pool *pool, enum close_reason idle_why, enum close_reason busy_why,
		 bool logins_too);

#endif
