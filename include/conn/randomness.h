#ifndef CONN_RANDOMNESS_H
#define CONN_RANDOMNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A supply of random bytes for short secrets: see randomness.c. Initialise with zeros. */
struct randomness {
	uint8_t bytes[1024];		/* the first `left` bytes are unused */
	size_t left;
};

/* Writes `size` random bytes, at most some dozens, to `to`, and wipes them in the supply. False:
   OpenSSL has no random bytes. */
bool randomness_draw(struct randomness *randomness, void *to, size_t size);

#endif
