#ifndef PG_SPELLING_H
#define PG_SPELLING_H

#include <stdbool.h>

/*
 * Values of parameters in the spelling in which the server reports them.
 */

/* Returns "on" or "off" for the value of a boolean parameter; NULL: the server would refuse the value. */
const char *pg_boolean_spelled(const char *value);
/* Returns the reported value of the parameter for client_encoding, standard_conforming_strings and IntervalStyle. Returns `value` for other
   parameters, and if the server would refuse the value. */
const char *pg_spelled(const char *name, const char *value);

#define PG_DATESTYLE_MOST 32	/* bytes of any DateStyle in the server's spelling, with its NUL */

/* Writes the DateStyle of a session that has the DateStyle `before` and sets `asked`, in the server's spelling: "ISO" after "German, DMY" gives
   "ISO, DMY". False, and `full` is undefined: only the server knows, because a word is unknown (also DEFAULT), words contradict each other, or
   `before` is incomplete. */
bool pg_datestyle_over(const char *before, const char *asked, char full[PG_DATESTYLE_MOST]);

#endif
