/*
 * Lists of networks: the type NETWORKS of settings. A list stays a text, because it is read only
 * when a connection is accepted, and has a few items.
 */
#include "conf/networks.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BETWEEN ", \t"
#define MAPPED_PREFIX 12		/* bytes before the IPv4 address in ::ffff:a.b.c.d */

struct network {
	uint8_t ip[16];
	size_t size;			/* of the address, 4 or 16; 0: Unix sockets */
	int64_t bits;			/* of the address that count */
};

/* Parses an item of the list. False: neither a network nor an address. */
static bool network_read(const char *text, size_t length, struct network *network)
{
	char copy[INET6_ADDRSTRLEN + sizeof("/128")], *slash;

	*network = (struct network){ .size = 0 };
	if (length >= sizeof(copy))
		return false;
	memcpy(copy, text, length);
	copy[length] = '\0';
	if (strcmp(copy, "unix") == 0)
		return true;
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	if (inet_pton(AF_INET, copy, network->ip) == 1)
		network->size = 4;
	else if (inet_pton(AF_INET6, copy, network->ip) == 1)
		network->size = 16;
	else
		return false;
	network->bits = (int64_t)network->size * 8;
	return !slash || (slash[strspn(slash, "0123456789")] == '\0' &&
			  text_to_int64(slash, &network->bits) &&
			  network->bits <= (int64_t)network->size * 8);
}

/* Cuts the next item off the list. False: there is none. */
static bool networks_next(const char **list, const char **item, size_t *length)
{
	*item = *list + strspn(*list, BETWEEN);
	*length = strcspn(*item, BETWEEN);
	*list = *item + *length;
	return *length > 0;
}

bool networks_are_valid(const char *list)
{
	struct network network;
	const char *item;
	size_t length;

	while (networks_next(&list, &item, &length))
		if (!network_read(item, length, &network))
			return false;
	return true;
}

static bool network_has(const struct network *network, const uint8_t *ip)
{
	size_t whole = (size_t)network->bits / 8, rest = (size_t)network->bits % 8;

	return memcmp(ip, network->ip, whole) == 0 &&
	       (rest == 0 || (ip[whole] ^ network->ip[whole]) >> (8 - rest) == 0);
}

bool networks_have(const char *list, const uint8_t *ip, size_t ip_size)
{
	static const uint8_t mapped[MAPPED_PREFIX] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	struct network network;
	const char *item;
	size_t length;

	if (ip_size == 16 && memcmp(ip, mapped, MAPPED_PREFIX) == 0) {
		ip += MAPPED_PREFIX;
		ip_size = 4;
	}
	while (networks_next(&list, &item, &length))
		if (network_read(item, length, &network) && network.size == ip_size &&
		    (ip_size == 0 || network_has(&network, ip)))
			return true;
	return false;
}
