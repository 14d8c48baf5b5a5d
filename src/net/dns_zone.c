/*
 * Zones: with zone_check_period, the SOA record of the zone of each cached host (the part of its name after the first dot) is
 * queried; a changed serial refreshes all hosts of the zone at once.
 */
#include "net/dns_parts.h"

#include <string.h>

#include <ares.h>
#include <arpa/nameser.h>

#include "base/mem.h"

#define ZONE_LIMIT (60 * USEC)		/* longer than any timeout of c-ares */

struct zone_query {
	struct dns *dns;
	char name[];
};

static struct timeval timeval_of(usec_t t)
{
	return (struct timeval){ .tv_sec = t / USEC, .tv_usec = t % USEC };
}

static void refresh_zone(struct dns *dns, const struct dns_zone *zone)
{
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

		if (host->zone != zone)
			continue;
		host->expires = 0;
		if (!host->query)
			dns_ask(dns, host);
	}
}

static void on_zone_answer(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct zone_query *query = arg;
	struct dns *dns = query->dns;
	struct dns_zone *zone = dns->closing ? NULL : dns_cache_zone(&dns->cache, query->name);
	struct ares_soa_reply *soa = NULL;

	(void)timeouts;
	if (zone)
		zone->asked_until = 0;
	if (zone && status == ARES_SUCCESS && ares_parse_soa_reply(packet, size, &soa) == ARES_SUCCESS) {
		bool is_other = zone->serial >= 0 && zone->serial != (int64_t)soa->serial;

		zone->serial = soa->serial;
		if (is_other)
			refresh_zone(dns, zone);
	}
	ares_free_data(soa);
	mem_free(query);
}

/* A name server that does not answer must not get queries faster than they expire. */
void dns_zone_ask(struct dns *dns, struct dns_zone *zone)
{
	usec_t now = clock_monotonic();
	size_t size = strlen(zone->name) + 1;
	struct zone_query *query = now < zone->asked_until ? NULL : mem_try(sizeof(*query) + size);

	if (!query)
		return;
	query->dns = dns;
	memcpy(query->name, zone->name, size);
	zone->asked_until = now + ZONE_LIMIT;
	ares_query(dns->channel.ares, query->name, ns_c_in, ns_t_soa, on_zone_answer, query);
	dns_channel_arm(&dns->channel);
}

static void on_zone_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dns *dns = arg;

	(void)fd, (void)what;
	LIST_EACH(node, &dns->cache.zones)
		dns_zone_ask(dns, LIST_OBJECT(node, struct dns_zone, node));
}

struct event *dns_zones_timer(struct dns *dns)
{
	return event_new(dns->base, -1, EV_PERSIST, on_zone_timer, dns);
}

void dns_zones_arm(struct dns *dns)
{
	struct timeval period = timeval_of(dns->config.zone_check_period);

	if (dns->config.zone_check_period > 0) {
		event_add(dns->zone_timer, &period);
		return;
	}
	event_del(dns->zone_timer);
	dns_cache_leave_zones(&dns->cache);
}

void dns_each_zone(struct dns *dns, dns_zone_visit *visit, void *context)
{
	LIST_EACH(node, &dns->cache.zones) {
		struct dns_zone *zone = LIST_OBJECT(node, struct dns_zone, node);

		visit(context, zone->name, zone->serial < 0 ? 0 : zone->serial, zone->hosts);
	}
}
