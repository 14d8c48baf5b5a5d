#ifndef NET_DNS_PARTS_H
#define NET_DNS_PARTS_H

#include "base/list.h"
#include "net/dns.h"
#include "net/dns_cache.h"
#include "net/dns_channel.h"

/* What dns.c (names) and dns_zone.c (zones) share. */

struct dns {
	struct event_base *base;
	struct dns_config config;	/* its strings are ours */
	struct dns_channel channel;
	bool delivering, closing;
	int queries;
	struct event *deferred;		/* delivers what is ready */
	struct event *zone_timer;
	struct list ready, batch;	/* requests that have their result */
	struct list changes;		/* hosts */
	struct dns_cache cache;
	void (*changed)(void *context, const char *name, const struct dns_answer *now);
	void *changed_context;
};

/* ---- dns.c ---- */

/* Asks for a host that is not being asked for. False: no memory. */
bool dns_ask(struct dns *dns, struct dns_host *host);

/* ---- dns_zone.c ---- */

/* NULL: no memory. */
struct event *dns_zones_timer(struct dns *dns);
/* zone_check_period may have changed. */
void dns_zones_arm(struct dns *dns);
/* Asks for the serial of a zone, unless that question is under way. */
void dns_zone_ask(struct dns *dns, struct dns_zone *zone);

#endif
