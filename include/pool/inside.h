#ifndef POOL_INSIDE_H
#define POOL_INSIDE_H

#include "pool/pool.h"

#include <string.h>

/*
 * Declarations that the files of room pool share. No other room includes this header.
 *
 * Order of the lists: in clients[WAITING] and the other client lists, the client that is longest in the state is first. In
 * servers[IDLE] and servers[USED], the server that is idle longest is LAST; every USED server is idle for longer than any IDLE
 * server.
 */
static inline struct pool_client *client_at(struct list *node) { return LIST_OBJECT(node, struct pool_client, node); }
static inline struct pool_server *server_at(struct list *node) { return LIST_OBJECT(node, struct pool_server, node); }
static inline struct pool *pool_at(struct list *node) { return LIST_OBJECT(node, struct pool, node); }

/* Returns the first client in this state, or NULL. */
static inline struct pool_client *client_first(const struct pool *pool, enum client_state state)
{
	struct list *node = list_first(&pool->clients[state]);

	return node ? client_at(node) : NULL;
}

/* Limit 0: unlimited. */
static inline bool is_reached(int64_t count, int64_t limit) { return limit > 0 && count >= limit; }

/* Closes the server with ops->drop. Returns whether it has ended: the reap may have to do that first. */
static inline bool server_drop(struct pool_server *server, enum close_reason why)
{
	server->pool->pools->ops->drop(server, why);
	return server->state == SERVER_DEAD;
}

/* Paused by PAUSE, KILL or SHUTDOWN WAIT_FOR_SERVERS: idle servers close. */
static inline bool pool_is_paused(const struct pool *pool)
{
	const struct pools *pools = pool->pools;

	return (pools->paused || pools->draining == POOL_DRAIN_SERVERS || pool->database->paused) && !pool->database->is_console;
}
/* Paused or suspended: no server is lent. */
static inline bool pool_is_held(const struct pool *pool)
{
	return pool_is_paused(pool) || (pool->pools->suspended && !pool->database->is_console);
}
/* Returns how long a client has waited, without the time in which the pool was held. */
static inline usec_t pool_waited(const struct pool_client *client, usec_t now)
{
	usec_t held_until = client->pool->held_until;

	return now - (client->since > held_until ? client->since : held_until);
}

/* life.c */
/* All clients on its lists, including cancel requests. */
static inline int pool_clients(const struct pool *pool)
{
	int count = 0;

	for (int state = 0; state < CLIENT_STATES; state++)
		count += pool->client_count[state];
	return count;
}
/* Only internal requests use the pool: a server that is opened now counts as pool_server.for_internal. */
static inline bool pool_is_for_internal(const struct pool *pool)
{
	return pool->internal_requests > 0 && pool->internal_requests == pool_clients(pool);
}

/* schedule.c */
#define LOGINS_AT_ONCE 1000	/* server logins of one pool that may be in progress, less one */

/* registry.c */
/* The setting of a user, or CONF_UNSET; and the first of two settings that is set, or the global one. */
#define OF_USER(user, name) ((user) && (user)->conf ? (user)->conf->name : CONF_UNSET)
static inline int64_t first_set(int64_t a, int64_t b, int64_t global)
{
	if (a != CONF_UNSET)
		return a;
	return b != CONF_UNSET ? b : global;
}
/* The database forces the user of this pool on its clients. */
static inline bool pool_is_forced(const struct pool *pool)
{
	const char *forced = pool->database->conf->user;

	return forced && strcmp(forced, pool->user->name) == 0;
}
/* Returns the allowance that the settings of the user, the database and [pgbouncer] give the pool now. */
struct pool_allowance pool_allowance_of(const struct pool *pool);
/* A client has logged in to an automatic database: from now on autodb_idle_timeout applies to it. */
void database_register(struct database *database);
/* Frees pools, automatic and removed databases and users that nothing has used for long enough. */
void registry_sweep(struct pools *pools, usec_t now);
/* Closes the servers without a client, as PAUSE does. */
void pool_close_idle(struct pool *pool);

#endif
