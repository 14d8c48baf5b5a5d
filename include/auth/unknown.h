#ifndef AUTH_UNKNOWN_H
#define AUTH_UNKNOWN_H

#include "base/bytes.h"
#include "conn/world.h"
#include "pg/mock.h"

/*
 * Imitation of known users for names that do not exist: made-up secrets (pg/mock.h), of the same kinds and in the same proportions as the
 * secrets of known users.
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

/* The question for a client that names an unknown user. True: SCRAM; false: MD5. */
bool unknown_is_scram(const struct client *client);
/* The made-up secret of that user; see mock_secret. */
bool unknown_secret(const struct client *client, uint32_t plain_iterations, struct scram_secret *secret, bool *is_plain);
/* The salt for a password of this client's user that is stored in clear; see mock_salt. */
bool unknown_salt(const struct client *client, uint8_t salt[MOCK_SALT]);
/* The client's made-up secret imitates a password in clear, and its key has been derived before. For a few names that is said too early,
   when very many have been. */
bool unknown_was_derived(const struct client *client, uint32_t iterations);
void unknown_derived(const struct client *client, uint32_t iterations);

/* The counts, for an online restart: sent by the old process, read by the new process. */
void unknown_pack(struct bytes *out, const struct unknown *unknown);
void unknown_unpack(struct unpack *in, struct unknown *unknown);

#endif
