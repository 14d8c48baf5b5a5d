#ifndef POOL_ROWS_H
#define POOL_ROWS_H

#include "pool/pool.h"

/*
 * The values that SHOW POOLS, DATABASES, USERS and STATS print, so that the caller needs none of
 * the structs of room pool. Each number is the effective value. Pointers are borrowed, and valid
 * until a pool, user or database changes.
 */
#define POOL_NO_HOST "(none)"		/* host of a pool in which clients wait for a host */
struct pool_row {
	const struct pool *pool;
	const char *database, *user;
	int clients, waiting, active_cancel_requests, waiting_cancel_requests;
	/* servers: */
	int active, active_cancel, being_canceled, idle, used, tested, login;
	usec_t longest_wait;			/* of the first client in the queue */
	const char *mode, *load_balance;	/* load_balance: NULL: the database has one host */
	const char *link;			/* NULL if the pool is not in session mode */
	const char *state;			/* NULL in session mode */
	int64_t size, min_size, reserve;
	/* servers that the pool keeps while others wait for its hosts; 0: no limit */
	int64_t host_share;
	int pinned;				/* clients that keep their server */
	int listening;				/* clients that LISTEN */
	uint64_t notifications;			/* sent to listening clients */
	/* see struct pool */
	uint64_t gone_cancels, gone_kept, read_asks, state_asks, state_restores;
	/* the setting or condition that keeps the queue waiting; NULL: no queue */
	const char *held_by;
	/* NULL: the pool is at no single host; a pool whose clients wait for a host has no role */
	const char *host, *role;
	bool is_console;
};

struct database_row {
	const char *name, *host, *dbname, *forced_user;	/* host, forced_user: may be NULL */
	int port;
	int64_t size, min_size, reserve;
	usec_t server_lifetime;
	/* NULL: not set; otherwise as in struct pool_row */
	const char *mode, *link, *state, *load_balance, *sslmode;
	int64_t max_servers, max_clients;	/* 0: unlimited */
	int64_t servers, clients;
	int pools;
	bool is_paused, is_disabled, is_automatic, is_removed;
	const struct stats_history *stats;
};

struct host_row {
	const struct host *host;
	const char *name;			/* with the port */
	/* NULL: no database asks for the role of the host */
	const char *role;
	const char *state, *why;		/* why: NULL: no event so far */
	/* state `refuses`: a pool whose logins the host refuses */
	const struct pool *refused;
	int64_t servers;
	int pools, waiting_pools;	/* pools: with servers, or waiting for room */
	int used;				/* servers that serve a client */
	int64_t max_servers;			/* 0: unlimited */
	/* connecting has failed within server_login_retry */
	bool is_unreachable;
};

struct user_row {
	int64_t size, reserve;			/* CONF_UNSET: not set */
	const char *mode, *link, *state;	/* NULL: not set */
	int64_t max_servers, max_clients;	/* 0: unlimited */
	int64_t servers, clients;
};

/* Calls give() for each row, in the order of the names (pools: by database, then user). Returns
   false without a call if there is no memory. */
bool pools_each_row(const struct pools *pools, usec_t now,
		    void (*give)(void *context, const struct pool_row *row), void *context);
void pool_row_of(const struct pool *pool, usec_t now, struct pool_row *row);
/* Adds up the numbers of clients and servers of all pools but the console; the other members of the
   sum are 0, and longest_wait is the longest. */
void pools_sum_row(const struct pools *pools, usec_t now, struct pool_row *sum);
bool databases_each_row(const struct pools *pools,
			void (*give)(void *context, const struct database_row *row), void *context);
bool hosts_each_row(const struct pools *pools, usec_t now,
		    void (*give)(void *context, const struct host_row *row), void *context);
/* Fills the row for any name, also of an unknown user. */
void user_row_of(const struct pools *pools, const char *name, struct user_row *row);
/* Sums the statistics of all databases. Their periods end together; the first period of a new
   database is shorter and counts like the other periods. */
void pools_sum_stats(const struct pools *pools, struct stats_history *sum);

/* The setting or condition that keeps the clients of a pool waiting; NULL for LIMIT_NONE. */
extern const char *const pool_limit_names[POOL_LIMITS];
/* The limits that several pools share. */
enum pool_holding {
	HOLDING_DATABASE_SERVERS,
	HOLDING_USER_SERVERS,
	HOLDING_DATABASE_CLIENTS,
	HOLDING_USER_CLIENTS
};
#define HOLDING_TEXT 512
/* Writes how much of a limit is in use, its setting, and the pools with the most: "the database has
   20 of 20 server connections (max_db_connections): 15 of app, 5 of report". `user`: of a limit of
   a user. Returns buf. */
const char *pool_holding_text(const struct pool *pool, const struct user *user,
			      enum pool_holding what, char buf[HOLDING_TEXT]);
/* Returns the server that a client has had for the longest time, of all pools under the limit;
   NULL: no client has one. */
struct pool_server *pool_longest_in_use(const struct pool *pool, enum pool_limit limit);

struct pools_counts {
	int databases, users, pools;
	int clients_in_login;
};
struct pools_counts pools_count(const struct pools *pools);

#endif
