#ifndef PG_STATE_FUNCTIONS_H
#define PG_STATE_FUNCTIONS_H

#include "base/bytes.h"
#include "pg/frame.h"
#include "pg/state_text.h"

/*
 * Functions of a database that change the state of the session which calls them: see state_functions.c. They are learned in rounds: the first
 * asks for functions that have a word of session state in their source, each further one for those that call one which has been found.
 */
struct state_functions;

#define STATE_FUNCTIONS_ROUNDS 8	/* calls of calls are followed so far */

/* Names of parameters, by the numbers that they have for some functions. */
#define STATE_NAMES_MOST 512
#define STATE_NAMES_WORDS (STATE_NAMES_MOST / 64)
struct state_names { uint64_t bits[STATE_NAMES_WORDS]; };

struct state_functions *state_functions_new(void);		/* none; NULL: no memory */
void state_functions_free(struct state_functions **functions);	/* NULL is none */

/* Appends the Query of the next round, without its NUL. `before` is what was known until now (NULL: nothing); where the catalogue is the same
   still, the answer of the first round has no function in it. False: there is no further round. */
bool state_functions_ask(struct state_functions *functions, const struct state_functions *before, struct bytes *sql);
/* A DataRow of the answer, of which the end may be missing. */
void state_functions_row(struct state_functions *functions, const struct pg_frame *row);
/* After the first round: the catalogue is as it was for `before`. */
bool state_functions_are_same(const struct state_functions *functions, const struct state_functions *before);
/* After the last one: what a function does counts for those that call it. False: no memory; not all is known. */
bool state_functions_close(struct state_functions *functions);

size_t state_functions_count(const struct state_functions *functions);
bool state_functions_are_incomplete(const struct state_functions *functions);	/* there are more than can be kept */
/* As state_text_read, of the functions that are named in the text, and of triggers where it may write to a table. Names in `told`, which begins as
   none, are not told again: what a text costs does not grow with what its functions set. */
unsigned state_functions_read(const struct state_functions *functions, const uint8_t *text, size_t size, struct state_names *told, setting_named *named,
			      void *context);

#endif
