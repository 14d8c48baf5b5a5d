#ifndef PG_MOCK_H
#define PG_MOCK_H

#include "pg/password.h"

/*
 * Secrets for unknown users, so that the authentication requests to a client do not reveal which users exist: the same kinds of secrets, iteration
 * counts and sizes of salts as for existing users, in the same proportions, and the same for a name each time. All follow from the name and a secret
 * seed.
 */

/* The secrets of the existing users, counted by the properties that a client can see. Zeros: no users. */
#define SECRET_SHAPES 8			/* limit of different shapes; further ones count as the first */
struct secret_kinds {
	uint32_t all;			/* secrets except empty ones */
	uint32_t scram;			/* of these, SCRAM secrets */
	struct {
		uint32_t iterations, count;
		uint8_t salt_size;
	} shapes[SECRET_SHAPES];	/* of SCRAM secrets, ordered by iterations and salt_size; count 0: unused, at the end */
};
struct secret_shape {
	bool is_scram;
	uint8_t salt_size;		/* of SCRAM */
	uint32_t iterations;
};
/* False: the secret is empty or unusable, and no login succeeds with it. */
bool secret_shape_of(const struct secret *secret, struct secret_shape *shape);
void secret_kinds_count(struct secret_kinds *kinds, const struct secret_shape *shape);

/* The key from which the secrets of a name follow. A name has different secrets in different sources of users. */
struct mock_name {
	uint8_t key[32];
};
/* False: no memory. */
bool mock_name(struct mock_name *name, const uint8_t seed[32], const char *source, const char *user);

/* The unknown user has a SCRAM secret: true for the same share of names as of existing users; false if no users exist. */
bool mock_is_scram(const struct secret_kinds *kinds, const struct mock_name *name);
/* Makes a SCRAM secret for the unknown user; no password has its keys. `plain_iterations`: the iterations for existing users with another kind of
   secret that log in with SCRAM, too; 0: they log in otherwise, and no unknown user looks like them. If no users are counted, the secret looks like a
   secret of PostgreSQL. Sets *is_plain if the secret looks like a secret with plain_iterations. `plain_salt`: the salt of this user for a secret that
   is derived from a plain password; may be NULL. False: no memory. */
#define MOCK_SALT 16		/* bytes */
bool mock_secret(const struct secret_kinds *kinds, const struct mock_name *name, uint32_t plain_iterations,
		 struct scram_secret *out, bool *is_plain, uint8_t plain_salt[MOCK_SALT]);

#endif
