#ifndef BACKEND_PROVEN_SECRET_H
#define BACKEND_PROVEN_SECRET_H

#include "backend/keys.h"
#include "conn/world.h"

/*
 * A secret that a pool's own user has proven to know, with keys for it: one that auth_query has found, or a password that PAM or LDAP
 * has found right. Servers of the pool are logged in to with it, when the database has no password; with one that was found, when
 * the user list has none either.
 */
struct proven_secret {
	struct secret *secret;
	struct server_keys *keys;
	uint64_t answer;		/* which look-up found it: the number of answers then; 0: one in another process, or none */
};

/* The pool's user has logged in with this secret, which was in that answer (the number of answers): keeps a copy, in place of any
   that an earlier one found. Without memory nothing is kept. A login at a server that failed with another secret does
   not count any more. */
void proven_secret_keep(struct pool *pool, struct world *world, const struct secret *secret, uint64_t answer);
/* NULL: none. Good until the next proven_secret_keep. */
const struct proven_secret *proven_secret_of(const struct pool *pool);
/* Wipes and frees; sets *found to NULL, which is fine to begin with. */
void proven_secret_free(struct proven_secret **found);

/* PAM or LDAP has found this password of the pool's user to be right: keeps a copy, in place of an earlier one. Without memory nothing is
   kept. A login at a server that failed with another secret does not count any more. */
void shown_keep(struct pool *pool, struct world *world, const struct secret *password);
/* The pool's user has proven itself by what is stored of it: that counts from now on. */
void shown_forget(struct pool *pool);
/* NULL: none. Good until the next shown_keep or shown_forget. */
const struct proven_secret *shown_of(const struct pool *pool);

/* To the process that takes this one's place, and there; nothing is packed for NULL. */
void proven_secret_pack(struct bytes *out, const struct proven_secret *found);
void proven_secret_unpack(struct unpack *in, struct proven_secret **found);

#endif
