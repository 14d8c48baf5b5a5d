/* The table of look-up phases. */
#include "auth/lookup_parts.h"
#include "unit.h"

TEST(look_up_phases_form_a_cycle)
{
	static const enum lookup_phase round[] = { LOOKUP_DUE, LOOKUP_HELD, LOOKUP_QUEUED, LOOKUP_RUNNING };
#define P(id) (1u << LOOKUP_##id)
	static const unsigned moves[] = {
#define LOOKUP_PHASE(id, moves) [LOOKUP_##id] = moves,
#include "tbl/lookup_phase.tbl"
#undef LOOKUP_PHASE
	};

	for (int from = 0; from < LOOKUP_PHASES; from++)
		for (int to = 0; to < LOOKUP_PHASES; to++)
			CHECK_INT(moves[round[from]] >> round[to] & 1, to == (from + 1) % LOOKUP_PHASES);
}

UNIT_MAIN
