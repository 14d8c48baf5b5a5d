#ifndef BACKEND_DIAL_STEP_H
#define BACKEND_DIAL_STEP_H

#include <stdbool.h>

struct dial;

enum dial_step {
#define DIAL_STEP(id, words, moves) DIAL_##id,
#include "tbl/dial_step.tbl"
#undef DIAL_STEP
	DIAL_STEPS
};

/* The only writer of dial->step: asserts that the table allows the move. */
void dial_step_to(struct dial *dial, enum dial_step step);
/* For "no answer ... in time". */
const char *dial_step_words(enum dial_step step);
/* The StartupMessage has been sent, and what the server says is read as messages. */
bool dial_step_reads_messages(enum dial_step step);

#endif
