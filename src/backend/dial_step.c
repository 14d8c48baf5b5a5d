/*
 * The step of a dial, and which moves there are (tbl/dial_step.tbl). What a server may ask for, and when, is a step too: it asks for a
 * password once, and says AuthenticationOk once.
 */
#include "backend/dial_step.h"

#include "backend/server_login.h"
#include "base/state.h"

#define D(id) (1u << DIAL_##id)
static const struct state_row steps[DIAL_STEPS] = {
#define DIAL_STEP(id, words, moves) [DIAL_##id] = { moves, words },
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
};
#undef D

void dial_step_to(struct dial *d, enum dial_step step)
{
	d->step = (enum dial_step)state_move(steps, DIAL_STEPS, d->step, step);
}

const char *dial_step_words(enum dial_step step)
{
	ASSERT((unsigned)step < DIAL_STEPS);
	return steps[step].name;
}

bool dial_step_reads_messages(enum dial_step step)
{
	return step >= DIAL_STARTUP && step != DIAL_DERIVE;
}
