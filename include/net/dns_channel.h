#ifndef NET_DNS_CHANNEL_H
#define NET_DNS_CHANNEL_H

#include <stdbool.h>

#include <ares.h>
#include <event2/event.h>

#include "base/list.h"

/*
 * A c-ares channel on the event loop. Part of net/dns.c; others use net/dns.h.
 */
struct dns_channel {
	struct event_base *base;
	ares_channel ares;
	struct event *timer;		/* timeouts of c-ares */
	struct list sockets;
	bool is_deaf;			/* no memory to watch one of c-ares's sockets */
};

/* `servers` as in struct dns_config. Returns a c-ares status; must be closed in any case. */
int dns_channel_open(struct dns_channel *c, struct event_base *base, const char *resolv_conf, const char *servers);
/* Callbacks of queries in progress are called with ARES_EDESTRUCTION. A zeroed channel is allowed. */
void dns_channel_close(struct dns_channel *c);
/* Must be called after each call of c-ares that may start or continue a query. */
void dns_channel_arm(struct dns_channel *c);
/* Reads the configuration again. Callbacks of queries in progress are called with ARES_EDESTRUCTION, so this must not be called
   from a callback of c-ares. False, with a warning and without a change: the new channel cannot be opened. */
bool dns_channel_renew(struct dns_channel *c, const char *resolv_conf, const char *servers);

/* If a "nameserver" line of the file has a port (192.0.2.1:5353, [2001:db8::1]:5353), returns all its name servers in the
   syntax of c-ares, separated by commas; free with mem_free. NULL: no line has a port, so c-ares can read the file itself; or
   the file cannot be read, or there is no memory. */
char *dns_servers_read(const char *path);

#endif
