/*
 * c-ares driven by libevent, and the queries for the addresses of a name, from /etc/hosts or from
 * the name servers.
 *
 * c-ares opens and closes its own sockets and reports by a callback which events of a socket it
 * needs; a watch is the event for one socket. One timer covers all timeouts of c-ares and is set
 * again after each call of c-ares.
 *
 * c-ares reads resolv.conf only once. When the file changes, a new channel replaces the old one at
 * once: waiting for the queries of the old channel could mean waiting for the name servers that
 * were just replaced.
 *
 * A and AAAA are separate queries, not one AF_UNSPEC query, because name servers and firewalls that
 * drop AAAA queries are common. When one family has answered with addresses, the other family gets
 * only a grace period (the Resolution Delay of RFC 8305 section 3). A failure of one family does
 * not affect the other. A timeout ends the query in any case.
 *
 * Invariant: a query with `where` set will call `done` exactly once. After that it exists until
 * c-ares has called back for both families; the last of these callbacks frees it.
 */
#include "net/dns_query.h"

#include <ctype.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "net/address.h"

/* ---- the channel ---- */

#define TRY_MS 2000			/* before c-ares repeats a query */
#define TRIES 2
#define DEAF_MS 100			/* before another attempt to watch a socket */

struct socket_watch {
	struct list node;
	struct dns_channel *channel;
	int fd;
	struct event *event;
};

void dns_channel_arm(struct dns_channel *c)
{
	struct timeval again = { .tv_usec = DEAF_MS * 1000 }, tv, *until;

	until = ares_timeout(c->ares, c->is_deaf ? &again : NULL, &tv);
	if (until)
		event_add(c->timer, until);
	else
		event_del(c->timer);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	/* c-ares may have freed the watch when it returns. */
	struct dns_channel *c = ((struct socket_watch *)arg)->channel;

	ares_process_fd(c->ares, what & EV_READ ? fd : ARES_SOCKET_BAD,
			what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	dns_channel_arm(c);
}

static void drop_watch(struct socket_watch *watch)
{
	list_remove(&watch->node);
	if (watch->event)
		event_free(watch->event);
	mem_free(watch);
}

/* Callback of c-ares: the events of a socket that it needs; without events, the socket is about to
   be closed. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns_channel *c = arg;
	struct socket_watch *watch = NULL;

	LIST_EACH(node, &c->sockets) {
		if (LIST_OBJECT(node, struct socket_watch, node)->fd == fd)
			watch = LIST_OBJECT(node, struct socket_watch, node);
	}

	if (!readable && !writable) {
		if (watch)
			drop_watch(watch);
		return;
	}
	if (!watch) {
		watch = mem_try(sizeof(*watch));
		if (!watch) {
			c->is_deaf = true;
			return;
		}
		watch->channel = c;
		watch->fd = fd;
		list_append(&c->sockets, &watch->node);
	}
	if (watch->event)
		event_free(watch->event);
	watch->event = event_new(
		c->base, fd,
		(short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0)),
		on_socket, watch);
	if (!watch->event || event_add(watch->event, NULL) != 0)
		c->is_deaf = true;
}

static void on_dns_query_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dns_channel *c = arg;
	ares_socket_t sockets[ARES_GETSOCK_MAXNUM];

	(void)fd, (void)what;
	if (c->is_deaf) {
		/* c-ares reports the events of a socket only once. There was no memory then, so
		   c-ares is asked for its sockets: one bit per readable socket, followed by one bit
		   per writable socket. The macros of c-ares would shift into the sign bit. */
		unsigned wanted = (unsigned)ares_getsock(c->ares, sockets, ARES_GETSOCK_MAXNUM);

		c->is_deaf = false;
		for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
			bool readable = wanted >> i & 1,
			     writable = wanted >> (ARES_GETSOCK_MAXNUM + i) & 1;

			if (readable || writable)
				on_socket_state(c, sockets[i], readable, writable);
		}
	}
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	dns_channel_arm(c);
}

