/*
 * The header of the PROXY protocol. A sender that is trusted to name its clients begins each
 * connection with one of
 *
 *	version 1	"PROXY TCP4 192.0.2.7 10.0.0.1 51244 6432\r\n", at most 107 bytes; TCP6;
 *			UNKNOWN, and anything up to the end of the line
 *	version 2	12 bytes of signature; version and command; family and transport; the
 *			number of bytes that follow: addresses, and then TLVs
 *
 * and the bytes of the client follow. Only the client's own address is used. TLVs (the name that a
 * client asked for in TLS, an id of AWS) are skipped, and so is their checksum: the bytes come over
 * TCP from a sender that is trusted.
 *
 * Fail closed: the caller ends the connection if a header is malformed. Otherwise the client would
 * count with the address of the load balancer, which rules may admit.
 */
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <string.h>

#define V1_SIGNATURE "PROXY "
#define V2_SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V1_SIGNATURE_SIZE (sizeof(V1_SIGNATURE) - 1)
#define V2_SIGNATURE_SIZE (sizeof(V2_SIGNATURE) - 1)
#define V1_MOST 107			/* with CRLF */
#define V2_FIXED 16			/* bytes before the addresses */
#define V1_FIELD 40			/* longest word, with a NUL: an IPv6 address has 39 bytes */

enum { V2_LOCAL = 0x20, V2_PROXY = 0x21 };	/* with the version */
enum { OVER_UNKNOWN = 0x00, OVER_TCP4 = 0x11, OVER_TCP6 = 0x21, OVER_UNIX = 0x31 };

static enum proxy_verdict proxy_header_bad(struct proxy_header *h, const char *fault)
{
	h->fault = fault;
	return PROXY_BAD;
}

static enum proxy_verdict proxy_header_more(struct proxy_header *h, size_t more)
{
	h->more = more;
	return PROXY_MORE;
}

/* Sets the client. `ip` has 4 or 16 bytes. */
static void proxy_header_name(struct proxy_header *h, const uint8_t *ip, size_t size, uint16_t port)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (size == 16 && memcmp(ip, mapped, sizeof(mapped)) == 0) {
		ip += sizeof(mapped);
		size = 4;
	}
	h->has_client = true;
	h->client = (struct brief_address){ .family = size == 4 ? AF_INET : AF_INET6,
					    .port = port };
	memcpy(h->client.u.ip, ip, size);
}

/* ---- version 1 ---- */

/* Cuts a word off a line, up to one blank or the end. False: the word is empty or too long. */
static bool v1_word(const uint8_t **at, const uint8_t *end, char word[V1_FIELD])
{
	size_t size = 0;

	while (*at < end && **at != ' ') {
		if (size == V1_FIELD - 1)
			return false;
		word[size++] = (char)*(*at)++;
	}
	word[size] = '\0';
	if (*at < end)
		++*at;
	return size > 0 && memchr(word, '\0', size) == NULL;
}

/* Parses a port: digits without a leading zero, at most 65,535. */
static bool v1_port(const char *word, uint16_t *port)
{
	uint32_t value = 0;

	if (word[0] == '0' && word[1] != '\0')
		return false;
	for (const char *at = word; *at; at++) {
		if (*at < '0' || *at > '9')
			return false;
		value = value * 10 + (uint32_t)(*at - '0');
		if (value > UINT16_MAX)
			return false;
	}
	*port = (uint16_t)value;
	return true;
}

