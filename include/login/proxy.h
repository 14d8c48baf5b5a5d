#ifndef LOGIN_PROXY_H
#define LOGIN_PROXY_H

#include <stddef.h>
#include <stdint.h>

struct client;

/* The client has connected, is counted for the address of its socket, and nothing has been read. If
   proxy_protocol_networks has that address, the login waits for a header: LOGIN_HEADER. */
void proxy_expect(struct client *client);
/* LOGIN_HEADER: handles the n > 0 bytes at the front of the input. Returns the number of bytes that
   belong to the header; after its last byte the login is in LOGIN_PACKET, and the client counts for
   the address in the header. 0: more bytes are needed, or the client has ended. */
size_t proxy_take(struct client *client, const uint8_t *at, size_t n);

#endif
