/*
 * The cancel keys of a group of poolers. With peer_id set, the first two bytes of a client's secret key contain the id of the
 * process that made it and the number of hops left:
 *
 * 14 bits peer_id   2 bits hops left   16 bits, or 176 with protocol 3.2: random
 */
#include "cancel/peer_key.h"

#include "base/mem.h"
#include "conn/client.h"

#include <string.h>

#define HOPS_MOST 3
#define HOPS_BITS 0x03		/* in the second byte of the key */

void peer_key_mark(int64_t peer_id, uint8_t *key)
{
	if (peer_id == 0)
		return;
	key[0] = (uint8_t)(peer_id >> 6);
	key[1] = (uint8_t)((peer_id & 0x3f) << 2 | HOPS_MOST);
}

int peer_key_id(const uint8_t *key)
{
	return key[0] << 6 | key[1] >> 2;
}

bool peer_key_has_hops(const uint8_t *key)
{
	return (key[1] & HOPS_BITS) != 0;
}

void peer_key_hop(uint8_t *key)
{
	key[1]--;
}

bool peer_key_is_same(int64_t peer_id, const uint8_t *own, const uint8_t *asked, size_t size)
{
	uint8_t a[CANCEL_KEY_LONG], b[CANCEL_KEY_LONG];

	memcpy(a, own, size);
	memcpy(b, asked, size);
	if (peer_id != 0) {
		a[1] |= HOPS_BITS;
		b[1] |= HOPS_BITS;
	}
	return mem_equal_constant_time(a, b, size);
}
