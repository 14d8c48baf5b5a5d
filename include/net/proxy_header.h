#ifndef NET_PROXY_HEADER_H
#define NET_PROXY_HEADER_H

#include "net/address.h"

/*
 * The header of the PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt): a load
 * balancer sends it as the first bytes of a connection, to name the client that it serves.
 */

enum proxy_verdict {
	PROXY_MORE,			/* the bytes are the beginning of a header */
	PROXY_BAD,			/* the bytes are not a header, or it is malformed */
	PROXY_OK
};

struct proxy_header {
	/* PROXY_OK: bytes of the whole header, at most 65,551. In version 2 the TLVs, which
	   follow the addresses, count; they need not have arrived. */
	size_t size;
	/* PROXY_MORE: this number of further bytes belongs to the header in any case. At least 1 */
	size_t more;
	/* PROXY_OK: the header names the client. False: the sender speaks for itself (LOCAL,
	   UNKNOWN, AF_UNSPEC), for example to check that the service is up, or the client has no
	   internet address (AF_UNIX) */
	bool has_client;
	/* PROXY_OK with has_client: address and port of the client. ::ffff:a.b.c.d is the IPv4
	   address */
	struct brief_address client;
	const char *fault;		/* PROXY_BAD: the reason, a constant */
};

/* Parses a header at the front of n bytes. It reads neither beyond the n bytes nor more than the
   header. A connection that does not begin with a header is PROXY_BAD with its first byte that
   fits neither version. */
enum proxy_verdict proxy_header_read(const uint8_t *at, size_t n, struct proxy_header *header);

/* Whether n bytes begin with the signature of either version, complete. */
bool proxy_header_is_signed(const uint8_t *at, size_t n);

#endif
