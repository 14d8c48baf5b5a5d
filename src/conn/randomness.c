/*
 * Random bytes for short secrets: cancel keys, and tags in the names of prepared statements. A call
 * of OpenSSL takes longer than the rest of a login, so bytes for many secrets are requested at
 * once.
 */
#include "conn/randomness.h"

#include "base/mem.h"

#include <openssl/rand.h>
#include <string.h>

bool randomness_draw(struct randomness *r, void *to, size_t size)
{
	if (r->left < size) {
		if (RAND_bytes(r->bytes, sizeof(r->bytes)) != 1)
			return false;
		r->left = sizeof(r->bytes);
	}
	r->left -= size;
	memcpy(to, r->bytes + r->left, size);
	mem_wipe(r->bytes + r->left, size);
	return true;
}
