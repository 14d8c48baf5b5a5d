#ifndef POOL_FOLLOWING_H
#define POOL_FOLLOWING_H

#include "pool/host.h"

/*
 * Whether a standby follows the primary of its database. Promise: while the primary is known,
 * clients read only from standbys whose WAL is known to be the primary's. See following.c.
 */
struct roles;
struct role_place;

/* Judges each standby of the database again, by the last answers. `has_changed`: another primary,
   or another timeline, than at the last call. */
void roles_judge_standbys(struct roles *roles, bool has_changed, usec_t now);
/* After an online restart: takes the verdicts of the old process over, for the same servers. */
void roles_restore_verdicts(struct roles *roles);
/* Whether clients may read from the standby. */
bool role_place_follows(const struct roles *roles, const struct role_place *place);
/* The word for SHOW HOSTS: "diverged" or "not following"; NULL: the standby follows, or has not
   been judged yet. */
const char *following_word(enum following following);

#endif
