/*
 * Names to addresses, with c-ares on the event loop.
 *
 * A lookup goes: cache, else /etc/hosts, else two questions, A and AAAA, asked side by side. They are asked apart, not
 * as one AF_UNSPEC question, because name servers and firewalls that swallow AAAA are common: once one family has
 * answered with addresses, the other has a grace period and no more (the Resolution Delay of RFC 8305 section 3), and a
 * failure of one does not spoil the other. Whatever happens, a clock ends the lookup, so no callback can be lost.
 *
 *	dns_lookup -> request waits at its host -> query (one per host) -> two halves in c-ares
 *	halves answer, or clock -> finish: host has a result -> requests become ready -> deferred event -> callbacks
 *
 * Callbacks only ever run from the deferred event, never inside dns_lookup or c-ares, so they may call anything here
 * but dns_close. A query outlives its host's interest in it until c-ares has called back for both halves.
 *
 * Zones: with zone_check_period the SOA record of each cached host's zone is asked for, and a serial that has changed
 * makes all its hosts be asked anew at once.
 *
 * c-ares reads resolv.conf once. To follow a changed one, dns_configure marks the channel as old, and it is replaced
 * as soon as c-ares has nothing under way.
 */
#include "net/dns.h"

#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ares.h>
#include <arpa/nameser.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/dns_cache.h"

#define LOOKUP_LIMIT (10 * USEC)	/* unless configured */
#define FAMILY_GRACE (USEC / 2)		/* for the second family, once the first has answered */
#define TRY_MS 2000			/* before c-ares asks again */
#define TRIES 2
#define FORGET_AFTER (86400 * USEC)	/* names that nobody asks for any more */
#define ADDRESSES_MAX 256		/* kept of one answer */

struct dns {
	struct event_base *base;
	struct dns_config config;	/* its strings are ours */
	ares_channel channel;
	bool channel_is_old;
	bool delivering, closing;
	int outstanding;		/* callbacks that c-ares owes us */
	int queries;
	struct event *timer;		/* c-ares's own time-outs */
	struct event *deferred;		/* delivers what is ready */
	struct event *zone_timer;
	struct list sockets;
	struct list ready, batch;	/* requests that have their result */
	struct list changes;		/* hosts */
	struct dns_cache cache;
	void (*changed)(void *context, const char *name, const struct dns_answer *now);
	void *changed_context;
};

struct dns_request {
	struct list node;		/* at its host, or ready */
	struct dns_result *result;	/* when ready */
	dns_done *done;
	void *context;
};

struct socket_watch {
	struct list node;
	struct dns *dns;
	int fd;
	struct event *event;
};

struct dns_query {
	struct dns *dns;
	struct dns_host *host;		/* NULL: finished, only waits for c-ares */
	struct event *clock;
	int halves;			/* not yet answered */
	int ttl;			/* seconds, the least of all records */
	const char *error;
	struct dns_result *v4, *v6;
};

struct zone_query {
	struct dns *dns;
	char name[];
};

static struct timeval timeval_of(usec_t t)
{
	return (struct timeval){ .tv_sec = t / USEC, .tv_usec = t % USEC };
}

/* To be called after whatever gives c-ares something to do. */
static void arm_timer(struct dns *dns)
{
	struct timeval tv;

	if (dns->channel && ares_timeout(dns->channel, NULL, &tv))
		event_add(dns->timer, &tv);
	else
		event_del(dns->timer);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dns *dns = arg;

	(void)fd, (void)what;
	ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	arm_timer(dns);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	/* The watch may be gone when c-ares returns. */
	struct dns *dns = ((struct socket_watch *)arg)->dns;

	ares_process_fd(dns->channel, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	arm_timer(dns);
}

static struct socket_watch *find_watch(struct dns *dns, int fd)
{
	LIST_EACH(node, &dns->sockets) {
		struct socket_watch *watch = LIST_ENTRY(node, struct socket_watch, node);

		if (watch->fd == fd)
			return watch;
	}
	return NULL;
}

static void drop_watch(struct socket_watch *watch)
{
	list_remove(&watch->node);
	if (watch->event)
		event_free(watch->event);
	mem_free(watch);
}

/* c-ares says what it wants to know of a socket; neither: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns *dns = arg;
	struct socket_watch *watch = find_watch(dns, fd);

	if (!readable && !writable) {
		if (watch)
			drop_watch(watch);
		return;
	}
	if (!watch) {
		watch = mem_try(sizeof(*watch));
		if (!watch)
			return;
		watch->dns = dns;
		watch->fd = fd;
		list_append(&dns->sockets, &watch->node);
	}
	if (watch->event)
		event_free(watch->event);
	watch->event = event_new(dns->base, fd,
				 (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0)), on_socket,
				 watch);
	/* An unwatched socket ends in a time-out like a silent server. */
	if (watch->event)
		event_add(watch->event, NULL);
}