int dns_channel_open(struct dns_channel *c, struct event_base *base, const char *resolv_conf,
		     const char *servers)
{
	int mask = ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES, status;
	struct ares_options options = { .timeout = TRY_MS,
					.tries = TRIES,
					.sock_state_cb = on_socket_state,
					.sock_state_cb_data = c };
	ares_channel fresh;
	char *listed = NULL;

	if (!c->base) {
		c->base = base;
		list_init(&c->sockets);
	}
	if (!c->timer && !(c->timer = evtimer_new(base, on_dns_query_timer, c)))
		return ARES_ENOMEM;
	if (resolv_conf) {
		mask |= ARES_OPT_RESOLVCONF;
		options.resolvconf_path = mem_copy_string(resolv_conf);
		if (!options.resolvconf_path)
			return ARES_ENOMEM;
	}
	status = ares_init_options(&fresh, &options, mask);
	mem_free(options.resolvconf_path);
	if (status != ARES_SUCCESS)
		return status;
	/* without any of these, c-ares uses the servers of resolv.conf */
	if (!servers && resolv_conf)
		listed = dns_servers_read(resolv_conf);
	if (servers || listed)
		status = ares_set_servers_ports_csv(fresh, servers ? servers : listed);
	mem_free(listed);
	if (status != ARES_SUCCESS) {
		ares_destroy(fresh);
		return status;
	}
	if (c->ares)
		ares_destroy(c->ares);
	c->ares = fresh;
	dns_channel_arm(c);
	return ARES_SUCCESS;
}

void dns_channel_close(struct dns_channel *c)
{
	if (!c->base)
		return;
	if (c->ares)
		ares_destroy(c->ares);
	c->ares = NULL;
	LIST_EACH_SAFE(node, &c->sockets)
		drop_watch(LIST_OBJECT(node, struct socket_watch, node));
	if (c->timer)
		event_free(c->timer);
	c->timer = NULL;
}

/* ---- name servers with ports ---- */

/*
 * Name servers with a port.
 *
 * resolv.conf(5) does not define ports, but local resolvers often use another port. Newer releases
 * of c-ares parse "nameserver 192.0.2.1:5353" and "nameserver [2001:db8::1]:5353"; older releases
 * silently skip such a line and then query 127.0.0.1. Therefore these lines are parsed here. c-ares
 * reads the rest of the file.
 *
 * As in resolv.conf(5), a line has a keyword at its beginning and a value; unknown lines are
 * ignored.
 */

#define LINE_MOST 512
#define DNS_PORT 53

/* Splits "192.0.2.1:53", "[2001:db8::1]:53", or an address without a port; modifies the text.
   Returns the address, or NULL. */
static const char *dns_query_split(char *text, int *port, bool *has_port)
{
	char *ip = text, *colon = strchr(text, ':');
	struct address address;

	*port = DNS_PORT;
	*has_port = false;
	if (*text == '[') {
		char *end = strchr(text, ']');

		if (!end || (end[1] != ':' && end[1] != '\0'))
			return NULL;
		colon = end[1] == ':' ? end + 1 : NULL;
		*end = '\0';
		ip++;
	} else if (colon && strchr(colon + 1, ':')) {
		colon = NULL;		/* IPv6 without brackets */
	}
	if (colon) {
		char *rest;
		long value = strtol(colon + 1, &rest, 10);

		*colon = '\0';
		*has_port = true;
		if (!isdigit((unsigned char)colon[1]) || *rest || value < 1 || value > 65535)
			return NULL;
		*port = (int)value;
	}
	return address_from_ip(&address, ip, 0) ? ip : NULL;
}

char *dns_servers_read(const char *path)
{
	static const char keyword[] = "nameserver";
	size_t length = sizeof(keyword) - 1;
	struct bytes list = BYTES_EMPTY;
	char line[LINE_MOST], *text = NULL;
	bool needed = false;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	while (fgets(line, sizeof(line), file)) {
		const char *ip;
		char *value;
		bool has_port;
		int port;

		if (strncmp(line, keyword, length) != 0 || !isblank((unsigned char)line[length]))
			continue;
		value = line + length + strspn(line + length, " \t");
		value[strcspn(value, " \t\r\n#;")] = '\0';
		ip = dns_query_split(value, &port, &has_port);
		if (!ip)
			continue;
		bytes_append_format(&list, strchr(ip, ':') ? "%s[%s]:%d" : "%s%s:%d",
				    bytes_size(&list) > 0 ? "," : "", ip, port);
		needed |= has_port;
	}
	fclose(file);
	bytes_append_string(&list, "");
	if (needed && !list.failed)
		text = mem_copy_string((const char *)bytes_front(&list));
	bytes_free(&list);
	return text;
}

/* ---- queries ---- */

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

/* Returns an answer with one reference, zero addresses, and all addresses reachable. NULL: no
   memory. */
