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
struct secret_shape {
	bool is_scram;
	uint8_t salt_size;		/* of SCRAM */
	uint32_t iterations;
};
/* False: an empty secret, or one that is of no use, with which no login succeeds. */
bool secret_shape_of(const struct secret *secret, struct secret_shape *shape);
void secret_kinds_count(struct secret_kinds *kinds, const struct secret_shape *shape);
/* Counts the shape of this secret, if it has one. */
void secret_kinds_add(struct secret_kinds *kinds, const struct secret *secret);

/* What is drawn for a name belongs to the source that has been asked about it, too: the same name has other secrets elsewhere. */
struct mock_name {
	uint8_t key[32];
};
/* False: no memory. */
bool mock_name(struct mock_name *name, const uint8_t seed[32], const char *source, const char *user);

/* Whether this unknown user has a SCRAM secret: true for the part of all names that it is for existing users. None exists: false. */
bool mock_is_scram(const struct secret_kinds *kinds, const struct mock_name *name);
/* A SCRAM secret for this unknown user; its keys belong to no password. `plain_iterations`: the count for users that exist with
   another secret and are asked for SCRAM as well; 0: these are asked otherwise, and no unknown user is to look like one of them. Where
   nothing is counted, the secret looks like one of PostgreSQL's. *is_plain: it looks like one of those that plain_iterations is for.
   False: no memory. */
bool mock_secret(const struct secret_kinds *kinds, const struct mock_name *name, uint32_t plain_iterations,
		 struct scram_secret *out, bool *is_plain);
/* The salt of this user for a secret that is made of a password in clear: 16 bytes. False: no memory. */
#define MOCK_SALT 16
bool mock_salt(const struct mock_name *name, uint8_t salt[MOCK_SALT]);

#endif