static int open_channel(struct dns *dns, ares_channel *channel)
{
	int mask = ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES, status;
	struct ares_options options = { .timeout = TRY_MS, .tries = TRIES, .sock_state_cb = on_socket_state,
					.sock_state_cb_data = dns };

	if (dns->config.resolv_conf) {
		mask |= ARES_OPT_RESOLVCONF;
		options.resolvconf_path = mem_copy_string(dns->config.resolv_conf);
		if (!options.resolvconf_path)
			return ARES_ENOMEM;
	}
	status = ares_init_options(channel, &options, mask);
	mem_free(options.resolvconf_path);
	if (status == ARES_SUCCESS && dns->config.servers) {
		status = ares_set_servers_ports_csv(*channel, dns->config.servers);
		if (status != ARES_SUCCESS)
			ares_destroy(*channel);
	}
	return status;
}

/* Never while c-ares is on the stack: then it owes a callback. */
static void renew_channel(struct dns *dns)
{
	ares_channel fresh;
	int status;

	if (!dns->channel_is_old || dns->outstanding > 0)
		return;
	status = open_channel(dns, &fresh);
	if (status != ARES_SUCCESS) {
		log_warning("cannot read the resolver's configuration, the old one stays: %s", ares_strerror(status));
		return;
	}
	ares_destroy(dns->channel);
	dns->channel = fresh;
	dns->channel_is_old = false;
}

static void make_ready(struct dns *dns, struct dns_request *request, struct dns_result *result)
{
	request->result = dns_result_hold(result);
	list_remove(&request->node);
	list_append(&dns->ready, &request->node);
	event_active(dns->deferred, 0, 0);
}

static struct dns_answer answer_of(const struct dns_result *result)
{
	return (struct dns_answer){ result->count, result->addresses, result->error };
}

static void tell_changes(struct dns *dns)
{
	struct list *node;

	while ((node = list_first(&dns->changes))) {
		struct dns_host *host = LIST_ENTRY(node, struct dns_host, change);
		struct dns_result *now = dns_result_hold(host->good);
		struct dns_answer answer = answer_of(now);

		list_remove(node);
		/* So that a lookup in the callback cannot forget the host, and its name with it. */
		host->used = clock_monotonic();
		if (dns->changed)
			dns->changed(dns->changed_context, host->name, &answer);
		dns_result_drop(&now);
	}
}

static void on_deferred(evutil_socket_t fd, short what, void *arg)
{
	struct dns *dns = arg;
	struct list *node;

	(void)fd, (void)what;
	dns->delivering = true;
	tell_changes(dns);
	/* What the callbacks make ready comes in the next round of the loop. */
	while ((node = list_first(&dns->ready))) {
		list_remove(node);
		list_append(&dns->batch, node);
	}
	while ((node = list_first(&dns->batch))) {
		struct dns_request *request = LIST_ENTRY(node, struct dns_request, node);
		struct dns_request taken = *request;
		struct dns_answer answer = answer_of(taken.result);

		list_remove(node);
		mem_free(request);
		taken.done(taken.context, &answer);
		dns_result_drop(&taken.result);
	}
	dns->delivering = false;
}