static struct dns_result *dns_result_new(int count, const char *error)
{
	struct dns_result *result = mem_try(sizeof(*result) +
					    (size_t)count * sizeof(result->addresses[0]));

	if (!result)
		return NULL;
	result->holders = 1;
	result->count = result->reachable = count;
	result->error = error;
	return result;
}

/* Joins both families, with IPv6 first if it has a route (RFC 6724 rules 1 and 6, simplified).
   NULL: no memory. */
static struct dns_result *join_families(const struct dns_result *v4, const struct dns_result *v6,
					const char *error)
{
	int count4 = v4 ? v4->count : 0, count6 = v6 ? v6->count : 0;
	struct dns_result *joined = dns_result_new(count4 + count6, count4 + count6 ? NULL : error);
	struct address to;
	int at6 = count4, fd;

	if (!joined)
		return NULL;
	fd = count6 > 0 ? socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
	if (fd >= 0) {
		/* asks the routing table, sends nothing */
		to = v6->addresses[0];
		to.u.v6.sin6_port = htons(53);
		if (connect(fd, &to.u.any, to.size) == 0)
			at6 = 0;
		close(fd);
	}
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

static void dns_query_finish(struct dns_query *query)
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
	dns_query_finish(arg);
}

/* Copies the addresses of one family and lowers *ttl to their minimum. NULL: no addresses, or no
   memory. */
static struct dns_result *dns_query_result_of(const struct ares_addrinfo *info, int family,
					      int *ttl)
{
	struct dns_result *result;
	int count = 0;

	for (const struct ares_addrinfo_node *node = info->nodes; node && count < ADDRESSES_MAX;
	     node = node->ai_next)
		count++;
	result = count > 0 ? dns_result_new(count, NULL) : NULL;
	if (!result)
		return NULL;
	result->count = 0;
	for (const struct ares_addrinfo_node *node = info->nodes; node && count-- > 0;
	     node = node->ai_next) {
		struct address *a = &result->addresses[result->count];

		/* c-ares returns addresses of the other family if the answer contains more than the
		   question */
		if (node->ai_family == family && node->ai_addrlen <= sizeof(a->u)) {
			memset(a, 0, sizeof(*a));
			memcpy(&a->u, node->ai_addr, node->ai_addrlen);
			a->size = node->ai_addrlen;
			result->count++;
		}
		if (node->ai_ttl < *ttl)
			*ttl = node->ai_ttl;
	}
	for (const struct ares_addrinfo_cname *name = info->cnames; name; name = name->next)
		if (name->ttl < *ttl)
			*ttl = name->ttl;
	if (result->count == 0)
		dns_result_drop(&result);
	return result;
}

/* Handles the answer for one family. */
static void on_half(struct dns_query *query, struct dns_result **to, int status,
		    struct ares_addrinfo *info)
{
	query->halves--;
	if (status == ARES_SUCCESS && query->where)
		*to = dns_query_result_of(info, to == &query->v4 ? AF_INET : AF_INET6, &query->ttl);
	if (!*to)
		query->error = ares_strerror(status == ARES_SUCCESS ? ARES_ENODATA : status);
	if (info)
		ares_freeaddrinfo(info);
	if (query->where && query->halves == 0) {
		dns_query_finish(query);
	} else if (query->where && *to) {
		struct timeval grace = { .tv_sec = FAMILY_GRACE / USEC,
					 .tv_usec = FAMILY_GRACE % USEC };

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
			memcpy(&a->u.v6.sin6_addr, entry->h_addr_list[i],
			       sizeof(a->u.v6.sin6_addr));
	}
	ares_free_hostent(entry);
	return result;
}

/* Returns an answer without a query: for an address in text, or a name in /etc/hosts; otherwise
   NULL. */
static struct dns_result *answer_locally(struct dns_channel *channel, const char *name)
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

bool dns_query_start(struct dns_query **where, struct dns_channel *channel, const char *name,
		     usec_t limit, dns_query_done *done, void *context)
{
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT,
					     .ai_socktype = SOCK_STREAM };
	struct timeval tv = { .tv_sec = limit / USEC, .tv_usec = limit % USEC };
	struct dns_result *local = answer_locally(channel, name);
	struct dns_query *query;

	if (local) {
		done(context, local, DNS_TTL_LOCAL);
		return true;
	}
	query = mem_try(sizeof(*query));
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
