#ifndef AUTH_UNKNOWN_H
#define AUTH_UNKNOWN_H

#include "base/pack.h"
#include "conn/world.h"
#include "pg/mock.h"

/*
 * What unknown users look like: made-up secrets (pg/mock.h), in the proportions in which known users have theirs.
 */
struct unknown;
struct unknown_source;			/* a server that look-ups ask; lives as long as struct unknown */

/* NULL: no memory. */
struct unknown *unknown_new(void);
void unknown_free(struct unknown **unknown);
/* Where look-ups of this pool are answered. NULL: no memory. */
struct unknown_source *unknown_source_of(struct unknown *unknown, const struct pool *pool);
/* A user that this source knows has proven to know `secret`. Counted once, with the latest one. */
void unknown_user_proven(struct world *world, struct unknown_source *source, const char *user, const struct secret *secret);

/* What a client that names an unknown user is asked: SCRAM, or for an MD5 answer. */
bool unknown_is_scram(const struct client *client);
/* The made-up secret of that user; see mock_secret. */
bool unknown_secret(const struct client *client, uint32_t plain_iterations, struct scram_secret *secret, bool *is_plain);
/* The salt for a password of this client's user that is stored in clear; see mock_salt. */
bool unknown_salt(const struct client *client, uint8_t salt[MOCK_SALT]);
/* A made-up secret of this client's name that looks like one of a password in clear has been derived before. For a few names that is said
   too early, when very many have been. */
bool unknown_was_derived(const struct client *client, uint32_t iterations);
void unknown_derived(const struct client *client, uint32_t iterations);

/* The counts, to the process that takes this one's place, and there. */
void unknown_pack(struct bytes *out, const struct unknown *unknown);
void unknown_unpack(struct unpack *in, struct unknown *unknown);

#endif
