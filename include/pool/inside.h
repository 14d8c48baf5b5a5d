#ifndef POOL_INSIDE_H
#define POOL_INSIDE_H

#include "pool/pool.h"

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
struct pool_client *pool_first_client(const struct pool *pool, enum client_state state);

/* Returns the number of server connections of the pool, without connections that carry cancel requests. */
static inline int pool_live(const struct pool *pool) { return pool->live; }
int pool_clients(const struct pool *pool);		/* all clients on its lists, including cancel requests */
bool pool_is_empty(const struct pool *pool);		/* no client, no server, no cancel request */
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
/* The database was created for an unauthenticated client, and no client has logged in to it. */
static inline bool pool_is_stray(const struct pool *pool) { return pool->database->stray && pool->database->automatic; }
/* Only internal requests use the pool: a server that is opened now counts as pool_server.for_internal. */
bool pool_is_for_internal(const struct pool *pool);
/* Returns the limit for pools->internal_servers if a server that is opened now counts for it, otherwise 0. */
int64_t pool_max_internal_servers(const struct pool *pool);
bool pool_is_full(const struct pool *pool);		/* has pool_size servers or more */
bool pool_is_forced(const struct pool *pool);		/* of the user that the database forces on its clients */
int64_t pool_floor(const struct pool *pool);		/* min_pool_size if it applies now, otherwise 0 */
/* Returns how long a client has waited, without the time in which the pool was held. */
usec_t pool_waited(const struct pool_client *client, usec_t now);

/* Returns the allowance that the settings of the user, the database and [pgbouncer] give the pool now. */
struct pool_allowance pool_allowance_of(const struct pool *pool);
/* Recompute the allowances of all pools, or of the pools of a database, after one of these settings has changed. */
void pools_renew_allowances(struct pools *pools);
void database_renew_allowances(struct database *database);

/* match.c: which client of the queue can use which server. */
struct pool_match {
	struct pool_client *matched;	/* the first client that an idle server fits, or NULL ... */
	struct pool_server *idle;	/* ... and that server */
	struct pool_client *unserved;	/* the first client that no idle, tested or connecting server is available for, or NULL */
	struct pool_server *used;	/* a USED server to be tested for the unserved client, or NULL */
	int covered;			/* clients that a tested or connecting server is available for */
	bool exact;
};
void pool_match(const struct pool *pool, struct pool_match *match);
/* Returns the idle server to lend to this client, or NULL. */
struct pool_server *pool_idle_for(const struct pool *pool, const struct pool_client *client);
/* Returns the next client that is to get the error of the failed login, or NULL if all clients wait or will be served by other
   servers. */
struct pool_client *pool_refusable(const struct pool *pool);
/* Returns how many servers can still serve a client: servers without a close_reason, including logins. */
int pool_usable(const struct pool *pool);
#define LOGINS_AT_ONCE 1000	/* server logins of one pool that may be in progress, less one */

/* Time between two attempts to reach a server that refuses connections, is not ready or is full. */
#define POOL_LOOK_EVERY (USEC / 2)
/* Returns the IDLE or USED server that is idle longest, or NULL. */
struct pool_server *pool_longest_idle(const struct pool *pool);
/* The same for the other pools of the database (user) of `pool` in which no client waits. */
struct pool_server *pool_victim_for_database(const struct pool *pool);
struct pool_server *pool_victim_for_user(const struct pool *pool);

/* life.c */
/* Clears pool_server.last where it is this client; `client` NULL: in all servers of the pool. */
void pool_forget_last(struct pool *pool, const struct pool_client *client);
void pool_link(struct pool_server *server, struct pool_client *client, usec_t now);
/* Moves servers that are idle for longer than server_check_delay to USED. */
void pool_age(struct pool *pool, usec_t now);

/* registry.c */
/* A client has logged in to an automatic database: from now on autodb_idle_timeout applies to it. */
void database_register(struct database *database);
void pool_free(struct pool *pool);
/* Frees pools, automatic and removed databases and users that nothing has used for long enough. */
void registry_sweep(struct pools *pools, usec_t now);
/* Logs that a RELOAD or autodb_idle_timeout removes the database. */
void database_log_dropped(const struct database *database);
bool name_is_console(const char *name);

/* verbs.c: closes many connections. */
/* Closes every client and server of the pool; a linked pair is closed together. */
void pool_kill(struct pool *pool, enum close_reason why);
/* Closes idle servers with `idle_why`, and marks busy servers and logins to be closed with `busy_why` when they are released. */
void pool_retire_all(struct pool *pool, enum close_reason idle_why, enum close_reason busy_why);
/* Closes the servers without a client, as PAUSE does. */
void pool_close_idle(struct pool *pool);

#endif