/* True when packets for the address would leave this machine: asks the routing table, sends nothing. */
static bool is_routable(const struct address *a)
{
	struct address to = *a;
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool routable;

	if (fd < 0)
		return false;
	to.u.v6.sin6_port = htons(53);
	routable = connect(fd, &to.u.any, to.size) == 0;
	close(fd);
	return routable;
}

/* Both families in one, IPv6 first if there is a way to it (RFC 6724 rules 1 and 6 in short). NULL: no memory. */
static struct dns_result *join_families(const struct dns_result *v4, const struct dns_result *v6, const char *error)
{
	int count4 = v4 ? v4->count : 0, count6 = v6 ? v6->count : 0;
	struct dns_result *joined = dns_result_new(count4 + count6, count4 + count6 ? NULL : error);
	int at6;

	if (!joined)
		return NULL;
	at6 = count6 > 0 && is_routable(&v6->addresses[0]) ? 0 : count4;
	for (int i = 0; i < count6; i++)
		joined->addresses[at6 + i] = v6->addresses[i];
	for (int i = 0; i < count4; i++)
		joined->addresses[(at6 == 0 ? count6 : 0) + i] = v4->addresses[i];
	return joined;
}

static void ask_zone(struct dns *dns, const struct dns_zone *zone);

/* The host's new answer, of which the caller gives up its hold. */
static void host_learns(struct dns *dns, struct dns_host *host, struct dns_result *result, usec_t lifetime)
{
	dns_result_drop(&host->result);
	host->result = result;
	host->expires = clock_monotonic() + lifetime;
	if (result->count > 0) {
		if (host->good && dns_result_lacks(result, host->good) && list_is_empty(&host->change)) {
			list_append(&dns->changes, &host->change);
			event_active(dns->deferred, 0, 0);
		}
		dns_result_drop(&host->good);
		host->good = dns_result_hold(result);
	}
	LIST_EACH_SAFE(node, &host->waiting)
		make_ready(dns, LIST_ENTRY(node, struct dns_request, node), result);
}

/* What a failure to have memory for the answer looks like. Never freed: one holder is the program. */
static struct dns_result no_memory_result = { .holders = 1, .error = "out of memory" };

static usec_t lifetime_of(const struct dns *dns, const struct dns_result *result, int ttl)
{
	usec_t lifetime = (usec_t)(ttl < 0 ? 0 : ttl) * USEC;

	if (result->count == 0)
		return dns->config.nxdomain_ttl;
	return lifetime < dns->config.max_ttl ? lifetime : dns->config.max_ttl;
}

static void free_query(struct dns_query *query)
{
	dns_result_drop(&query->v4);
	dns_result_drop(&query->v6);
	if (query->clock)
		event_free(query->clock);
	mem_free(query);
}

/* Ends the host's interest in the query; c-ares may still owe callbacks. */
static void finish(struct dns_query *query)
{
	struct dns *dns = query->dns;
	struct dns_host *host = query->host;
	struct dns_result *result = join_families(query->v4, query->v6, query->error);

	if (!result)
		result = dns_result_hold(&no_memory_result);
	event_del(query->clock);
	query->host = NULL;
	host->query = NULL;
	dns->queries--;
	host_learns(dns, host, result, lifetime_of(dns, result, query->ttl));
	if (dns->config.zone_check_period > 0 && result->count > 0 && dns_cache_join_zone(&dns->cache, host))
		ask_zone(dns, host->zone);
}

static void on_query_clock(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	finish(arg);
}

static bool address_of_node(struct address *a, const struct ares_addrinfo_node *node)
{
	memset(a, 0, sizeof(*a));
	if ((node->ai_family != AF_INET && node->ai_family != AF_INET6) || node->ai_addrlen > sizeof(a->u))
		return false;
	memcpy(&a->u, node->ai_addr, node->ai_addrlen);
	a->size = node->ai_addrlen;
	return true;
}

static int lower(int a, int b)
{
	return a < b ? a : b;
}

/* Copies one family's addresses and lowers *ttl to the least of them. NULL: none, or no memory. */
static struct dns_result *result_of(const struct ares_addrinfo *info, int *ttl)
{
	struct dns_result *result;
	int count = 0;

