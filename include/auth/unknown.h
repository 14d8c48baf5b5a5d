#ifndef AUTH_UNKNOWN_H
#define AUTH_UNKNOWN_H

#include "base/bytes.h"
#include "backend/keys.h"
#include "conn/world.h"

/*
 * Imitation of known users for names that do not exist, so that the authentication requests to a
 * client do not reveal which users exist. The made-up secrets have the same kinds as the secrets of
 * known users, and their iteration counts and sizes of salts in the same proportions. A name gets
 * the same secret each time. For example, with auth_type md5, if two thirds of the known users have
 * MD5 secrets, two thirds of the unknown names get an MD5 request.
 */
struct unknown;
/* a server that answers look-ups; lives as long as struct unknown */
struct unknown_source;

/* NULL: no memory. */
struct unknown *unknown_new(void);
void unknown_free(struct unknown **unknown);
/* Where look-ups of this pool are answered. NULL: no memory. */
struct unknown_source *unknown_source_of(struct unknown *unknown, const struct pool *pool);
/* A user of this source has logged in with `secret`. Each user counts once, with its latest
   secret. */
void unknown_user_proven(struct world *world, struct unknown_source *source, const char *user,
			 const struct secret *secret);

/* Counts the kind of a user's secret; an empty or unusable secret does not count. */
void unknown_count_secret(struct secret_kinds *kinds, const struct secret *secret);

/* Whether the client, if its user is unknown, gets a SCRAM request with auth_type md5; false:
   MD5. */
bool unknown_is_scram(const struct client *client);
/* Makes a SCRAM secret for that user; no password has its keys. `plain_iterations`: the iterations
   for known users with another kind of secret that log in with SCRAM, too; 0: they log in
   otherwise, and no unknown user looks like them. If no users are counted, the secret looks like a
   secret of PostgreSQL. Sets *is_plain if the secret looks like a secret with plain_iterations.
   `plain_salt`: the salt of this user for a secret that is derived from a plain password; may be
   NULL. False: no memory. */
bool unknown_secret(const struct client *client, uint32_t plain_iterations,
		    struct scram_secret *secret, bool *is_plain, uint8_t plain_salt[MOCK_SALT]);
/* Whether the client's made-up secret imitates a password in clear text, and its key was derived
   before. After very many names it may be true too early. `is_new`: the key has been derived just
   now, and counts as derived after this call. */
bool unknown_derived(const struct client *client, uint32_t iterations, bool is_new);

/* The counts, for an online restart: sent by the old process, read by the new process. */
void unknown_pack(struct bytes *out, const struct unknown *unknown);
void unknown_unpack(struct unpack *in, struct unknown *unknown);

#endif
