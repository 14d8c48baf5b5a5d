#ifndef PG_DATESTYLE_H
#define PG_DATESTYLE_H

#include <stdbool.h>
#include <stddef.h>

#define PG_DATESTYLE_MOST 32	/* bytes that any DateStyle takes in the server's own spelling, with its NUL */

/* Writes to `full` what a session with the DateStyle `before` has after `asked` is set, in the server's spelling: "ISO" over
   "German, DMY" is "ISO, DMY". False, and `full` is anything, where this is the server's to say: a word that is not known
   (DEFAULT too, which means the start of the session), words that contradict each other, or a `before` that is incomplete. */
bool pg_datestyle_over(const char *before, const char *asked, char full[PG_DATESTYLE_MOST]);

#endif
