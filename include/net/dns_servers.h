#ifndef NET_DNS_SERVERS_H
#define NET_DNS_SERVERS_H

/*
 * Name servers with ports in resolv.conf. Part of net/dns.c; others use net/dns.h.
 */

/* If a "nameserver" line of the file has a port (192.0.2.1:5353, [2001:db8::1]:5353), returns all its name servers in the
   syntax of c-ares, separated by commas; free with mem_free. NULL: no line has a port, so c-ares can read the file itself; or
   the file cannot be read, or there is no memory. */
char *dns_servers_read(const char *path);

#endif
