#ifndef CONN_RANDOMNESS_H
#define CONN_RANDOMNESS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Random bytes for secrets that are short and many: see randomness.c. All zeros: none has been drawn yet. */
struct randomness {
	uint8_t bytes[1024];		/* the first `left` have not been given out */
	size_t left;
};

bool randomness_refill(struct randomness *randomness);
/* Writes `size` bytes, at most some dozens, to `to`. False: there is no randomness. */
static inline bool randomness_draw(struct randomness *r, void *to, size_t size)
{
	if (r->left < size && !randomness_refill(r))
		return false;
	r->left -= size;
	memcpy(to, r->bytes + r->left, size);
	mem_wipe(r->bytes + r->left, size);
	return true;
}

#endif
