/*
 * The clock of the turn, which all connections have in common: it is read once a turn.
 */
#include "conn/world.h"

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
