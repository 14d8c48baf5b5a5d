#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim.h"

/* Plays the world of a seed, within plan_limits; it aborts when the world fails. */
typedef void shrink_play(uint64_t seed, usec_t length);
/* Draws the plan of a seed; `length` 0: that, too. Returns the length. */
typedef usec_t shrink_draw(uint64_t seed, usec_t length);

/* Looks for the smallest world that fails as this one does, says on stdout how to play it, and returns the status of the program:
   1 when the world does not fail at all. */
int shrink(uint64_t seed, usec_t length, shrink_play *play, shrink_draw *draw);

#endif
