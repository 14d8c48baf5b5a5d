#ifndef POOL_INSIDE_H
#define POOL_INSIDE_H

#include "pool/pool.h"

/*
 * What the files of the pool room share among themselves. No other room includes this.
 *
 * Order of the lists that policy reads: clients[WAITING] and the other client lists have the longest in
 * that state first; servers[IDLE] and servers[USED] have the longest idle LAST, and every USED one is idle
 * for longer than any IDLE one.
 */
static inline struct pool_client *client_at(struct list *node) { return LIST_OBJECT(node, struct pool_client, node); }
static inline struct pool_server *server_at(struct list *node) { return LIST_OBJECT(node, struct pool_server, node); }
static inline struct pool *pool_at(struct list *node) { return LIST_OBJECT(node, struct pool, node); }

/* The first of a list of clients, or NULL. */
struct pool_client *pool_first_client(const struct pool *pool, enum client_state state);

/* Server connections of the pool, without those that carry cancel requests. */
static inline int pool_live(const struct pool *pool) { return pool->live; }
int pool_clients(const struct pool *pool);		/* all on its lists, cancel requests too */
bool pool_is_empty(const struct pool *pool);		/* no client, no server, no cancel request */
/* By PAUSE, KILL or SHUTDOWN WAIT_FOR_SERVERS: idle servers close. */
static inline bool pool_is_paused(const struct pool *pool)
{
	const struct pools *pools = pool->pools;

	return (pools->paused || pools->draining == DRAIN_SERVERS || pool->database->paused) && !pool->database->is_console;
}
/* That, or SUSPEND: nothing is lent. */
static inline bool pool_is_held(const struct pool *pool)
{
	return pool_is_paused(pool) || (pool->pools->suspended && !pool->database->is_console);
}
/* Its database is one that a client has named which was not authenticated, and none has logged in to. */
static inline bool pool_is_stray(const struct pool *pool) { return pool->database->stray && pool->database->automatic; }
/* Only internal requests use it: a server that is opened now is for them (pool_server.for_internal). */
bool pool_is_for_internal(const struct pool *pool);
/* The limit for pools->internal_servers, where a server that is opened now would count for it; 0: it would not. */
int64_t pool_max_internal_servers(const struct pool *pool);
bool pool_is_full(const struct pool *pool);		/* or above its size */
bool pool_is_forced(const struct pool *pool);		/* of the user that the database forces on its clients */
int64_t pool_floor(const struct pool *pool);		/* min_pool_size, where it applies now */
/* How long a client has waited, without the time in which the pool was held. */
usec_t pool_waited(const struct pool_client *client, usec_t now);

/* What the pool's user, database and the global settings say now. */
struct pool_allowance pool_allowance_of(const struct pool *pool);
/* To be called when one of these three becomes another one. */
void pools_renew_allowances(struct pools *pools);
void database_renew_allowances(struct database *database);

/* match.c: which client of a queue could get which server. */
struct pool_match {
	struct pool_client *taker;	/* the first client that an idle server fits, or NULL ... */
	struct pool_server *idle;	/* ... and that server */
	struct pool_client *needy;	/* the first client that no server, idle, in test or in login, is there for, or NULL */
	struct pool_server *used;	/* one to be tested for it, or NULL */
	int covered;			/* clients with one in test or in login for them */
	bool exact;
};
void pool_match(const struct pool *pool, struct pool_match *match);
/* The idle server to lend to this client, or NULL. */
struct pool_server *pool_idle_for(const struct pool *pool, const struct pool_client *client);
/* The next client that is to hear of the failed login, or NULL: all others wait, or are served by other servers. */
struct pool_client *pool_refusable(const struct pool *pool);
/* How many servers may still serve a client: those without a close_reason, logins included. */
int pool_usable(const struct pool *pool);
#define LOGINS_AT_ONCE 1000	/* server logins of one pool that may be in progress, less one */

/* Between two attempts to reach a server that is away, busy or full. */
#define POOL_LOOK_EVERY (USEC / 2)
/* IDLE or USED, the longest idle one; or NULL. */
struct pool_server *pool_longest_idle(const struct pool *pool);
/* The same over the other pools of the database (user) of `pool` that no client waits in. */
struct pool_server *pool_victim_for_database(const struct pool *pool);
struct pool_server *pool_victim_for_user(const struct pool *pool);

/* life.c */
/* No server was linked to this client last, or, if NULL, to any. */
void pool_forget_last(struct pool *pool, const struct pool_client *client);
void pool_link(struct pool_server *server, struct pool_client *client, usec_t now);
/* Moves to USED what has been idle longer than server_check_delay. */
void pool_age(struct pool *pool, usec_t now);

/* registry.c */
/* A client has logged in to it: from now on it lives as any other one made from "*". */
void database_register(struct database *database);
void pool_free(struct pool *pool);
/* Frees pools, automatic and removed databases and unknown users that nothing has used for long enough. */
void registry_sweep(struct pools *pools, usec_t now);
/* The line for a database that a RELOAD or autodb_idle_timeout takes away. */
void database_log_dropped(const struct database *database);
bool name_is_console(const char *name);

/* verbs.c: closing many. */
/* Every client and server of the pool, linked ones together. */
void pool_kill(struct pool *pool, enum close_reason why);
/* The same, and logins at once: they lead where no client is to go any more. */
void pool_retire_all(struct pool *pool, enum close_reason idle_why, enum close_reason busy_why);
/* What a pause closes at once: servers without a client. */
void pool_close_idle(struct pool *pool);

#endif
