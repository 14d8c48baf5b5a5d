/*
 * c-ares driven by libevent.
 *
 * c-ares opens and closes its own sockets and says by a callback what it wants to know of each; a watch
 * here is the event for one of them. One timer stands for all time-outs of c-ares and is set anew after
 * each call into it.
 *
 * c-ares reads resolv.conf once. To follow a changed one, a fresh channel takes the old one's place at
 * once: waiting for the old one to have nothing under way would be waiting for the very name servers that
 * were perhaps just replaced.
 */
#include "net/dns_channel.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/dns_servers.h"

#define TRY_MS 2000			/* before c-ares asks again */
#define TRIES 2
#define DEAF_MS 100			/* until it is tried again to watch a socket */

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
	/* The watch may be gone when c-ares returns. */
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

/* c-ares says what it wants to know of a socket; neither: it is about to close it. */
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

/* c-ares says once what it wants to know of a socket. When there was no memory then, it is asked again. */
static void watch_all(struct dns_channel *c)
{
	ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
	/* a bit for each that is to be read, and behind those as many for writing: the macros of c-ares shift into the sign */
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

/* c-ares keeps those of resolv.conf where there are none. */
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
