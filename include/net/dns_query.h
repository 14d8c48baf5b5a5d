#ifndef NET_DNS_QUERY_H
#define NET_DNS_QUERY_H

#include "base/clock.h"
#include "net/dns_cache.h"
#include "net/dns_channel.h"

/*
 * One name's addresses, asked of the name servers. Part of net/dns.c; others use net/dns.h.
 */

/* `result` is given; `ttl` in seconds, at least 0. */
typedef void dns_query_done(void *context, struct dns_result *result, int ttl);
/* Asks for both families and calls `done` once, within `limit` and perhaps before it returns. *where points to the query
   until then. False, without a call: no memory. */
bool dns_query_start(struct dns_query **where, struct dns_channel *channel, const char *name, usec_t limit,
		     dns_query_done *done, void *context);
/* There will be no call; sets the query's *where to NULL. */
void dns_query_abandon(struct dns_query *query);
/* An answer that takes no question: an address in text, or a name in /etc/hosts. NULL: there is none. */
struct dns_result *dns_answer_locally(struct dns_channel *channel, const char *name);

#endif
