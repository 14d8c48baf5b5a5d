/*
 * Addresses on HBA lines: IPv4 and IPv6, with a length (10.0.0.0/8) or a mask behind (10.0.0.0 255.0.0.0).
 *
 * Bits of the address outside of the mask do not count, and a mask may have holes, as in PostgreSQL. A client that reached an IPv6
 * socket over IPv4 comes as ::ffff:a.b.c.d and is meant by IPv4 lines too: a rule that refuses 10.0.0.0/8 must not depend on
 * which socket the client found. Host names are not supported, because the answer of a name server would decide which client gets in, and
 * the login would have to wait for it.
 */
#include "conf/hba_parts.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>

#define MAPPED 12		/* bytes in front of the IPv4 address in ::ffff:a.b.c.d */

static const uint8_t mapped_prefix[MAPPED] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* Reads an address into 4 or 16 bytes; 0: it is none. The zone of a link-local one, "%eth0", does not count. */
static uint8_t read_ip(const char *text, size_t size, uint8_t ip[16])
{
	char copy[INET6_ADDRSTRLEN], *zone;

	if (size >= sizeof(copy))
		return 0;
	memcpy(copy, text, size);
	copy[size] = '\0';
	if (inet_pton(AF_INET, copy, ip) == 1)
		return 4;
	zone = strchr(copy, '%');
	if (zone)
		*zone = '\0';
	return inet_pton(AF_INET6, copy, ip) == 1 ? 16 : 0;
}

static void set_bits(uint8_t mask[16], unsigned bits)
{
	memset(mask, 0, 16);
	for (unsigned i = 0; i < bits; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
}

/* ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
static void unmap(struct hba_address *a)
{
	static const uint8_t ones[MAPPED] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };

	if (a->size != 16 || memcmp(a->ip, mapped_prefix, MAPPED) != 0 || memcmp(a->mask, ones, MAPPED) != 0)
		return;
	memmove(a->ip, a->ip + MAPPED, 4);
	memmove(a->mask, a->mask + MAPPED, 4);
	a->size = 4;
}

bool hba_address_is_bare(const char *text)
{
	return !strchr(text, '/');
}

const char *hba_address_read(struct hba_address *a, const char *text, const char *mask)
{
	size_t size = strcspn(text, "/");
	int64_t bits;

	a->kind = HBA_ADDRESS_MASK;
	a->size = read_ip(text, size, a->ip);
	if (a->size == 0)
		return "is no IPv4 or IPv6 address (host names are not supported)";
	if (text[size] == '/') {
		if (strspn(text + size + 1, "0123456789") != strlen(text + size + 1) || !text_to_int64(text + size + 1, &bits) ||
		    bits > a->size * 8)
			return "has no valid length behind the \"/\"";
		set_bits(a->mask, (unsigned)bits);
	} else if (!mask) {
		return "has no mask: expected \"/LENGTH\", or a mask behind it";
	} else if (read_ip(mask, strlen(mask), a->mask) != a->size) {
		return "is not followed by a mask of the same kind";
	}
	unmap(a);
	return NULL;
}

bool hba_address_may_be_mask(const struct hba_address *a)
{
	size_t i = 0;
	uint8_t rest;

	while (i < a->size && a->ip[i] == 0xff)
		i++;
	/* one with holes hardly begins in another way */
	if (i > 0)
		return true;
	/* 11100000 has no bit of its complement's successor */
	rest = (uint8_t)~a->ip[0];
	if (rest & (uint8_t)(rest + 1))
		return false;
	for (i = 1; i < a->size; i++)
		if (a->ip[i])
			return false;
	return true;
}

static bool fits_mask(const struct hba_address *a, const uint8_t *ip)
{
	for (size_t i = 0; i < a->size; i++)
		if ((a->ip[i] ^ ip[i]) & a->mask[i])
			return false;
	return true;
}

static enum hba_fit fits_near(const struct hba_client *client, bool whole_net)
{
	return client->is_near ? client->is_near(client, whole_net) : HBA_FIT_UNKNOWN;
}

enum hba_fit hba_address_fits(const struct hba_address *a, const struct hba_client *client)
{
	bool fits = false;

	switch (a->kind) {
	case HBA_ADDRESS_ALL:
		return HBA_FITS;
	case HBA_ADDRESS_SAME_HOST:
		return fits_near(client, false);
	case HBA_ADDRESS_SAME_NET:
		return fits_near(client, true);
	case HBA_ADDRESS_MASK:
		break;
	}
	if (a->size == client->ip_size)
		fits = fits_mask(a, client->ip);
	else if (a->size == 4 && client->ip_size == 16 && memcmp(client->ip, mapped_prefix, MAPPED) == 0)
		fits = fits_mask(a, client->ip + MAPPED);
	return fits ? HBA_FITS : HBA_FITS_NOT;
}
