#ifndef LOGIN_STARTUP_PACKET_H
#define LOGIN_STARTUP_PACKET_H

#include <stddef.h>
#include <stdint.h>

struct client;

#define STARTUP_MOST 10000		/* longest packet: PostgreSQL's MAX_STARTUP_PACKET_LENGTH */

/* Handles one start-up packet at the front of n > 0 bytes. Returns its size. 0: the packet is
   incomplete, or the client is past this step or has ended. The packet starts TLS, a cancel
   request, or the authentication (auth.h). */
size_t startup_packet(struct client *client, const uint8_t *at, size_t n);

#endif
