#ifndef NET_DNS_SERVERS_H
#define NET_DNS_SERVERS_H

/*
 * Name servers with a port of their own in a resolv.conf. Part of net/dns.c; others use net/dns.h.
 */

/* When some "nameserver" line of the file has a port (192.0.2.1:5353, [2001:db8::1]:5353), all its name
   servers as c-ares takes them, commas between; free with mem_free. NULL: none has one, c-ares can read the
   file itself; or the file cannot be read, or there is no memory. */
char *dns_servers_read(const char *path);

#endif
