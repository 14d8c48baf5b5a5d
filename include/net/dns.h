#ifndef NET_DNS_H
#define NET_DNS_H

#include "base/clock.h"
#include "net/address.h"

#include <event2/event.h>

/*
 * Names to addresses with c-ares, driven by the event loop, with a cache. /etc/hosts counts. Neither
 * a silent server nor a failing AAAA holds up a login for ever.
 */
struct dns;

struct dns_config {
	const char *resolv_conf;	/* NULL: /etc/resolv.conf; name servers may have ports (net/dns_servers.h) */
	const char *servers;		/* "192.0.2.1:5353,[2001:db8::1]:53" instead of its servers; NULL: those */
	usec_t max_ttl;			/* answers are not kept longer */
	usec_t nxdomain_ttl;		/* how long a failure is remembered */
	usec_t zone_check_period;	/* 0: zones are not checked */
	usec_t timeout;			/* of a whole lookup; 0: 10 seconds */
};

/* NULL with a text. Strings are copied. */
struct dns *dns_open(struct event_base *base, const struct dns_config *config, char *why, size_t why_size);
/* Takes over other values. Files and servers are read anew, and questions under way are asked again; answers
   at hand are kept until they expire, but no longer than the new limits allow. Not to be called from a
   callback. */
void dns_configure(struct dns *dns, const struct dns_config *config);
/* Frees everything; open requests end without their callback. Not to be called from a callback. */
void dns_close(struct dns **dns);

struct dns_answer {
	int count;			/* 0: the name does not resolve */
	int reachable;			/* the first of them, as far as the routing table knows */
	int first;			/* the place of the address to begin with: the next request begins with the next */
	const struct address *addresses;	/* port 0; order of the answer, a family that cannot be reached
						   last; valid during the callback */
	const char *error;		/* when count is 0 */
};
/* The address to be tried as the i-th (from 0, below count): all that are reachable, in turn from `first`,
   then the rest. */
const struct address *dns_answer_at(const struct dns_answer *answer, int i);
typedef void dns_done(void *context, const struct dns_answer *answer);
struct dns_request;
/* Looks a name, or an IP address in text, up. Requests for one name share one question. The callback runs
   from the event loop (never inside this call), once, unless dns_cancel came first. NULL: no memory. */
struct dns_request *dns_lookup(struct dns *dns, const char *name, dns_done *done, void *context);
/* The callback will not run. Sets *request to NULL; NULL is fine. Not for a request after its callback has begun. */
void dns_cancel(struct dns_request **request);
/* Called, from the event loop, when a refreshed answer for `name` has addresses but lacks some that the
   earlier one had. A name that stops resolving is no such change: a failing name server must not cut
   connections that work. */
void dns_on_change(struct dns *dns, void (*changed)(void *context, const char *name, const struct dns_answer *now), void *context);

/* What this name was resolved to is in use: it is asked for again when its answer has expired, at most once a second, and so a
   change is noticed although no request looks it up. The code that depends on it calls this about once a second. When the name is not
   known here, the first answer counts as a change. An answer of failure is no answer then: the earlier one stays, expired. */
void dns_watch(struct dns *dns, const char *name);

/* For SHOW DNS_HOSTS, DNS_ZONES and LISTS. Walks; ttl is what is left in seconds. */
typedef void dns_host_visit(void *context, const char *name, int64_t ttl, const struct dns_answer *answer);
typedef void dns_zone_visit(void *context, const char *zone, int64_t serial, int hosts);
void dns_each_host(struct dns *dns, usec_t now, dns_host_visit *visit, void *context);
void dns_each_zone(struct dns *dns, dns_zone_visit *visit, void *context);
int dns_hosts(const struct dns *dns);
int dns_zones(const struct dns *dns);
int dns_queries(const struct dns *dns);		/* asked, not yet answered */

#endif
