#ifndef PG_STATE_FUNCTIONS_H
#define PG_STATE_FUNCTIONS_H

#include "base/bytes.h"
#include "pg/frame.h"
#include "pg/state_text.h"

/*
 * Functions of a database that change the state of the session which calls them: see state_functions.c. They are learned in two rounds: the first
 * asks for a fingerprint of the catalogue, the second for all of them.
 */
struct state_functions;

/* Names of parameters, by the numbers that they have for some functions. */
#define STATE_NAMES_MOST 512
#define STATE_NAMES_WORDS (STATE_NAMES_MOST / 64)
struct state_names { uint64_t bits[STATE_NAMES_WORDS]; };

struct state_functions *state_functions_new(void);		/* none; NULL: no memory */
void state_functions_free(struct state_functions **functions);	/* NULL is none */

/* Appends the Query of the next round, without its NUL. False: there is no further round. */
bool state_functions_ask(struct state_functions *functions, struct bytes *sql);
/* A DataRow of the answer, of which the end may be missing. */
void state_functions_row(struct state_functions *functions, const struct pg_frame *row);
/* After the first round: the catalogue is as it was for `before`. */
bool state_functions_are_same(const struct state_functions *functions, const struct state_functions *before);
/* After the last one: what a function does counts for those that call it. False: no memory; not all is known. */
bool state_functions_close(struct state_functions *functions);

size_t state_functions_count(const struct state_functions *functions);	/* of those that change something, or may */
bool state_functions_are_incomplete(const struct state_functions *functions);	/* there are more than can be kept */
/* As state_text_read, of the functions that are named in the text, and of triggers where it may write to a table. Names in `told`, which begins as
   none, are not told again: what a text costs does not grow with what its functions set. */
unsigned state_functions_read(const struct state_functions *functions, const uint8_t *text, size_t size, struct state_names *told, setting_named *named,
			      void *context);
/* False: the text may call a function that is neither PostgreSQL's own nor among these (NULL: none is known). */
bool state_functions_know_calls(const struct state_functions *functions, const uint8_t *text, size_t size);
/* The text calls a function of these that may NOTIFY, or writes where a trigger or rule may. */
bool state_functions_may_notify(const struct state_functions *functions, const uint8_t *text, size_t size);
/* False: state_functions_read says nothing about any text, but for TEXT_NOTIFIES. */
bool state_functions_change_something(const struct state_functions *functions);

#endif
