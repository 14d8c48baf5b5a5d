/*
 * Addresses in HBA lines: IPv4 and IPv6, with a prefix length (10.0.0.0/8) or a mask (10.0.0.0 255.0.0.0).
 *
 * As in PostgreSQL, bits of the address outside of the mask are ignored, and a mask may have holes. A client that reached an
 * IPv6 socket over IPv4 has the address ::ffff:a.b.c.d and matches IPv4 lines too: whether a rule refuses 10.0.0.0/8 must not
 * depend on the socket. Host names are not supported: a name server would decide which client is admitted, and the login would
 * wait for it.
 */
#include "conf/hba_parts.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>

#define MAPPED 12		/* bytes before the IPv4 address in ::ffff:a.b.c.d */

static const uint8_t mapped_prefix[MAPPED] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* Parses an address. Returns its size, 4 or 16, or 0 if it is not an address. The zone of a link-local address ("%eth0") is ignored. */
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
	/* a mask with holes usually begins with a byte 0xff too */
	if (i > 0)
		return true;
	/* the byte must be ones followed by zeros: its complement plus one is a power of two */
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
