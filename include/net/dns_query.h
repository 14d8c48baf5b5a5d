#ifndef NET_DNS_QUERY_H
#define NET_DNS_QUERY_H

#include "base/clock.h"
#include "net/address.h"
#include "net/dns_channel.h"

/*
 * A query for the addresses of a name. Part of net/dns.c; others use net/dns.h.
 */

/* A reference-counted answer, shared by the cache and the callbacks that read it. */
struct dns_result {
	int holders;
	int count;
	int reachable;			/* the first `reachable` addresses have a route */
	const char *error;		/* a constant; if count is 0 */
	struct address addresses[];
};
/* Returns an answer with one reference, zero addresses, and all addresses reachable. NULL: no memory. */
struct dns_result *dns_result_new(int count, const char *error);
struct dns_result *dns_result_hold(struct dns_result *result);
/* Drops a reference and sets *result to NULL; *result may be NULL. */
void dns_result_drop(struct dns_result **result);
/* The answer for missing memory. It is static and has an extra reference, so it is never freed. */
extern struct dns_result dns_no_memory;

struct dns_query;
/* Passes ownership of `result`; `ttl` in seconds, at least 0. */
typedef void dns_query_done(void *context, struct dns_result *result, int ttl);
/* Queries both address families and calls `done` once, within `limit` and possibly before this call returns. *where points to
   the query until then. False, without a call of `done`: no memory. */
bool dns_query_start(struct dns_query **where, struct dns_channel *channel, const char *name, usec_t limit,
		     dns_query_done *done, void *context);
/* Cancels the call of `done`; sets the query's *where to NULL. */
void dns_query_abandon(struct dns_query *query);
/* Returns an answer that needs no query: for an address in text, or a name in /etc/hosts; otherwise NULL. */
struct dns_result *dns_answer_locally(struct dns_channel *channel, const char *name);

#endif
