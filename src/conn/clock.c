/*
 * What all connections have in common: the clock of the turn, and randomness.
 *
 * The clock is read once a turn. Randomness is for secrets that are short and many: cancel keys, tags of statements' names. Each call of
 * OpenSSL costs more than the rest of a login, so bytes for many secrets are drawn at a time. What has been given out is wiped in
 * world_draw.
 */
#include "conn/world.h"

#include <openssl/rand.h>

void world_read_clock(struct world *w)
{
	w->clock_is_old = false;
	w->now = clock_monotonic();
	w->now_wall = w->now + w->wall_ahead;
}

void world_set_wall_clock(struct world *w)
{
	w->wall_ahead = clock_wall() - clock_monotonic();
	w->now_wall = w->now + w->wall_ahead;
}

bool world_draw_more(struct world *w)
{
	if (RAND_bytes(w->random, sizeof(w->random)) != 1)
		return false;
	w->random_left = sizeof(w->random);
	return true;
}