	for (const struct ares_addrinfo_node *node = info->nodes; node && count < ADDRESSES_MAX; node = node->ai_next)
		count++;
	result = count > 0 ? dns_result_new(count, NULL) : NULL;
	if (!result)
		return NULL;
	result->count = 0;
	for (const struct ares_addrinfo_node *node = info->nodes; node && count-- > 0; node = node->ai_next) {
		if (address_of_node(&result->addresses[result->count], node))
			result->count++;
		*ttl = lower(*ttl, node->ai_ttl);
	}
	for (const struct ares_addrinfo_cname *name = info->cnames; name; name = name->next)
		*ttl = lower(*ttl, name->ttl);
	return result;
}

/* One half has its answer. */
static void on_half(struct dns_query *query, struct dns_result **to, int status, struct ares_addrinfo *info)
{
	struct dns *dns = query->dns;

	query->halves--;
	dns->outstanding--;
	if (status == ARES_SUCCESS && query->host)
		*to = result_of(info, &query->ttl);
	else if (status != ARES_SUCCESS)
		query->error = ares_strerror(status);
	if (info)
		ares_freeaddrinfo(info);
	if (query->host && !dns->closing) {
		struct timeval grace = timeval_of(FAMILY_GRACE);

		if (query->halves == 0)
			finish(query);
		else if (*to)
			event_add(query->clock, &grace);
	}
	if (query->halves == 0)
		free_query(query);
}

static void on_v4(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct dns_query *query = arg;

	(void)timeouts;
	on_half(query, &query->v4, status, info);
}

static void on_v6(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct dns_query *query = arg;

	(void)timeouts;
	on_half(query, &query->v6, status, info);
}

/* The addresses that /etc/hosts has for the name in one family, or NULL. */
static struct dns_result *read_hosts_file(struct dns *dns, const char *name, int family)
{
	struct hostent *entry = NULL;
	struct dns_result *result;
	int count = 0;

	if (ares_gethostbyname_file(dns->channel, name, family, &entry) != ARES_SUCCESS)
		return NULL;
	while (count < ADDRESSES_MAX && entry->h_addr_list[count])
		count++;
	result = count > 0 ? dns_result_new(count, NULL) : NULL;
	for (int i = 0; result && i < count; i++) {
		struct address *a = &result->addresses[i];

		a->u.any.sa_family = (sa_family_t)family;
		a->size = family == AF_INET ? sizeof(a->u.v4) : sizeof(a->u.v6);
		if (family == AF_INET)
			memcpy(&a->u.v4.sin_addr, entry->h_addr_list[i], sizeof(a->u.v4.sin_addr));
		else
			memcpy(&a->u.v6.sin6_addr, entry->h_addr_list[i], sizeof(a->u.v6.sin6_addr));
	}
	ares_free_hostent(entry);
	return result;
}

/* An answer that takes no question: an address in text, or a name in /etc/hosts. NULL: there is none. */
static struct dns_result *answer_locally(struct dns *dns, const char *name)
{
	struct dns_result *v4, *v6, *joined = NULL;
	struct address address;

	if (address_from_ip(&address, name, 0)) {
		joined = dns_result_new(1, NULL);
		if (joined)
			joined->addresses[0] = address;
		return joined;
	}
	v4 = read_hosts_file(dns, name, AF_INET);
	v6 = read_hosts_file(dns, name, AF_INET6);
	if (v4 || v6)
		joined = join_families(v4, v6, NULL);
	dns_result_drop(&v4);
	dns_result_drop(&v6);
	return joined;
}

static void ask_families(struct dns *dns, struct dns_query *query, const char *name)
{
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM };

	/* Each of the calls may call back at once; only the last callback frees the query. */
	hints.ai_family = AF_INET;
	ares_getaddrinfo(dns->channel, name, NULL, &hints, on_v4, query);
	hints.ai_family = AF_INET6;
	ares_getaddrinfo(dns->channel, name, NULL, &hints, on_v6, query);
	arm_timer(dns);
}

