/*
 * Randomness for secrets that are short and many: cancel keys, tags of statements' names. Each call of OpenSSL costs more than
 * the rest of a login, so bytes for many secrets are drawn at a time. What has been given out is wiped here (world_draw).
 */
#include "session/world.h"

#include <openssl/rand.h>

bool world_draw_more(struct world *w)
{
	if (RAND_bytes(w->random, sizeof(w->random)) != 1)
		return false;
	w->random_left = sizeof(w->random);
	return true;
}