/* Parses "TCP4 <client> <here> <client's port> <port here>". */
static bool v1_line(const uint8_t *at, const uint8_t *end, struct proxy_header *h)
{
	char family[V1_FIELD], source[V1_FIELD], target[V1_FIELD], port[V1_FIELD], here[V1_FIELD];
	uint8_t ip[16], unused[16];
	uint16_t source_port, target_port;
	int kind;

	if (!v1_word(&at, end, family))
		return false;
	if (strcmp(family, "UNKNOWN") == 0)
		return true;
	kind = strcmp(family, "TCP4") == 0 ? AF_INET : strcmp(family, "TCP6") == 0 ? AF_INET6 : 0;
	if (kind == 0 || !v1_word(&at, end, source) || !v1_word(&at, end, target) ||
	    !v1_word(&at, end, port) || !v1_word(&at, end, here) || at != end)
		return false;
	if (end[-1] == ' ' || inet_pton(kind, source, ip) != 1 ||
	    inet_pton(kind, target, unused) != 1 || !v1_port(port, &source_port) ||
	    !v1_port(here, &target_port))
		return false;
	proxy_header_name(h, ip, kind == AF_INET ? 4 : 16, source_port);
	return true;
}

static enum proxy_verdict v1_read(const uint8_t *at, size_t n, struct proxy_header *h)
{
	const uint8_t *end = memchr(at, '\n', n < V1_MOST ? n : V1_MOST);

	if (!end)
		return n < V1_MOST ? proxy_header_more(h, 1)
				   : proxy_header_bad(h, "a line of more than 107 bytes");
	if (end[-1] != '\r' || !v1_line(at + V1_SIGNATURE_SIZE, end - 1, h))
		return proxy_header_bad(h, "a malformed line");
	h->size = (size_t)(end - at) + 1;
	return PROXY_OK;
}

/* ---- version 2 ---- */

static uint16_t v2_u16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static enum proxy_verdict v2_read(const uint8_t *at, size_t n, struct proxy_header *h)
{
	const uint8_t *addresses = at + V2_FIXED;
	size_t follows, ip_size;

	if (n < V2_FIXED)
		return proxy_header_more(h, V2_FIXED - n);
	follows = v2_u16(at + V2_FIXED - 2);
	h->size = V2_FIXED + follows;
	if (at[12] == V2_LOCAL)
		return PROXY_OK;
	if (at[12] != V2_PROXY)
		return proxy_header_bad(h, "an unknown version or command");
	if (at[13] == OVER_UNKNOWN || at[13] == OVER_UNIX)
		return PROXY_OK;
	if (at[13] != OVER_TCP4 && at[13] != OVER_TCP6)
		return proxy_header_bad(h, "an unknown family or transport");
	ip_size = at[13] == OVER_TCP4 ? 4 : 16;
	/* both addresses, both ports */
	if (follows < 2 * ip_size + 4)
		return proxy_header_bad(h, "too short for its addresses");
	if (n < V2_FIXED + 2 * ip_size + 4)
		return proxy_header_more(h, V2_FIXED + 2 * ip_size + 4 - n);
	proxy_header_name(h, addresses, ip_size, v2_u16(addresses + 2 * ip_size));
	return PROXY_OK;
}

/* ---- both ---- */

enum proxy_verdict proxy_header_read(const uint8_t *at, size_t n, struct proxy_header *h)
{
	size_t one = n < V1_SIGNATURE_SIZE ? n : V1_SIGNATURE_SIZE;
	size_t two = n < V2_SIGNATURE_SIZE ? n : V2_SIGNATURE_SIZE;

	*h = (struct proxy_header){ .size = 0 };
	if (memcmp(at, V1_SIGNATURE, one) == 0)
		return n < V1_SIGNATURE_SIZE ? proxy_header_more(h, V1_SIGNATURE_SIZE - n)
					     : v1_read(at, n, h);
	if (memcmp(at, V2_SIGNATURE, two) == 0)
		return v2_read(at, n, h);
	return proxy_header_bad(h, "no header");
}

bool proxy_header_is_signed(const uint8_t *at, size_t n)
{
	return (n >= V1_SIGNATURE_SIZE && memcmp(at, V1_SIGNATURE, V1_SIGNATURE_SIZE) == 0) ||
	       (n >= V2_SIGNATURE_SIZE && memcmp(at, V2_SIGNATURE, V2_SIGNATURE_SIZE) == 0);
}
