#ifndef NET_DNS_PARTS_H
#define NET_DNS_PARTS_H

#include "base/list.h"
#include "net/dns.h"
#include "net/dns_cache.h"
#include "net/dns_channel.h"

/* Shared by dns.c (names) and dns_zone.c (zones). */

struct dns {
	struct event_base *base;
	struct dns_config config;	/* owns its strings */
	struct dns_channel channel;
	bool delivering, closing;
	int queries;
	struct event *deferred;		/* calls the callbacks of ready requests */
	struct event *zone_timer;
	struct list ready, batch;	/* requests with a result */
	struct list changes;		/* hosts */
	struct dns_cache cache;
	void (*changed)(void *context, const char *name, const struct dns_answer *now);
	void *changed_context;
};

/* ---- dns.c ---- */

/* Starts a query for a host without a query. False: no memory. */
bool dns_ask(struct dns *dns, struct dns_host *host);

/* ---- dns_zone.c ---- */

/* NULL: no memory. */
struct event *dns_zones_timer(struct dns *dns);
/* Starts or stops the timer according to zone_check_period. */
void dns_zones_arm(struct dns *dns);
/* Starts a SOA query for a zone, unless one is in progress. */
void dns_zone_ask(struct dns *dns, struct dns_zone *zone);

#endif
