#ifndef CONF_NETWORKS_H
#define CONF_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A list of networks, separated by commas or blanks: "10.0.0.0/8, 192.0.2.7, 2001:db8::/32, unix".
 * An address without a length is one host; "unix" is every Unix socket.
 */
bool networks_are_valid(const char *list);
/* Whether a valid list has the address: 4 or 16 bytes in network order, or ip_size 0 for a Unix
   socket. An IPv4-mapped address, ::ffff:a.b.c.d, counts as the IPv4 address. */
bool networks_have(const char *list, const uint8_t *ip, size_t ip_size);

#endif
