/*
 * Asynchronous name resolution: requests, the cache, and notification of changes.
 *
 * dns_lookup -> the request waits at its host -> query, one per host (net/dns_query.c)
 * query done -> the host has a result -> requests become ready -> deferred event -> callbacks
 *
 * Callbacks are called only from the deferred event, never within dns_lookup or c-ares, so they may
 * call every function of this file except dns_close. A query always ends, if necessary by its own
 * timeout, so every callback is called. A RELOAD repeats the queries in progress with the new name
 * servers.
 *
 * If a name has several addresses, each request begins with the next address, to distribute
 * connections.
 *
 * The expired answer of a name in use (dns_watch) is refreshed. If this fails, the previous answer
 * is kept, because no request needs the new one and the connections in use may work.
 */
#include "net/dns.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/dns_query.h"

#define LOOKUP_LIMIT (10 * USEC)	/* default */
#define WATCH_LEAST USEC		/* shortest time between two queries of dns_watch */
#define FORGET_AFTER (86400 * USEC)	/* names without requests are removed after this time */
#define ZONE_LIMIT (60 * USEC)		/* longer than any timeout of c-ares */

struct dns_request {
	/* in the list of its host, or in the list of ready requests */
	struct list node;
	struct dns_result *result;	/* set when ready */
	int first;			/* see struct dns_answer */
	dns_done *done;
	void *context;
};

struct dns_cache_table {
	UT_hash_handle hh;
	struct dns_host *host;
};

struct dns_zone {
	struct list node;
	int64_t serial;			/* -1: unknown */
	int hosts;
	/* end of the longest wait for the current SOA query; 0: no query in progress */
	usec_t asked_until;
	char name[];
};

struct dns_host {
	struct dns_cache_table *link;
	struct list node;
	struct dns *dns;		/* set by the owner, for the end of the query */
	struct dns_result *result;	/* the last answer; NULL: no answer yet */
	/* the last answer with addresses, to compare the next answer with */
	struct dns_result *good;
	usec_t expires;			/* of `result` */
	usec_t used;			/* when it was requested last */
	struct dns_query *query;	/* in progress, or NULL */
	bool ask_again;			/* its query was aborted and must be repeated */
	bool tell_first;		/* the first answer counts as a change */
	usec_t watch_after;		/* dns_watch starts no query before this time */
	struct list waiting;		/* the requests for this host */
	struct list change;		/* on the list of hosts with a change to report */
	struct dns_zone *zone;		/* NULL: in no watched zone */
	unsigned turn;			/* index of the first address for the next request */
	char name[];
};

struct dns_cache {
	struct dns_cache_table *table;
	struct list hosts;
	struct list zones;
	int host_count, zone_count;
};

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
};

struct zone_query {
	struct dns *dns;
	char name[];
};

/* ---- the cache ---- */

/*
 * A host is created when its name is requested and kept while it is requested. Its answer is kept
 * even after it has expired, to compare it with the next answer: connections to addresses that the
 * next answer lacks must be closed. An answer is reference-counted: a callback may look up the same
 * name again, which can replace the answer while the callback still reads it.
 *
 * Invariant: a zone exists while it has hosts, and counts them.
 */

static struct dns_host *find_host(struct dns_cache *cache, const char *name)
{
	struct dns_cache_table *link;

	HASH_FIND(hh, cache->table, name, strlen(name), link);
	return link ? link->host : NULL;
}

static struct dns_host *dns_add_host(struct dns_cache *cache, const char *name)
{
	size_t length = strlen(name);
	struct dns_host *host = mem_try(sizeof(*host) + length + 1);
	struct dns_cache_table *link = mem_try(sizeof(*link));

	if (host && link) {
		memcpy(host->name, name, length + 1);
		host->link = link;
		link->host = host;
		HASH_ADD_KEYPTR(hh, cache->table, host->name, length, link);
	}
	if (!host || !link || !HASH_HAS(hh, link)) {
		mem_free(host);
		mem_free(link);
		return NULL;
	}
	list_init(&host->waiting);
	list_init(&host->change);
	list_append(&cache->hosts, &host->node);
	cache->host_count++;
	return host;
}

