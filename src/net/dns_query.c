/*
 * The addresses of a name, from /etc/hosts or from the name servers.
 *
 * A and AAAA are separate queries, not one AF_UNSPEC query, because name servers and firewalls that drop AAAA queries are
 * common: when one family has answered with addresses, the other family gets only a grace period (the Resolution Delay of RFC
 * 8305 section 3), and a failure of one family does not affect the other. A timeout ends the query in any case.
 *
 * Invariant: a query with `where` set will call `done` exactly once. After that it exists until c-ares has called back for both
 * families; the last of these callbacks frees it.
 */
#include "net/dns_query.h"

#include <limits.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define FAMILY_GRACE (USEC / 2)		/* for the second family, after the first has answered */
#define ADDRESSES_MAX 256		/* per answer and family */

struct dns_query {
	struct dns_query **where;	/* NULL: done; waits only for the callbacks of c-ares */
	dns_query_done *done;
	void *context;
	struct event *clock;
	int halves;			/* families without an answer */
	int ttl;			/* seconds, the minimum of all records */
	const char *error;
	struct dns_result *v4, *v6;
};

struct dns_result dns_no_memory = { .holders = 1, .error = "out of memory" };

struct dns_result *dns_result_new(int count, const char *error)
{
	struct dns_result *result = mem_try(sizeof(*result) + (size_t)count * sizeof(result->addresses[0]));

	if (!result)
		return NULL;
	result->holders = 1;
	result->count = result->reachable = count;
	result->error = error;
	return result;
}

struct dns_result *dns_result_hold(struct dns_result *result)
{
	result->holders++;
	return result;
}

void dns_result_drop(struct dns_result **result)
{
	if (*result && --(*result)->holders == 0)
		mem_free(*result);
	*result = NULL;
}

/* Whether there is a route to the address: asks the routing table, sends nothing. */
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

/* Joins both families, with IPv6 first if it has a route (RFC 6724 rules 1 and 6, simplified). NULL: no memory. */
static struct dns_result *join_families(const struct dns_result *v4, const struct dns_result *v6, const char *error)
{
	int count4 = v4 ? v4->count : 0, count6 = v6 ? v6->count : 0;
	struct dns_result *joined = dns_result_new(count4 + count6, count4 + count6 ? NULL : error);
	int at6;

	if (!joined)
		return NULL;
	at6 = count6 > 0 && is_routable(&v6->addresses[0]) ? 0 : count4;
	if (at6 > 0)
		joined->reachable = count4;
	for (int i = 0; i < count6; i++)
		joined->addresses[at6 + i] = v6->addresses[i];
	for (int i = 0; i < count4; i++)
		joined->addresses[(at6 == 0 ? count6 : 0) + i] = v4->addresses[i];
	return joined;
}

static void free_query(struct dns_query *query)
{
	dns_result_drop(&query->v4);
	dns_result_drop(&query->v6);
	if (query->clock)
		event_free(query->clock);
	mem_free(query);
}

void dns_query_abandon(struct dns_query *query)
{
	event_del(query->clock);
	*query->where = NULL;
	query->where = NULL;
}

static void finish(struct dns_query *query)
{
	struct dns_result *result = join_families(query->v4, query->v6, query->error);

	if (!result)
		result = dns_result_hold(&dns_no_memory);
	dns_query_abandon(query);
	query->done(query->context, result, query->ttl < 0 ? 0 : query->ttl);
}

static void on_clock(evutil_socket_t fd, short what, void *arg)
{
	(void)fd, (void)what;
	finish(arg);
}

/* False: an address of another family; c-ares returns it if the answer contains more than the question. */
static bool address_of_node(struct address *a, const struct ares_addrinfo_node *node, int family)
{
	memset(a, 0, sizeof(*a));
	if (node->ai_family != family || node->ai_addrlen > sizeof(a->u))
		return false;
	memcpy(&a->u, node->ai_addr, node->ai_addrlen);
	a->size = node->ai_addrlen;
	return true;
}

static int lower(int a, int b)
{
	return a < b ? a : b;
}

/* Copies the addresses of one family and lowers *ttl to their minimum. NULL: no addresses, or no memory. */
static struct dns_result *result_of(const struct ares_addrinfo *info, int family, int *ttl)
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
		if (address_of_node(&result->addresses[result->count], node, family))
			result->count++;
		*ttl = lower(*ttl, node->ai_ttl);
	}
	for (const struct ares_addrinfo_cname *name = info->cnames; name; name = name->next)
		*ttl = lower(*ttl, name->ttl);
	if (result->count == 0)
		dns_result_drop(&result);
	return result;
}

/* Handles the answer for one family. */
static void on_half(struct dns_query *query, struct dns_result **to, int status, struct ares_addrinfo *info)
{
	query->halves--;
	if (status == ARES_SUCCESS && query->where)
		*to = result_of(info, to == &query->v4 ? AF_INET : AF_INET6, &query->ttl);
	if (!*to)
		query->error = ares_strerror(status == ARES_SUCCESS ? ARES_ENODATA : status);
	if (info)
		ares_freeaddrinfo(info);
	if (query->where && query->halves == 0) {
		finish(query);
	} else if (query->where && *to) {
		struct timeval grace = { .tv_sec = FAMILY_GRACE / USEC, .tv_usec = FAMILY_GRACE % USEC };

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

bool dns_query_start(struct dns_query **where, struct dns_channel *channel, const char *name, usec_t limit,
		     dns_query_done *done, void *context)
{
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_socktype = SOCK_STREAM };
	struct timeval tv = { .tv_sec = limit / USEC, .tv_usec = limit % USEC };
	struct dns_query *query = mem_try(sizeof(*query));

	if (!query)
		return false;
	*query = (struct dns_query){ .where = where, .done = done, .context = context, .halves = 2,
				     .ttl = INT_MAX, .error = "timeout" };
	query->clock = evtimer_new(channel->base, on_clock, query);
	if (!query->clock || event_add(query->clock, &tv) != 0) {
		free_query(query);
		return false;
	}
	*where = query;
	/* Each call may call back at once; only the last callback frees the query. */
	hints.ai_family = AF_INET;
	ares_getaddrinfo(channel->ares, name, NULL, &hints, on_v4, query);
	hints.ai_family = AF_INET6;
	ares_getaddrinfo(channel->ares, name, NULL, &hints, on_v6, query);
	dns_channel_arm(channel);
	return true;
}

/* Returns the addresses of the name in /etc/hosts for one family, or NULL. */
static struct dns_result *read_hosts_file(struct dns_channel *channel, const char *name, int family)
{
	struct hostent *entry = NULL;
	struct dns_result *result;
	int count = 0;

	if (ares_gethostbyname_file(channel->ares, name, family, &entry) != ARES_SUCCESS)
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

struct dns_result *dns_answer_locally(struct dns_channel *channel, const char *name)
{
	struct dns_result *v4, *v6, *joined = NULL;
	struct address address;

	if (address_from_ip(&address, name, 0)) {
		joined = dns_result_new(1, NULL);
		if (joined)
			joined->addresses[0] = address;
		return joined;
	}
	v4 = read_hosts_file(channel, name, AF_INET);
	v6 = read_hosts_file(channel, name, AF_INET6);
	if (v4 || v6)
		joined = join_families(v4, v6, NULL);
	dns_result_drop(&v4);
	dns_result_drop(&v6);
	return joined;
}
