#ifndef BACKEND_PROVEN_SECRET_H
#define BACKEND_PROVEN_SECRET_H

#include "backend/keys.h"
#include "conn/world.h"

/*
 * Secrets that logins of a pool's user have proven: the secret that auth_query has found
 * (server_info.proven.found), and the password that PAM or LDAP has accepted (proven.shown).
 * Servers of the pool are logged in to with the password of the database, else with `shown`, else
 * with the secret of the user list, else with `found`. Promise: a secret is sent only to servers of
 * the pool that it was proven in.
 */
struct proven_secret {
	struct secret *secret;
	struct server_keys *keys;
	/* number of the look-up that found it; 0: found in another process, or by no look-up */
	uint64_t answer;
};

/* The pool's user has logged in with this secret, which look-up number `answer` has found: stores a
   copy in place of an older secret. Without memory nothing is stored. A server login that failed
   with another secret may succeed now. */
void proven_secret_keep(struct pool *pool, struct world *world, const struct secret *secret,
			uint64_t answer);
/* PAM or LDAP has accepted this password of the pool's user: stores a copy in the same way. NULL:
   the user has logged in with a stored secret, and the password is forgotten. */
void shown_keep(struct pool *pool, struct world *world, const struct secret *password);

/* The record for the process that replaces this one; `proven` may be NULL. */
static inline void proven_secret_pack(struct bytes *out, const struct proven_secret *f)
{
	pack_bool(out, f != NULL);
	if (!f)
		return;
	pack_blob(out, f->secret->bytes, f->secret->length);
	keys_pack(out, f->keys);
}
void proven_secret_unpack(struct unpack *in, struct proven_secret **proven);

#endif