static void leave_zone(struct dns_cache *cache, struct dns_host *host)
{
	struct dns_zone *zone = host->zone;

	host->zone = NULL;
	if (!zone || --zone->hosts > 0)
		return;
	list_remove(&zone->node);
	cache->zone_count--;
	mem_free(zone);
}

static void remove_host(struct dns_cache *cache, struct dns_host *host)
{
	leave_zone(cache, host);
	HASH_DELETE(hh, cache->table, host->link);
	mem_free(host->link);
	list_remove(&host->node);
	list_remove(&host->change);
	cache->host_count--;
	dns_result_drop(&host->result);
	dns_result_drop(&host->good);
	mem_free(host);
}

static struct dns_zone *find_zone(struct dns_cache *cache, const char *name)
{
	LIST_EACH(node, &cache->zones) {
		struct dns_zone *zone = LIST_OBJECT(node, struct dns_zone, node);

		if (strcmp(zone->name, name) == 0)
			return zone;
	}
	return NULL;
}

/* Adds the host to the zone named by the part after its first dot. Returns whether the zone is
   new. */
static bool join_zone(struct dns_cache *cache, struct dns_host *host)
{
	const char *dot = strchr(host->name, '.');
	struct dns_zone *zone;
	bool is_new;

	if (host->zone || !dot || !dot[1])
		return false;
	zone = find_zone(cache, dot + 1);
	is_new = !zone;
	if (is_new) {
		zone = mem_try(sizeof(*zone) + strlen(dot));
		if (!zone)
			return false;
		memcpy(zone->name, dot + 1, strlen(dot));
		zone->serial = -1;
		list_append(&cache->zones, &zone->node);
		cache->zone_count++;
	}
	zone->hosts++;
	host->zone = zone;
	return is_new;
}

/* ---- zones ---- */

/*
 * With zone_check_period, the SOA record of the zone of each cached host (the part of its name
 * after the first dot) is queried; a changed serial refreshes all hosts of the zone at once.
 */
static bool query_host(struct dns *dns, struct dns_host *host);

static void on_zone_answer(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct zone_query *query = arg;
	struct dns *dns = query->dns;
	struct dns_zone *zone = dns->closing ? NULL : find_zone(&dns->cache, query->name);
	struct ares_soa_reply *soa = NULL;

	(void)timeouts;
	if (zone)
		zone->asked_until = 0;
	if (zone && status == ARES_SUCCESS &&
	    ares_parse_soa_reply(packet, size, &soa) == ARES_SUCCESS) {
		bool is_other = zone->serial >= 0 && zone->serial != (int64_t)soa->serial;

		zone->serial = soa->serial;
		LIST_EACH(node, &dns->cache.hosts) {
			struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

			if (!is_other || host->zone != zone)
				continue;
			host->expires = 0;
			if (!host->query)
				query_host(dns, host);
		}
	}
	ares_free_data(soa);
	mem_free(query);
}

/* A name server that does not answer must not get queries faster than they expire. */
static void query_zone(struct dns *dns, struct dns_zone *zone)
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
		query_zone(dns, LIST_OBJECT(node, struct dns_zone, node));
}

static void arm_zone_timer(struct dns *dns)
{
	usec_t period = dns->config.zone_check_period;
	struct timeval tv = { .tv_sec = period / USEC, .tv_usec = period % USEC };

	if (period > 0) {
		event_add(dns->zone_timer, &tv);
		return;
	}
	event_del(dns->zone_timer);
	LIST_EACH(node, &dns->cache.hosts)
		leave_zone(&dns->cache, LIST_OBJECT(node, struct dns_host, node));
}

/* ---- requests ---- */

