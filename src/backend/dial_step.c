/*
 * The step of a dial, and which moves there are (tbl/dial_step.tbl). What a server may ask for, and when, is a step too: it asks for a
 * password once, and says AuthenticationOk once.
 */
#include "backend/dial_step.h"

#include "backend/server_login.h"
#include "base/assert.h"

#define D(id) (1u << DIAL_##id)
static const struct {
	const char *words;
	unsigned moves;
} rows[DIAL_STEPS] = {
#define DIAL_STEP(id, words, moves) [DIAL_##id] = { words, moves },
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
};
#undef D

bool dial_step_may_follow(enum dial_step from, enum dial_step to)
{
	ASSERT((unsigned)from < DIAL_STEPS && (unsigned)to < DIAL_STEPS);
	return rows[from].moves & 1u << to;
}

void dial_step_to(struct dial *d, enum dial_step step)
{
	ASSERT(dial_step_may_follow(d->step, step));
	d->step = step;
}

const char *dial_step_words(enum dial_step step)
{
	ASSERT((unsigned)step < DIAL_STEPS);
	return rows[step].words;
}

bool dial_step_reads_messages(enum dial_step step)
{
	return step >= DIAL_STARTUP && step != DIAL_DERIVE;
}
