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
	struct event *timer;		/* c-ares's own time-outs */
	struct list sockets;
	bool is_deaf;			/* there was no memory to watch one of c-ares's sockets */
};

/* `servers` as in struct dns_config. Gives a status of c-ares; close it whatever it is. */
int dns_channel_open(struct dns_channel *c, struct event_base *base, const char *resolv_conf, const char *servers);
/* Whatever is under way is called back with ARES_EDESTRUCTION. One that is all zeros is fine. */
void dns_channel_close(struct dns_channel *c);
/* To be called after whatever gave c-ares something to do. */
void dns_channel_arm(struct dns_channel *c);
/* Reads the configuration anew. Whatever is under way is called back with ARES_EDESTRUCTION, so never call it
   from a callback of c-ares. False, with a warning and nothing changed: it cannot be opened anew. */
bool dns_channel_renew(struct dns_channel *c, const char *resolv_conf, const char *servers);

#endif