/* A request begins with the address after the first address of the previous request. */
static void make_ready(struct dns *dns, struct dns_host *host, struct dns_request *request)
{
	request->result = dns_result_hold(host->result);
	if (host->result->reachable > 0) {
		host->turn %= (unsigned)host->result->reachable;
		request->first = (int)host->turn++;
	}
	list_remove(&request->node);
	list_append(&dns->ready, &request->node);
	event_active(dns->deferred, 0, 0);
}

static struct dns_answer answer_of(const struct dns_result *result)
{
	return (struct dns_answer){ .count = result->count,
				    .reachable = result->reachable,
				    .addresses = result->addresses,
				    .error = result->error };
}

struct address *dns_answer_copy(const struct dns_answer *answer, uint16_t port)
{
	struct address *addresses = mem_try((size_t)answer->count * sizeof(*addresses));

	for (int i = 0; addresses && i < answer->count; i++) {
		addresses[i] = *dns_answer_at(answer, i);
		if (addresses[i].u.any.sa_family == AF_INET6)
			addresses[i].u.v6.sin6_port = htons(port);
		else
			addresses[i].u.v4.sin_port = htons(port);
	}
	return addresses;
}

static void on_deferred(evutil_socket_t fd, short what, void *arg)
{
	struct dns *dns = arg;
	struct list *node;

	(void)fd, (void)what;
	dns->delivering = true;
	while ((node = list_first(&dns->changes))) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, change);
		struct dns_result *now = dns_result_hold(host->good);
		struct dns_answer answer = answer_of(now);

		list_remove(node);
		/* A lookup in the callback must not free the host and its name. */
		host->used = clock_monotonic();
		if (dns->config.changed)
			dns->config.changed(dns->config.context, host->name, &answer);
		dns_result_drop(&now);
	}
	/* Requests that become ready in the callbacks are handled in the next round of the event
	   loop. */
	while ((node = list_first(&dns->ready))) {
		list_remove(node);
		list_append(&dns->batch, node);
	}
	while ((node = list_first(&dns->batch))) {
		struct dns_request *request = LIST_OBJECT(node, struct dns_request, node);
		struct dns_request taken = *request;
		struct dns_answer answer = answer_of(taken.result);

		answer.first = taken.first;
		list_remove(node);
		mem_free(request);
		taken.done(taken.context, &answer);
		dns_result_drop(&taken.result);
	}
	dns->delivering = false;
}

/* Records the new answer of the host and takes the caller's reference. */
static void host_learns(struct dns *dns, struct dns_host *host, struct dns_result *result,
			usec_t lifetime)
{
	usec_t now = clock_monotonic();

	host->watch_after = now + (lifetime > WATCH_LEAST ? lifetime : WATCH_LEAST);
	if (result->count == 0 && host->good && list_is_empty(&host->waiting)) {
		dns_result_drop(&result);
		return;
	}
	dns_result_drop(&host->result);
	host->result = result;
	host->expires = now + lifetime;
	if (result->count > 0) {
		bool is_news = !host->good && host->tell_first;

		/* whether the result lacks a former address */
		for (int i = 0; host->good && i < host->good->count; i++) {
			int j = 0;

			while (j < result->count &&
			       !address_is_same_host(&result->addresses[j],
						     &host->good->addresses[i]))
				j++;
			is_news |= j == result->count;
		}
		if (is_news && list_is_empty(&host->change)) {
			list_append(&dns->changes, &host->change);
			event_active(dns->deferred, 0, 0);
		}
		host->tell_first = false;
		dns_result_drop(&host->good);
		host->good = dns_result_hold(result);
	}
	LIST_EACH_SAFE(node, &host->waiting)
		make_ready(dns, host, LIST_OBJECT(node, struct dns_request, node));
}

