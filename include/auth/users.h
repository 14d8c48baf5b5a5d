#ifndef AUTH_USERS_H
#define AUTH_USERS_H

#include "conf/userlist.h"
#include "conn/world.h"

/* The users of auth_file: see users.c. */

/* Puts `fresh` (owned; NULL: there is no list) in the place of world->secrets->list, which is freed. */
void users_replace(struct world *world, struct userlist *fresh);
/* Reads auth_file again when it has changed; looks at most once a second. */
void users_refresh(struct world *world);

#endif
