#ifndef SIM_CHANCE_H
#define SIM_CHANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All that happens by chance in a simulated world, out of one seed: the same seed makes the same world. xorshift64*; a process
 * has one world at a time, so there is one state.
 */
void chance_seed(uint64_t seed);
uint64_t chance_draw(void);

/* 0 ... below - 1; `below` is at least 1. */
static inline uint32_t chance_below(uint32_t below) { return (uint32_t)((chance_draw() >> 32) * below >> 32); }
/* Both limits are included. */
static inline int64_t chance_between(int64_t least, int64_t most)
{
	return least + (int64_t)(chance_draw() % (uint64_t)(most - least + 1));
}
static inline bool chance_one_in(uint32_t n) { return chance_below(n) == 0; }
/* Mostly near `least`, now and then near `most`: each power of two between is equally likely. */
int64_t chance_spread(int64_t least, int64_t most);
/* A random element of an array. */
#define CHANCE_OF(array) ((array)[chance_below((uint32_t)(sizeof(array) / sizeof((array)[0])))])

#endif
