#ifndef POOL_READ_VERDICTS_H
#define POOL_READ_VERDICTS_H

#include "pool/role.h"

/*
 * The verdicts of a database on SQL texts that may only read (reads = auto). Promise: verdicts that
 * depend on definitions are forgotten when a client changes definitions, for example by CREATE
 * FUNCTION, or pgweir finds out about a change (read_definitions_changed()). See read_verdicts.c.
 */
#define READ_VERDICTS_MOST 1000
#define READ_VERDICT_LASTS (60 * USEC)

enum read_verdict {
	STANDBY_UNKNOWN,
	/* the text has occurred: the next time it is worth a question. Forgotten after
	   READ_VERDICT_LASTS, as the next one */
	STANDBY_SEEN,
	/* a client is asking; forgotten as the others, if the client gets no answer */
	STANDBY_ASKED,
	/* standbys may execute the text, as long as the catalogue is as it was: see
	   relay/offload.c */
	STANDBY_SUITS,
	/* the catalogue says no, or a standby was lost: the primary executes the text for
	   READ_VERDICT_LASTS */
	STANDBY_NOT_NOW,
	/* the primary executes the text: pgweir does not understand it, or a standby has failed */
	STANDBY_NEVER
};

/* Returns the verdict on the text with this hash (hash_long()). */
enum read_verdict read_verdict_on(const struct database *database, uint64_t key, usec_t now);
/* Sets it. `definitions`: roles->written->definitions before the catalogue was asked; if they have
   changed since, nothing happens. */
void read_verdict_set(struct database *database, uint64_t key, enum read_verdict verdict,
		      uint64_t definitions, usec_t now);
/* A command of a client has changed definitions of the database: all verdicts on its texts are
   forgotten. */
void read_definitions_changed(const struct database *database);
/* Returns the place of a pointer for room relay: the definitions that the verdicts of this database
   depend on (struct basis). `free_it` frees them with the verdicts. NULL: no memory. */
void **read_verdicts_basis(const struct database *database, void (*free_it)(void *basis));
void read_verdicts_free(struct read_verdicts **verdicts);	/* *verdicts may be NULL */

#endif
