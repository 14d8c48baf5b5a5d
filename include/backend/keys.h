#ifndef BACKEND_KEYS_H
#define BACKEND_KEYS_H

#include "base/bytes.h"
#include "base/mem.h"
#include "conf/userlist.h"
#include "pg/password.h"

/*
 * Secrets of users: the user list, and SCRAM keys that were derived from a password or revealed by
 * the SCRAM login of a client. Promise: keys are valid only together with the stored secret that
 * they belong to, and are wiped before their memory is freed.
 */
struct server_keys;

/* The secrets of the existing users, counted by the properties that a client can see. Zeros: no
   users. */
/* limit of different shapes; further ones count as the first */
#define SECRET_SHAPES 8
struct secret_kinds {
	uint32_t all;			/* secrets except empty ones */
	uint32_t scram;			/* of these, SCRAM secrets */
	struct {
		uint32_t iterations, count;
		uint8_t salt_size;
	} shapes[SECRET_SHAPES];	/* by iterations and salt_size; count 0: unused */
};

struct secrets {
	/* NULL: no auth_file; set by users_replace (auth/users.h) ... */
	struct userlist *list;
	usec_t checked_at;		/* ... which compared the file at this time */
	/* in the list: unknown users are asked for the same kinds */
	struct secret_kinds kinds;
	/* of the SCRAM secrets in the list, old ones included, that pgweir can derive; 0: none */
	uint32_t iterations_most;
	struct server_keys *keys, *old_keys;	/* of the users in the list; of their old secrets */
	struct server_keys *found_keys;	/* of users that auth_query has found */
};

/* NULL: no memory, or no randomness. */
struct secrets *secrets_new(void);
/* Wipes and frees. */
void secrets_free(struct secrets **secrets);

/* Keys of the `most` users that were used last; 0: of all users. NULL: no randomness. */
struct server_keys *keys_new(unsigned most);
void keys_free(struct server_keys **keys);
/* Returns the SCRAM secret of a plain password with this salt and count, for checking clients;
   valid until the next call for this user. NULL: not known, or no memory. */
const struct scram_secret *keys_plain_secret(struct server_keys *keys, const char *user,
					     const char *password, const uint8_t salt[MOCK_SALT],
					     uint32_t iterations);
/* Stores that secret: `salted` is the SaltedPassword of the password for this salt and count.
   False: no memory. */
bool keys_keep_plain(struct server_keys *keys, const char *user, const char *password,
		     const uint8_t salt[MOCK_SALT], uint32_t iterations,
		     const uint8_t salted[SCRAM_KEY]);
/* Stores the keys that a login as `user` with the stored secret `stored` has proved for this salt
   and count. The last KEYS_SALTS keys of a user are kept, because servers of several clusters may
   know one user. With `are_tested` false the keys were derived for a login at a server and no
   server has accepted them yet: the last KEYS_UNTESTED of a user are kept, and displace no tested
   keys. False: no memory, or the salt is too long. */
#define KEYS_SALTS 8
#define KEYS_UNTESTED 4
bool keys_keep(struct server_keys *keys, const char *user, const char *stored, const uint8_t *salt,
	       size_t salt_size, uint32_t iterations, const uint8_t client_key[SCRAM_KEY],
	       const uint8_t server_key[SCRAM_KEY], bool are_tested);
/* Looks up the keys, tested or untested, for this user, stored secret, salt and count. */
bool keys_find(const struct server_keys *keys, const char *user, const char *stored,
	       const uint8_t *salt, size_t salt_size, uint32_t iterations,
	       uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
/* Whether there are tested keys for this user and stored secret. */
bool keys_has(const struct server_keys *keys, const char *user, const char *stored);
/* Whether keys_password_prove() has accepted this password for this user and SCRAM secret, and the
   keys are still stored. */
bool keys_password_check(struct server_keys *keys, const char *password, const char *user,
			 const char *stored);
/* Returns whether `salted`, the SaltedPassword of `password`, belongs to the SCRAM secret `stored`.
   If it does, stores the ClientKey and a keyed digest of the password, so that the password is
   derived only once. */
bool keys_password_prove(struct server_keys *keys, const char *password, const char *user,
			 const char *stored, const uint8_t salted[SCRAM_KEY]);

/* The record of all keys, with the key of their digests, for the process that replaces this one;
   keys_unpack replaces all keys. The record is as secret as the keys. */
void keys_pack(struct bytes *out, const struct server_keys *keys);
void keys_unpack(struct unpack *in, struct server_keys *keys);

#endif
