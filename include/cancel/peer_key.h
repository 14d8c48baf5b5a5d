#ifndef CANCEL_PEER_KEY_H
#define CANCEL_PEER_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The part of a cancel key that identifies the process that made it: see peer_key.c. A `peer_id` of 0 means that this process
 * belongs to no group, and its keys contain no such part. Pure functions.
 */

/* Writes the id of this process and the number of hops into a new key. */
void peer_key_mark(int64_t peer_id, uint8_t *key);
/* Returns the id of the process that made the key. */
int peer_key_id(const uint8_t *key);
/* Whether the key may be forwarded again. */
bool peer_key_has_hops(const uint8_t *key);
/* Decrements the number of hops of a key before it is forwarded. */
void peer_key_hop(uint8_t *key);
/* Whether both keys, of `size` bytes each (CANCEL_KEY or CANCEL_KEY_LONG), are equal except for the number of hops. Constant time. */
bool peer_key_is_same(int64_t peer_id, const uint8_t *own, const uint8_t *asked, size_t size);

#endif
