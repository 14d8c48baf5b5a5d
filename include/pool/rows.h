#ifndef POOL_ROWS_H
#define POOL_ROWS_H

#include "pool/pool.h"

/*
 * What is shown of pools, databases and users (SHOW POOLS, DATABASES, USERS, STATS), so that what shows it knows none of the
 * structs here. A number is the one that is acted upon. Pointers are borrowed, and good until something changes.
 */
struct pool_row {
	const struct pool *pool;
	const char *database, *user;
	int clients, waiting, active_cancel_requests, waiting_cancel_requests;
	/* servers: */
	int active, active_cancel, being_canceled, idle, used, tested, login;
	usec_t longest_wait;			/* of the first one in the queue */
	const char *mode, *load_balance;	/* load_balance: NULL: there is one host */
	const char *link;			/* in session mode; NULL: another one */
	const char *state;			/* in other modes; NULL: session mode */
	int64_t size, min_size, reserve;
	int pinned;				/* clients that keep their server */
	int listening;				/* clients that listen */
	uint64_t notifications;			/* that these have been told */
	uint64_t state_asks, state_restores;	/* see struct pool */
	const char *held_by;			/* the setting that keeps the queue waiting, or what else does; NULL: no queue */
	bool is_console;
};

struct database_row {
	const char *name, *host, *dbname, *forced_user;	/* host, forced_user: NULL: none */
	int port;
	int64_t size, min_size, reserve;
	usec_t server_lifetime;
	const char *mode, *link, *state, *load_balance;	/* NULL: not set; as above */
	int64_t max_servers, max_clients;	/* 0: unlimited */
	int servers, clients, pools;
	bool is_paused, is_disabled, is_automatic, is_removed;
	const struct stats_history *stats;
};

struct user_row {
	int64_t size, reserve;			/* CONF_UNSET: not set */
	const char *mode, *link, *state;	/* NULL: not set */
	int64_t max_servers, max_clients;	/* 0: unlimited */
	int servers, clients;
};

/* Calls give() for each, in the order of the names (pools: of database, then user). False: no memory, and none was given. */
bool pools_each_row(const struct pools *pools, usec_t now, void (*give)(void *context, const struct pool_row *row), void *context);
bool databases_each_row(const struct pools *pools, void (*give)(void *context, const struct database_row *row), void *context);
/* For any name. */
void user_row_of(const struct pools *pools, const char *name, struct user_row *row);
/* Calls give() for each name of a user that the configuration or a connection names, some of them twice. */
void pools_each_user_name(const struct pools *pools, void (*give)(void *context, const char *name), void *context);
/* All databases as if they were one. Their periods end together; the shorter first one of a database that is new counts for as
   long as the others'. */
void pools_sum_stats(const struct pools *pools, struct stats_history *sum);

struct pools_counts {
	int databases, users, pools;
	int clients_in_login;
};
struct pools_counts pools_count(const struct pools *pools);

#endif
