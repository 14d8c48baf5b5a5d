#ifndef SIM_RULES_H
#define SIM_RULES_H

#include "truth.h"

#include <stdio.h>

/* The HBA file of a world with rules, drawn again for each RELOAD. A login may use any of the sets in force since it began. */

/* The client of a login: the addresses of clients are 127.0.0.1 and so on, counted from 0. */
struct comer {
	int database, user, address;	/* user: TRUTH_NOBODY; database -1: an unknown database */
	bool is_physical;		/* replication */
	usec_t began;
};

#define RULES_ADDRESSES 3

void rules_begin(void);
/* Draws a set, which is in force from now on, and writes it. */
void rules_write(const char *path);
/* May this one be asked for this proof (PROOF_NONE: let in without any)? */
bool rules_may_ask(const struct comer *who, enum proof proof);
/* May this one be told that it is rejected, or that no line fits? */
bool rules_may_reject(const struct comer *who);
bool rules_may_fit_nothing(const struct comer *who);

#endif
