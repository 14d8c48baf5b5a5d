#ifndef NET_DNS_H
#define NET_DNS_H

#include "base/clock.h"
#include "net/address.h"

#include <event2/event.h>

/*
 * Asynchronous name resolution with c-ares on the event loop, with a cache. /etc/hosts is used.
 * Neither a name server that does not answer nor a failing AAAA query delays a login indefinitely.
 */
struct dns;
struct dns_answer;

struct dns_config {
	const char *resolv_conf;	/* NULL: /etc/resolv.conf; name servers may have ports */
	/* "192.0.2.1:5353,[2001:db8::1]:53" instead of the servers of resolv.conf; NULL: these */
	const char *servers;
	usec_t max_ttl;			/* upper limit for the lifetime of answers */
	usec_t nxdomain_ttl;		/* lifetime of a failure */
	usec_t zone_check_period;	/* 0: zones are not checked */
	usec_t timeout;			/* of a whole lookup; 0: 10 seconds */
	/* Called from the event loop for a refreshed answer that has addresses but lacks some
	   addresses of the previous answer. A failure does not count as a change, because a failing
	   name server must not cut working connections. May be NULL. */
	void (*changed)(void *context, const char *name, const struct dns_answer *now);
	void *context;
};

/* Returns NULL with a text in `why`. Strings are copied. */
struct dns *dns_open(struct event_base *base, const struct dns_config *config, char *why,
		     size_t why_size);
/* Applies a new configuration. Reads the files again, and repeats the queries in progress; cached
   answers are kept until they expire, but no longer than the new limits allow. Must not be called
   from a callback. */
void dns_configure(struct dns *dns, const struct dns_config *config);
/* Frees everything; open requests end without a callback. Must not be called from a callback. */
void dns_close(struct dns **dns);

struct dns_answer {
	int count;			/* 0: the name does not resolve */
	int reachable;			/* the first `reachable` addresses have a route */
	/* index of the address to begin with; the next request begins with the next address */
	int first;
	/* port 0; in the order of the answer, but the address family without a route is last; valid
	   during the callback */
	const struct address *addresses;
	const char *error;		/* if count is 0 */
};
/* Returns the address for attempt i (from 0, below count): first the reachable addresses in turn,
   beginning with `first`, then the others. */
static inline const struct address *dns_answer_at(const struct dns_answer *answer, int i)
{
	return &answer->addresses[i < answer->reachable ? (answer->first + i) % answer->reachable
							: i];
}
/* Returns the addresses in that order, with this port. The caller frees the array. NULL: no
   memory. */
struct address *dns_answer_copy(const struct dns_answer *answer, uint16_t port);
typedef void dns_done(void *context, const struct dns_answer *answer);
struct dns_request;
/* Resolves a name, or parses an IP address. Requests for the same name share one query. Calls
   `done` once from the event loop, never within this call, unless dns_cancel is called before.
   NULL: no memory. */
struct dns_request *dns_lookup(struct dns *dns, const char *name, dns_done *done, void *context);
/* Cancels the callback. Sets *request to NULL; *request may be NULL. Not allowed after the callback
   of the request has begun. */
void dns_cancel(struct dns_request **request);

/* The name is in use: its expired answer is refreshed, at most once a second, so that changes are
   noticed without a request. The caller calls this about once a second. If the name is not in the
   cache, the first answer counts as a change. A failed refresh keeps the expired answer. */
void dns_watch(struct dns *dns, const char *name);

/* For SHOW DNS_HOSTS, DNS_ZONES and LISTS: visits each cached name, with its remaining lifetime in
   seconds, and each watched zone. Either visitor may be NULL. */
typedef void dns_host_visit(void *context, const char *name, int64_t ttl,
			    const struct dns_answer *answer);
typedef void dns_zone_visit(void *context, const char *zone, int64_t serial, int hosts);
void dns_each(struct dns *dns, usec_t now, dns_host_visit *visit_host, dns_zone_visit *visit_zone,
	      void *context);
/* Numbers of cached names, watched zones, and queries in progress. */
struct dns_counts { int hosts, zones, queries; };
struct dns_counts dns_count(const struct dns *dns);

#endif
