#ifndef PG_MOCK_H
#define PG_MOCK_H

#include "pg/password.h"

/*
 * What a client is asked that names an unknown user. Its questions must look like those for the users that exist: the same kinds of
 * secret, the same iteration counts and lengths of salt in the same proportions, and the same ones for a name each time. All of it
 * follows from the name and a seed that is kept secret.
 */

/* Secrets of the users that exist, counted by what a question shows of them. Zeros: none. */
#define SECRET_SHAPES 8			/* different ones that are counted; others look like the first */
struct secret_kinds {
	uint32_t all;			/* secrets that are not empty */
	uint32_t scram;			/* of these, SCRAM ones */
	struct {
		uint32_t iterations, count;
		uint8_t salt_size;
	} shapes[SECRET_SHAPES];	/* of SCRAM ones, by iterations and salt_size; count 0: unused, at the end */
};
/* Counts one more. An empty secret, with which no login succeeds, is none. When there are very many, all counts are halved: of
   look-ups, which go on for ever, the older ones fade. */
void secret_kinds_add(struct secret_kinds *kinds, const struct secret *secret);

/* Whether this unknown user has a SCRAM secret: true for the part of all names that it is for existing users. None exists: false. */
bool mock_is_scram(const struct secret_kinds *kinds, const char *user, const uint8_t seed[32]);
/* A SCRAM secret for this unknown user, whose keys belong to no password. `plain_iterations`: the count for users that exist with
   another secret and are asked for SCRAM as well; 0: these are asked otherwise, and no unknown user is to look like one of them. Where
   nothing is counted, the secret looks like one of PostgreSQL's. *is_plain: it looks like one of those that plain_iterations is for.
   False: no memory. */
bool mock_secret(const struct secret_kinds *kinds, const char *user, const uint8_t seed[32], uint32_t plain_iterations,
		 struct scram_secret *out, bool *is_plain);
/* The salt of this user for a secret that is made of a password in clear: 16 bytes. False: no memory. */
#define MOCK_SALT 16
bool mock_salt(const char *user, const uint8_t seed[32], uint8_t salt[MOCK_SALT]);

#endif
