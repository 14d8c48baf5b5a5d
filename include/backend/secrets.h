#ifndef BACKEND_SECRETS_H
#define BACKEND_SECRETS_H

#include "base/clock.h"
#include "conf/userlist.h"
#include "pg/mock.h"

/* What is known of the users' secrets: the user list, and keys that were expensive to get. */
struct server_keys;

struct secrets {
	struct userlist *list;		/* NULL: no auth_file; set by users_replace (auth/users.h) ... */
	usec_t checked_at;		/* ... which looked then whether it has changed */
	struct secret_kinds kinds;	/* in the list: what questions for unknown users look like */
	struct server_keys *keys;	/* of the users in the list */
	struct server_keys *found_keys;	/* of those that auth_query has found */
};

/* NULL: no memory, or no randomness. */
struct secrets *secrets_new(void);
/* Wipes and frees. */
void secrets_free(struct secrets **secrets);
/* What the user list has of this user; NULL: nothing, or there is no list. */
const struct secret *secrets_listed(const struct secrets *secrets, const char *user);

#endif