static void on_dns_query_done(void *context, struct dns_result *result, int ttl)
{
	struct dns_host *host = context;
	struct dns *dns = host->dns;
	bool has_addresses = result->count > 0;
	usec_t lifetime = (usec_t)ttl * USEC;

	if (!has_addresses)
		lifetime = dns->config.nxdomain_ttl;
	else if (lifetime > dns->config.max_ttl || ttl == DNS_TTL_LOCAL)
		lifetime = dns->config.max_ttl;
	dns->queries--;
	host_learns(dns, host, result, lifetime);
	if (dns->config.zone_check_period > 0 && has_addresses && ttl != DNS_TTL_LOCAL &&
	    join_zone(&dns->cache, host))
		query_zone(dns, host->zone);
}

/* Starts a query for a host without a query. False: no memory. */
static bool query_host(struct dns *dns, struct dns_host *host)
{
	usec_t limit = dns->config.timeout > 0 ? dns->config.timeout : LOOKUP_LIMIT;

	host->dns = dns;
	dns->queries++;
	if (dns_query_start(&host->query, &dns->channel, host->name, limit, on_dns_query_done,
			    host))
		return true;
	dns->queries--;
	return false;
}

struct dns_request *dns_lookup(struct dns *dns, const char *name, dns_done *done, void *context)
{
	usec_t now = clock_monotonic();
	struct dns_request *request = mem_try(sizeof(*request));
	struct dns_host *host = find_host(&dns->cache, name);

	if (!request)
		return NULL;
	if (!host) {
		/* names without requests are removed when another name comes */
		LIST_EACH_SAFE(node, &dns->cache.hosts) {
			struct dns_host *old = LIST_OBJECT(node, struct dns_host, node);

			if (!old->query && list_is_empty(&old->waiting) &&
			    list_is_empty(&old->change) && old->used < now - FORGET_AFTER)
				remove_host(&dns->cache, old);
		}
		host = dns_add_host(&dns->cache, name);
	}
	if (!host) {
		mem_free(request);
		return NULL;
	}
	request->done = done;
	request->context = context;
	host->used = now;
	list_init(&request->node);
	if (host->result && now < host->expires) {
		make_ready(dns, host, request);
		return request;
	}
	list_append(&host->waiting, &request->node);
	if (!host->query && !query_host(dns, host)) {
		list_remove(&request->node);
		mem_free(request);
		return NULL;
	}
	return request;
}

void dns_watch(struct dns *dns, const char *name)
{
	struct dns_host *host = find_host(&dns->cache, name);
	usec_t now = clock_monotonic();

	if (!host && (host = dns_add_host(&dns->cache, name)))
		host->tell_first = true;
	if (!host)
		return;
	host->used = now;
	if (!host->query && now >= host->expires && now >= host->watch_after &&
	    !query_host(dns, host))
		host->watch_after = now + WATCH_LEAST;
}

static void free_request(struct dns_request *request)
{
	list_remove(&request->node);
	dns_result_drop(&request->result);
	mem_free(request);
}

void dns_cancel(struct dns_request **request)
{
	if (*request)
		free_request(*request);
	*request = NULL;
}

static void free_config(struct dns_config *config)
{
	union {
		const char *in;
		char *out;
	} resolv_conf = { config->resolv_conf }, servers = { config->servers };

	mem_free(resolv_conf.out);
	mem_free(servers.out);
	config->resolv_conf = config->servers = NULL;
}

/* False, with `to` unchanged: no memory. */
static bool copy_config(struct dns_config *to, const struct dns_config *from)
{
	struct dns_config copy = *from;

	copy.resolv_conf = mem_copy_string(from->resolv_conf);
	copy.servers = mem_copy_string(from->servers);
	if ((from->resolv_conf && !copy.resolv_conf) || (from->servers && !copy.servers)) {
		free_config(&copy);
		return false;
	}
	free_config(to);
	*to = copy;
	return true;
}

