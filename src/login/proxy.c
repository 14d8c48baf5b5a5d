/*
 * A load balancer names its clients: the PROXY protocol (net/proxy_header.c).
 *
 * 1. A connection comes from an address of proxy_protocol_networks. It is counted there, like any
 *    login in progress, so that a load balancer with many silent connections displaces its own.
 * 2. LOGIN_HEADER: the header must be the first bytes, in clear text, also before TLS and before a
 *    cancel request. Anything else ends the connection. Otherwise a client on the machine of the
 *    load balancer could connect without a header and count with a trusted address.
 * 3. The client moves to the address that the header names. HBA lines, limits, SHOW, the log and
 *    application_name_add_host see only this one; the log line of the login attempt adds the load
 *    balancer as proxy=ADDRESS.
 * 4. The TLVs, up to 64 KiB, follow the addresses. They are skipped as they arrive, without being
 *    kept. Then a start-up packet follows: LOGIN_PACKET.
 *
 * client_login_timeout and the limits of logins apply throughout. An online restart leaves a
 * connection in LOGIN_HEADER with the old process.
 */
#include "login/proxy.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "conn/client.h"
#include "conn/listen_sockets.h"
#include "net/proxy_header.h"

void proxy_expect(struct client *c)
{
	if (world_expects_header(c->peer.world, &c->peer.remote))
		login_step_to(c, LOGIN_HEADER);
}

/* The header names this client. False: no memory; the client has ended. */
static bool proxy_name(struct client *c, const struct brief_address *client)
{
	client_address_leave(c);
	c->peer.remote = *client;
	if (client_address_enter(c))
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

size_t proxy_take(struct client *c, const uint8_t *at, size_t n)
{
	struct login *l = c->login;
	struct proxy_header header;
	size_t took;

	if (l->header_left == 0) {
		switch (proxy_header_read(at, n, &header)) {
		case PROXY_MORE:
			return 0;
		case PROXY_BAD:
			client_end(c, REASON_PROXY_HEADER, header.fault);
			return 0;
		case PROXY_OK:
			break;
		}
		l->sender = c->peer.remote;
		if (header.has_client && !proxy_name(c, &header.client))
			return 0;
		l->header_left = header.size;
	}
	took = n < l->header_left ? n : l->header_left;
	l->header_left -= took;
	if (l->header_left == 0)
		login_step_to(c, LOGIN_PACKET);
	return took;
}
