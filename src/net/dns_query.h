#ifndef NET_DNS_QUERY_H
#define NET_DNS_QUERY_H

#include <stdbool.h>

#include <ares.h>
#include <event2/event.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/address.h"

/*
 * The channel to the name servers, and a query for the addresses of a name. Part of net/dns.c;
 * others use net/dns.h.
 */

/* A c-ares channel on the event loop. */
struct dns_channel {
	struct event_base *base;
	ares_channel ares;
	struct event *timer;		/* timeouts of c-ares */
	struct list sockets;
	bool is_deaf;			/* no memory to watch one of c-ares's sockets */
};

/* Opens a zeroed channel, or reads the configuration of an open channel again: callbacks of queries
   in progress are called with ARES_EDESTRUCTION, so this must not be called from a callback of
   c-ares. `servers` as in struct dns_config. Returns a c-ares status; after a failure an open
   channel is unchanged. Must be closed in any case. */
int dns_channel_open(struct dns_channel *c, struct event_base *base, const char *resolv_conf,
		     const char *servers);
/* Callbacks of queries in progress are called with ARES_EDESTRUCTION. A zeroed channel is
   allowed. */
void dns_channel_close(struct dns_channel *c);
/* Must be called after each call of c-ares that may start or continue a query. */
void dns_channel_arm(struct dns_channel *c);

/* If a "nameserver" line of the file has a port (192.0.2.1:5353, [2001:db8::1]:5353), returns all
   its name servers in the syntax of c-ares, separated by commas; free with mem_free. NULL: no line
   has a port, so c-ares can read the file itself; or the file cannot be read, or there is no
   memory. */
char *dns_servers_read(const char *path);

/* A reference-counted answer, shared by the cache and the callbacks that read it. */
struct dns_result {
	int holders;
	int count;
	int reachable;			/* the first `reachable` addresses have a route */
	const char *error;		/* a constant; if count is 0 */
	struct address addresses[];
};
static inline struct dns_result *dns_result_hold(struct dns_result *result)
{
	result->holders++;
	return result;
}
/* Drops a reference and sets *result to NULL; *result may be NULL. */
static inline void dns_result_drop(struct dns_result **result)
{
	if (*result && --(*result)->holders == 0)
		mem_free(*result);
	*result = NULL;
}
/* The answer for missing memory. It is static and has an extra reference, so it is never freed. */
extern struct dns_result dns_no_memory;

struct dns_query;
/* Passes ownership of `result`; `ttl` in seconds, at least 0. DNS_TTL_LOCAL: no query was needed,
   for an address in text or a name in /etc/hosts. */
#define DNS_TTL_LOCAL (-1)
typedef void dns_query_done(void *context, struct dns_result *result, int ttl);
/* Queries both address families and calls `done` once, within `limit` and possibly before this call
   returns. *where points to the query until then. False, without a call of `done`: no memory. */
bool dns_query_start(struct dns_query **where, struct dns_channel *channel, const char *name,
		     usec_t limit, dns_query_done *done, void *context);
/* Cancels the call of `done`; sets the query's *where to NULL. */
void dns_query_abandon(struct dns_query *query);

#endif
