#ifndef AUTH_USERS_H
#define AUTH_USERS_H

#include "conf/userlist.h"
#include "conn/world.h"

/* The users of auth_file. */

/* Replaces world->logins.secrets->list, which is freed, with `fresh` (takes ownership; NULL: no
   list). */
void users_replace(struct world *world, struct userlist *fresh);
/* Reads auth_file again if it has changed; checks this at most once a second. */
void users_refresh(struct world *world);
/* Returns the old secret of the user, valid as long as the list, if each method can compare a
   response with both secrets; otherwise NULL. */
const struct secret *users_old_secret(const struct userlist *list, const char *user);
/* Adds warnings for malformed secrets, for secrets that auth_type does not allow, and for an
   auth_user without a secret. `list`: of auth_file, or NULL. The warnings contain no secrets. */
void users_check(const struct conf *conf, const struct userlist *list,
		 struct conf_problems *problems);

#endif
