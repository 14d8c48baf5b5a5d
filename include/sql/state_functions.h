#ifndef SQL_STATE_FUNCTIONS_H
#define SQL_STATE_FUNCTIONS_H

#include "base/bytes.h"
#include "pg/frame.h"
#include "sql/state_text.h"

/*
 * Functions of a database whose calls change the state of the session: see state_functions.c. They
 * are read in two rounds: the first asks for a fingerprint of the catalogue, the second for the
 * functions.
 */
struct state_functions;

/* Names of parameters, as a set of numbers. */
#define STATE_NAMES_MOST 512
#define STATE_NAMES_WORDS (STATE_NAMES_MOST / 64)
struct state_names { uint64_t bits[STATE_NAMES_WORDS]; };

/* without functions; NULL: no memory */
struct state_functions *state_functions_new(void);
void state_functions_free(struct state_functions **functions);	/* NULL is allowed */

/* Appends the Query of the next round, without its NUL. `before`: functions that were read earlier,
   or NULL. */
enum state_functions_round {
	STATE_FUNCTIONS_NEXT,		/* the Query has been appended */
	STATE_FUNCTIONS_SAME,		/* the first round has found the catalogue of `before` */
	/* there is no further round; the effects of functions are added to their callers */
	STATE_FUNCTIONS_COMPLETE,
	STATE_FUNCTIONS_NO_MEMORY	/* the same, and the result is incomplete */
};
enum state_functions_round state_functions_ask(struct state_functions *functions,
					       const struct state_functions *before,
					       struct bytes *sql);
/* Takes a DataRow of the answer, which may be truncated. */
void state_functions_row(struct state_functions *functions, const struct pg_frame *row);

struct state_functions_summary {
	/* of the fingerprint: the same for the same functions, also in another process */
	uint64_t hash;
	size_t count;			/* of functions with effects */
	bool is_incomplete;		/* a limit was exceeded */
	/* false: for each text, state_functions_read() returns bits of TEXT_ON_DEMAND only */
	bool changes_something;
};
/* The result after the last round. */
struct state_functions_summary state_functions_summary(const struct state_functions *functions);
/* Searches the text for names of functions with effects, and adds those of triggers if the text may
   write to a table. The search may stop and go on later: see struct text_search. Returns the TEXT_
   bits of the part that it has read. Names in `told`, which is empty at first,
   are not reported again: the cost of a text does not depend on the number of names that its
   functions set. */
unsigned state_functions_read(const struct state_functions *functions, struct text_search *search,
			      const uint8_t *text, size_t size, struct state_names *told,
			      setting_named *named, void *context);
/* Whether each function that the text may call is built in or known (NULL: no function is known).
   See state_text_calls_known(). */
bool state_functions_know_calls(const struct state_functions *functions, struct text_calls *calls,
				const uint8_t *text, size_t size);
/* Whether this part of the text may NOTIFY: it has the word NOTIFY or pg_notify, calls a function
   with a NOTIFY, or writes to a table whose trigger or rule may NOTIFY. */
bool state_functions_find_notify(const struct state_functions *functions,
				 struct text_search *search, const uint8_t *text, size_t size);

#endif
