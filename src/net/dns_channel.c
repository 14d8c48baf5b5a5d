/*
 * c-ares driven by libevent.
 *
 * c-ares opens and closes its own sockets and reports by a callback which events of a socket it needs; a watch is the event for
 * one socket. One timer covers all timeouts of c-ares and is set again after each call of c-ares.
 *
 * c-ares reads resolv.conf only once. When the file changes, a new channel replaces the old one at once: waiting for the
 * queries of the old channel could mean waiting for the name servers that were just replaced.
 */
#include "net/dns_channel.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/address.h"

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

	ares_process_fd(c->ares, what & EV_READ ? fd : ARES_SOCKET_BAD, what & EV_WRITE ? fd : ARES_SOCKET_BAD);
	dns_channel_arm(c);
}

static struct socket_watch *find_watch(struct dns_channel *c, int fd)
{
	LIST_EACH(node, &c->sockets) {
		struct socket_watch *watch = LIST_OBJECT(node, struct socket_watch, node);

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

/* Callback of c-ares: the events of a socket that it needs; without events, the socket is about to be closed. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns_channel *c = arg;
	struct socket_watch *watch = find_watch(c, fd);

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
	watch->event = event_new(c->base, fd,
				 (short)(EV_PERSIST | (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0)), on_socket,
				 watch);
	if (!watch->event || event_add(watch->event, NULL) != 0)
		c->is_deaf = true;
}

/* c-ares reports the events of a socket only once. If there was no memory then, the sockets are queried again. */
static void watch_all(struct dns_channel *c)
{
	ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
	/* one bit per readable socket, followed by one bit per writable socket; the macros of c-ares would shift into the sign bit */
	unsigned wanted = (unsigned)ares_getsock(c->ares, sockets, ARES_GETSOCK_MAXNUM);

	c->is_deaf = false;
	for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
		bool readable = wanted >> i & 1, writable = wanted >> (ARES_GETSOCK_MAXNUM + i) & 1;

		if (readable || writable)
			on_socket_state(c, sockets[i], readable, writable);
	}
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct dns_channel *c = arg;

	(void)fd, (void)what;
	if (c->is_deaf)
		watch_all(c);
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	dns_channel_arm(c);
}

/* Sets the servers, if there are any; otherwise c-ares uses the servers of resolv.conf. */
static int use_servers(ares_channel ares, const char *resolv_conf, const char *servers)
{
	char *listed = servers || !resolv_conf ? NULL : dns_servers_read(resolv_conf);
	int status = ARES_SUCCESS;

	if (servers || listed)
		status = ares_set_servers_ports_csv(ares, servers ? servers : listed);
	mem_free(listed);
	return status;
}

static int open_ares(struct dns_channel *c, ares_channel *to, const char *resolv_conf, const char *servers)
{
	int mask = ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES, status;
	struct ares_options options = { .timeout = TRY_MS, .tries = TRIES, .sock_state_cb = on_socket_state,
					.sock_state_cb_data = c };

	if (resolv_conf) {
		mask |= ARES_OPT_RESOLVCONF;
		options.resolvconf_path = mem_copy_string(resolv_conf);
		if (!options.resolvconf_path)
			return ARES_ENOMEM;
	}
	status = ares_init_options(to, &options, mask);
	mem_free(options.resolvconf_path);
	if (status != ARES_SUCCESS)
		return status;
	status = use_servers(*to, resolv_conf, servers);
	if (status != ARES_SUCCESS)
		ares_destroy(*to);
	return status;
}

int dns_channel_open(struct dns_channel *c, struct event_base *base, const char *resolv_conf, const char *servers)
{
	int status;

	memset(c, 0, sizeof(*c));
	c->base = base;
	list_init(&c->sockets);
	c->timer = evtimer_new(base, on_timer, c);
	if (!c->timer)
		return ARES_ENOMEM;
	status = open_ares(c, &c->ares, resolv_conf, servers);
	if (status != ARES_SUCCESS)
		c->ares = NULL;
	return status;
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

bool dns_channel_renew(struct dns_channel *c, const char *resolv_conf, const char *servers)
{
	ares_channel fresh;
	int status = open_ares(c, &fresh, resolv_conf, servers);

	if (status != ARES_SUCCESS) {
		log_warning("cannot read the resolver's configuration, the old one stays: %s", ares_strerror(status));
		return false;
	}
	ares_destroy(c->ares);
	c->ares = fresh;
	dns_channel_arm(c);
	return true;
}

/* ---- name servers with ports ---- */

/*
 * Name servers with a port.
 *
 * resolv.conf(5) does not define ports, but local resolvers often use another port. Newer releases of c-ares parse "nameserver
 * 192.0.2.1:5353" and "nameserver [2001:db8::1]:5353"; older releases silently skip such a line and then query 127.0.0.1.
 * Therefore these lines are parsed here. c-ares reads the rest of the file.
 *
 * As in resolv.conf(5), a line has a keyword at its beginning and a value; unknown lines are ignored.
 */

#define LINE_MOST 512
#define DNS_PORT 53

static bool read_port(const char *text, int *port)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!isdigit((unsigned char)*text) || *end || value < 1 || value > 65535)
		return false;
	*port = (int)value;
	return true;
}

/* Splits "192.0.2.1:53", "[2001:db8::1]:53", or an address without a port; modifies the text. Returns the address, or NULL. */
static const char *split(char *text, int *port, bool *has_port)
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
		*colon = '\0';
		*has_port = true;
		if (!read_port(colon + 1, port))
			return NULL;
	}
	return address_from_ip(&address, ip, 0) ? ip : NULL;
}

static bool add_server(struct bytes *list, char *line)
{
	static const char keyword[] = "nameserver";
	size_t length = sizeof(keyword) - 1;
	const char *ip;
	char *value;
	bool has_port;
	int port;

	if (strncmp(line, keyword, length) != 0 || !isblank((unsigned char)line[length]))
		return false;
	value = line + length + strspn(line + length, " \t");
	value[strcspn(value, " \t\r\n#;")] = '\0';
	ip = split(value, &port, &has_port);
	if (ip)
		bytes_append_format(list, strchr(ip, ':') ? "%s[%s]:%d" : "%s%s:%d", bytes_size(list) > 0 ? "," : "", ip, port);
	return ip && has_port;
}

char *dns_servers_read(const char *path)
{
	struct bytes list = BYTES_EMPTY;
	char line[LINE_MOST], *text = NULL;
	bool needed = false;
	FILE *file = fopen(path, "re");

	if (!file)
		return NULL;
	while (fgets(line, sizeof(line), file))
		needed |= add_server(&list, line);
	fclose(file);
	bytes_append_string(&list, "");
	if (needed && !list.failed)
		text = mem_copy_string((const char *)bytes_front(&list));
	bytes_free(&list);
	return text;
}
