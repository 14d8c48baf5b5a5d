/*
 * Chance, out of a seed. See chance.h. The seed is scrambled first (splitmix64), so that neighbouring seeds make worlds that have
 * nothing in common.
 */
#include "chance.h"

static uint64_t state = 1;

void chance_seed(uint64_t seed)
{
	uint64_t z = seed + 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	state = (z ^ (z >> 31)) | 1;
}

uint64_t chance_draw(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1du;
}

int64_t chance_spread(int64_t least, int64_t most)
{
	int64_t width = most - least;
	int bits = 0;

	while (bits < 62 && (int64_t)1 << bits <= width)
		bits++;
	width = (int64_t)1 << chance_below((uint32_t)bits + 1);
	if (width > most - least + 1)
		width = most - least + 1;
	return least + (int64_t)(chance_draw() % (uint64_t)width);
}