/* Asks for a host that is not being asked for. False: no memory. */
static bool ask(struct dns *dns, struct dns_host *host)
{
	struct timeval limit = timeval_of(dns->config.timeout > 0 ? dns->config.timeout : LOOKUP_LIMIT);
	struct dns_result *local;
	struct dns_query *query;

	renew_channel(dns);
	local = answer_locally(dns, host->name);
	if (local) {
		host_learns(dns, host, local, dns->config.max_ttl);
		return true;
	}
	query = mem_try(sizeof(*query));
	if (!query)
		return false;
	query->clock = evtimer_new(dns->base, on_query_clock, query);
	if (!query->clock || event_add(query->clock, &limit) != 0) {
		free_query(query);
		return false;
	}
	query->dns = dns;
	query->host = host;
	query->halves = 2;
	query->ttl = INT_MAX;
	query->error = "timeout";
	host->query = query;
	dns->queries++;
	dns->outstanding += 2;
	ask_families(dns, query, host->name);
	return true;
}

struct dns_request *dns_lookup(struct dns *dns, const char *name, dns_done *done, void *context)
{
	usec_t now = clock_monotonic();
	struct dns_request *request = mem_try(sizeof(*request));
	struct dns_host *host = dns_cache_find(&dns->cache, name);

	if (!request)
		return NULL;
	if (!host) {
		dns_cache_forget(&dns->cache, now - FORGET_AFTER);
		host = dns_cache_add(&dns->cache, name);
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
		make_ready(dns, request, host->result);
		return request;
	}
	list_append(&host->waiting, &request->node);
	if (!host->query && !ask(dns, host)) {
		list_remove(&request->node);
		mem_free(request);
		return NULL;
	}
	return request;
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

void dns_on_change(struct dns *dns, void (*changed)(void *context, const char *name, const struct dns_answer *now),
		   void *context)
{
	dns->changed = changed;
	dns->changed_context = context;
}

static void refresh_zone(struct dns *dns, const struct dns_zone *zone)
{
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_ENTRY(node, struct dns_host, node);

		if (host->zone != zone)
			continue;
		host->expires = 0;
		if (!host->query)
			ask(dns, host);
	}
}

static void on_zone_answer(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct zone_query *query = arg;
	struct dns *dns = query->dns;
	struct dns_zone *zone = dns->closing ? NULL : dns_cache_zone(&dns->cache, query->name);
	struct ares_soa_reply *soa = NULL;

	(void)timeouts;
	if (zone && status == ARES_SUCCESS && ares_parse_soa_reply(packet, size, &soa) == ARES_SUCCESS) {
		bool is_other = zone->serial >= 0 && zone->serial != (int64_t)soa->serial;

		zone->serial = soa->serial;
		if (is_other)
			refresh_zone(dns, zone);
	}
	ares_free_data(soa);
	mem_free(query);
	dns->outstanding--;
}

static void ask_zone(struct dns *dns, const struct dns_zone *zone)
{
	size_t size = strlen(zone->name) + 1;
	struct zone_query *query = mem_try(sizeof(*query) + size);

	if (!query)
		return;
	query->dns = dns;
	memcpy(query->name, zone->name, size);
	dns->outstanding++;
	ares_query(dns->channel, query->name, ns_c_in, ns_t_soa, on_zone_answer, query);
	arm_timer(dns);
}

static void on_zone_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dns *dns = arg;

	(void)fd, (void)what;
	renew_channel(dns);
	LIST_EACH(node, &dns->cache.zones)
		ask_zone(dns, LIST_ENTRY(node, struct dns_zone, node));
}

static void arm_zone_timer(struct dns *dns)
{
	struct timeval period = timeval_of(dns->config.zone_check_period);

	if (dns->config.zone_check_period > 0) {
		event_add(dns->zone_timer, &period);
		return;
	}
	event_del(dns->zone_timer);
	dns_cache_leave_zones(&dns->cache);
}