struct dns *dns_open(struct event_base *base, const struct dns_config *config, char *why,
		     size_t why_size)
{
	struct dns *dns = mem_try(sizeof(*dns));
	int status = ARES_ENOMEM;

	if (!dns || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		mem_free(dns);
		text_copy(why, why_size, ares_strerror(ARES_ENOMEM));
		return NULL;
	}
	dns->base = base;
	list_init(&dns->ready);
	list_init(&dns->batch);
	list_init(&dns->changes);
	list_init(&dns->cache.hosts);
	list_init(&dns->cache.zones);
	dns->deferred = event_new(base, -1, 0, on_deferred, dns);
	dns->zone_timer = event_new(base, -1, EV_PERSIST, on_zone_timer, dns);
	if (dns->deferred && dns->zone_timer && copy_config(&dns->config, config))
		status = dns_channel_open(&dns->channel, base, dns->config.resolv_conf,
					  dns->config.servers);
	if (status != ARES_SUCCESS) {
		text_copy(why, why_size, ares_strerror(status));
		dns_close(&dns);
		return NULL;
	}
	arm_zone_timer(dns);
	return dns;
}

void dns_configure(struct dns *dns, const struct dns_config *config)
{
	usec_t now = clock_monotonic();
	int status;

	if (!copy_config(&dns->config, config)) {
		log_warning("no memory for the resolver's configuration, the old one stays");
		return;
	}
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);
		usec_t limit = host->result && host->result->count > 0 ? config->max_ttl
								       : config->nxdomain_ttl;

		if (host->expires > now + limit)
			host->expires = now + limit;
	}
	/* Repeats the queries in progress: a RELOAD because of name servers that do not answer must
	   not wait for the old servers. */
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

		host->ask_again = host->query != NULL;
		if (host->query) {
			dns_query_abandon(host->query);
			dns->queries--;
		}
	}
	status = dns_channel_open(&dns->channel, dns->base, dns->config.resolv_conf,
				  dns->config.servers);
	if (status != ARES_SUCCESS)	/* the old servers are queried again */
		log_warning("cannot read the resolver's configuration, the old one stays: %s",
			    ares_strerror(status));
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

		if (host->ask_again && !query_host(dns, host))
			host_learns(dns, host, dns_result_hold(&dns_no_memory), 0);
	}
	arm_zone_timer(dns);
}

static void free_requests(struct list *requests)
{
	LIST_EACH_SAFE(node, requests)
		free_request(LIST_OBJECT(node, struct dns_request, node));
}

void dns_close(struct dns **where)
{
	struct dns *dns = *where;

	*where = NULL;
	if (!dns)
		return;
	ASSERT(!dns->delivering);
	dns->closing = true;
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);

		if (host->query)
			dns_query_abandon(host->query);
	}
	/* This calls the callbacks of queries in progress, which free the queries. */
	dns_channel_close(&dns->channel);
	free_requests(&dns->ready);
	LIST_EACH(node, &dns->cache.hosts)
		free_requests(&LIST_OBJECT(node, struct dns_host, node)->waiting);
	LIST_EACH_SAFE(node, &dns->cache.hosts)
		remove_host(&dns->cache, LIST_OBJECT(node, struct dns_host, node));
	if (dns->deferred)
		event_free(dns->deferred);
	if (dns->zone_timer)
		event_free(dns->zone_timer);
	free_config(&dns->config);
	mem_free(dns);
	ares_library_cleanup();
}

void dns_each(struct dns *dns, usec_t now, dns_host_visit *visit_host, dns_zone_visit *visit_zone,
	      void *context)
{
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_OBJECT(node, struct dns_host, node);
		struct dns_answer answer = { .count = 0 };
		int64_t ttl = host->expires > now ? (host->expires - now) / USEC : 0;

		if (host->result)
			answer = answer_of(host->result);
		if (visit_host)
			visit_host(context, host->name, host->result ? ttl : 0, &answer);
	}
	LIST_EACH(node, &dns->cache.zones) {
		struct dns_zone *zone = LIST_OBJECT(node, struct dns_zone, node);

		if (visit_zone)
			visit_zone(context, zone->name, zone->serial < 0 ? 0 : zone->serial,
				   zone->hosts);
	}
}

struct dns_counts dns_count(const struct dns *dns)
{
	return (struct dns_counts){ dns->cache.host_count, dns->cache.zone_count, dns->queries };
}
