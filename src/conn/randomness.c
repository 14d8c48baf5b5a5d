/*
 * Randomness for secrets that are short and many: cancel keys, tags of statements' names. Each call of OpenSSL costs more than the rest of
 * a login, so bytes for many secrets are drawn at a time. randomness_draw wipes the bytes that it has given out.
 */
#include "conn/randomness.h"

#include <openssl/rand.h>

bool randomness_refill(struct randomness *r)
{
	if (RAND_bytes(r->bytes, sizeof(r->bytes)) != 1)
		return false;
	r->left = sizeof(r->bytes);
	return true;
}