static void free_config(struct dns_config *config)
{
	union { const char *in; char *out; } resolv_conf = { config->resolv_conf }, servers = { config->servers };

	mem_free(resolv_conf.out);
	mem_free(servers.out);
	config->resolv_conf = config->servers = NULL;
}

/* False, with `to` unchanged, when there is no memory. */
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

struct dns *dns_open(struct event_base *base, const struct dns_config *config, char *why, size_t why_size)
{
	struct dns *dns = mem_try(sizeof(*dns));
	int status = ARES_ENOMEM;

	if (!dns || ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		mem_free(dns);
		text_copy(why, why_size, ares_strerror(ARES_ENOMEM));
		return NULL;
	}
	dns->base = base;
	list_init(&dns->sockets);
	list_init(&dns->ready);
	list_init(&dns->batch);
	list_init(&dns->changes);
	dns_cache_init(&dns->cache);
	dns->timer = evtimer_new(base, on_timer, dns);
	dns->deferred = event_new(base, -1, 0, on_deferred, dns);
	dns->zone_timer = event_new(base, -1, EV_PERSIST, on_zone_timer, dns);
	if (dns->timer && dns->deferred && dns->zone_timer && copy_config(&dns->config, config))
		status = open_channel(dns, &dns->channel);
	if (status != ARES_SUCCESS) {
		dns->channel = NULL;
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

	if (!copy_config(&dns->config, config)) {
		log_warning("no memory for the resolver's configuration, the old one stays");
		return;
	}
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_ENTRY(node, struct dns_host, node);
		usec_t limit = host->result && host->result->count > 0 ? config->max_ttl : config->nxdomain_ttl;

		if (host->expires > now + limit)
			host->expires = now + limit;
	}
	dns->channel_is_old = true;
	arm_zone_timer(dns);
}

static void free_requests(struct list *requests)
{
	LIST_EACH_SAFE(node, requests)
		free_request(LIST_ENTRY(node, struct dns_request, node));
}

static void free_event(struct event *event)
{
	if (event)
		event_free(event);
}

void dns_close(struct dns **where)
{
	struct dns *dns = *where;

	*where = NULL;
	if (!dns)
		return;
	ASSERT(!dns->delivering);
	dns->closing = true;
	/* Calls back for whatever is under way, which frees the queries. */
	if (dns->channel)
		ares_destroy(dns->channel);
	LIST_EACH_SAFE(node, &dns->sockets)
		drop_watch(LIST_ENTRY(node, struct socket_watch, node));
	free_requests(&dns->ready);
	LIST_EACH(node, &dns->cache.hosts)
		free_requests(&LIST_ENTRY(node, struct dns_host, node)->waiting);
	dns_cache_clear(&dns->cache);
	free_event(dns->timer);
	free_event(dns->deferred);
	free_event(dns->zone_timer);
	free_config(&dns->config);
	mem_free(dns);
	ares_library_cleanup();
}

void dns_each_host(struct dns *dns, usec_t now, dns_host_visit *visit, void *context)
{
	LIST_EACH(node, &dns->cache.hosts) {
		struct dns_host *host = LIST_ENTRY(node, struct dns_host, node);
		struct dns_answer answer = { 0, NULL, NULL };
		int64_t ttl = host->expires > now ? (host->expires - now) / USEC : 0;

		if (host->result)
			answer = answer_of(host->result);
		visit(context, host->name, host->result ? ttl : 0, &answer);
	}
}

void dns_each_zone(struct dns *dns, dns_zone_visit *visit, void *context)
{
	LIST_EACH(node, &dns->cache.zones) {
		struct dns_zone *zone = LIST_ENTRY(node, struct dns_zone, node);

		visit(context, zone->name, zone->serial < 0 ? 0 : zone->serial, zone->hosts);
	}
}

int dns_hosts(const struct dns *dns)
{
	return dns->cache.host_count;
}

int dns_zones(const struct dns *dns)
{
	return dns->cache.zone_count;
}

int dns_queries(const struct dns *dns)
{
	return dns->queries;
}

const char *dns_library(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "c-ares %s", ares_version(NULL));
	return text;
}
