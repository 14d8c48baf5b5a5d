#ifndef POOL_HOST_H
#define POOL_HOST_H

#include "pool/pool.h"

/*
 * PostgreSQL hosts, which pools share, and their budget max_host_connections. Promise: no server is opened at a host whose budget is used up, and
 * pools with fewer servers come first.
 */

/*
 * A host: a name, address or socket directory, and its port. All pools with this host in their lists share the object, so that a failure that one
 * pool finds is known to all pools. The table is pools->hosts.
 */
struct host {
	UT_hash_handle hh;		/* by key */
	struct pools *pools;
	int users;			/* references of places and servers */
	int servers;			/* connections to it, without connections that carry cancel requests */
	int sharers, waiting;		/* pools with servers or waiting for room; pools waiting for room. Valid after hosts_count() */
	usec_t unreachable_since;	/* when connecting to the host failed last; 0 after a success, and before the first failure */
	char key[];			/* "name:port" */
};

/* A host in the list of a pool. */
struct host_place {
	struct host *host;		/* a reference */
	usec_t failed_at;		/* time of the last failed login of this pool; 0: it works, or was not tried */
};

/* Makes pool->places, in the order of the list of hosts, unless they exist. Returns them; NULL: no memory. */
struct host_place *pool_places(struct pool *pool);
/* Whether the host or this pool's login at it has failed within server_login_retry. */
bool host_place_has_failed(const struct pools *pools, const struct host_place *place, usec_t now);
static inline bool host_is_full(const struct host *host)
{
	return is_reached(host->servers, host->pools->conf->settings.max_host_connections);
}
/* The server is opened at this host: it counts there and no longer at another host. NULL: at none. */
void pool_server_set_host(struct pool_server *server, struct host *host);
/* The same for the host with this key. False: no memory. */
bool pool_server_restore_host(struct pool_server *server, const char *key);
/* Writes how much of the budgets of the pool's hosts is in use, and the pools with the most: "the host db:5432 has 20 of 20 server connections
   (max_host_connections): 9 of app/anna, 4 of report/bob". Returns buf. */
const char *pool_hosts_text(const struct pool *pool, char *buf, size_t size);

#endif
