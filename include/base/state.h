#ifndef BASE_STATE_H
#define BASE_STATE_H

#include "base/assert.h"
#include "base/inline.h"

#include <stdint.h>

/* A state of a machine. The rows come from a table in include/tbl/, which lists the moves of each
   state. */
struct state_row {
	unsigned moves;			/* bit i: state i may follow */
	const char *name;		/* in SHOW, the log or an error; may be NULL */
};

/* The writer of all states: asserts that the table, which has `states` rows, allows the move.
   Returns the new state. */
static ALWAYS_INLINE uint8_t state_move(const struct state_row *table, unsigned states,
					unsigned from, unsigned to)
{
	ASSERT(to < states && (table[from].moves & 1u << to));
	return (uint8_t)to;
}

#endif
