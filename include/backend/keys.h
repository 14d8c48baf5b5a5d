#ifndef BACKEND_KEYS_H
#define BACKEND_KEYS_H

#include "base/bytes.h"
#include "base/mem.h"
#include "pg/mock.h"
#include "pg/password.h"

/*
 * Keys that were expensive to get: derived from a password, or revealed by a client's own SCRAM login. Kept per
 * user, and valid only together with the stored secret they came from.
 */
struct server_keys;

/* `most` users are kept, the last used ones; 0: all. NULL: no randomness. */
struct server_keys *keys_new(unsigned most);
void keys_free(struct server_keys **keys);
/* The SCRAM secret of a plain password, with this salt and count, for checking clients; lives until the next call for this user. NULL: it is not known (or no
   memory), and has to be derived. */
const struct scram_secret *keys_plain_secret(struct server_keys *keys, const char *user, const char *password, const uint8_t salt[MOCK_SALT],
					     uint32_t iterations);
/* It has been derived: `salted` is SaltedPassword of the password for this salt and count. False: no memory. */
bool keys_keep_plain(struct server_keys *keys, const char *user, const char *password, const uint8_t salt[MOCK_SALT], uint32_t iterations,
		     const uint8_t salted[SCRAM_KEY]);
/* A login as `user` with the stored secret `stored` proved `client_key` for this salt and count. KEYS_SALTS keys of a user are kept, those
   used last, because servers of several clusters may know one user, with one password or several. False: no memory, or a salt too long
   to be kept. */
#define KEYS_SALTS 8
bool keys_keep(struct server_keys *keys, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY]);
/* The same for keys that were derived for a login at a server and that no server has accepted yet, or that one has refused: KEYS_UNTESTED
   of them, and none of those of keys_keep makes room for them. Without memory nothing is kept. */
#define KEYS_UNTESTED 4
void keys_keep_untested(struct server_keys *keys, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
			uint32_t iterations, const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY]);
/* True when keys for this user, stored secret, salt and count are kept, untested or not; fills in both. */
bool keys_find(const struct server_keys *keys, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
/* True when any keys that are not untested are kept for this user and stored secret. */
bool keys_has(const struct server_keys *keys, const char *user, const char *stored);
/* Keyed digest of two texts (HMAC-SHA-256), for comparing secrets that are not kept; it means nothing under other keys. False: no memory. */
bool keys_tag(const struct server_keys *keys, const char *a, const char *b, uint8_t out[32]);
/* Whether this is the password that keys_password_prove has found for this user and SCRAM secret, with keys that are still kept. */
bool keys_password_is_proven(struct server_keys *keys, const char *password, const char *user, const char *stored);
/* Whether `salted`, the SaltedPassword of `password` for the SCRAM secret `stored`, is that of the secret. If it is, that is remembered as
   a keyed digest, so that the expensive derivation is made once, and the ClientKey is kept. */
bool keys_password_prove(struct server_keys *keys, const char *password, const char *user, const char *stored, const uint8_t salted[SCRAM_KEY]);

/* All of them, and the key of the digests that bind them to their secrets, for the process that takes this one's place; and there:
   in place of what it has. What is written is as secret as the keys. */
void keys_pack(struct bytes *out, const struct server_keys *keys);
void keys_unpack(struct unpack *in, struct server_keys *keys);

#endif
