#ifndef CANCEL_PEER_KEY_H
#define CANCEL_PEER_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a cancel key says of the process that made it: see peer_key.c. A `peer_id` of 0: this process is in no group, and its keys say nothing.
 * Pure.
 */

/* Marks a fresh key as made by this process. */
void peer_key_mark(int64_t peer_id, uint8_t *key);
/* The process that made the key. */
int peer_key_id(const uint8_t *key);
/* The key may be handed on once more. */
bool peer_key_has_hops(const uint8_t *key);
/* It is handed on: one hop less. */
void peer_key_hop(uint8_t *key);
/* True when both keys, of `size` bytes each (CANCEL_KEY or CANCEL_KEY_LONG), are the same but for the hops that are left.
   Constant time. */
bool peer_key_is_same(int64_t peer_id, const uint8_t *own, const uint8_t *asked, size_t size);

#endif
