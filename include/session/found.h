#ifndef SESSION_FOUND_H
#define SESSION_FOUND_H

#include "session/keys.h"
#include "session/world.h"

/*
 * The secret that auth_query has found for a pool's own user, with the keys that he has proven to own: what
 * servers of the pool are logged in to with, when neither the database nor the user list has a password.
 */
struct found {
	struct secret *secret;
	struct server_keys *keys;
	uint64_t answer;		/* which look-up found it: world->lookup_answers then; 0: one in another process */
};

/* The pool's user has logged in with this secret, which was in that answer (world->lookup_answers): keeps a copy, in place of any
   that an earlier one found. Without memory nothing is kept. A login at a server that failed with another secret does
   not count any more. */
void found_keep(struct pool *pool, struct world *world, const struct secret *secret, uint64_t answer);
/* NULL: none. Good until the next found_keep. */
const struct found *found_of(const struct pool *pool);
/* Wipes and frees; sets *found to NULL, which is fine to begin with. */
void found_free(struct found **found);

/* To the process that takes this one's place, and there; nothing is packed for NULL. */
void found_pack(struct bytes *out, const struct found *found);
void found_unpack(struct unpack *in, struct found **found);

#endif
