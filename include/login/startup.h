#ifndef LOGIN_STARTUP_H
#define LOGIN_STARTUP_H

#include <stddef.h>
#include <stdint.h>

struct client;

#define STARTUP_MOST 10000		/* bytes of a packet: PostgreSQL's MAX_STARTUP_PACKET_LENGTH */

/* One start-up packet of the client's from the front of n > 0 bytes; how many it took. 0: no whole one is here, or the client is past this
   step, or gone. What the packet asks for has begun then: TLS, a cancel request, or the questions of auth.h. */
size_t startup_packet(struct client *client, const uint8_t *at, size_t n);

#endif
