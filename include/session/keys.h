#ifndef SESSION_KEYS_H
#define SESSION_KEYS_H

#include "pg/password.h"

/*
 * Keys that were expensive to get: derived from a password, or revealed by a client's own SCRAM login. Kept per
 * user and per secret; wiped when the secret they belong to changes.
 */
struct server_keys;

struct server_keys *keys_new(void);
void keys_free(struct server_keys **keys);
/* Forgets everything: the user list was read anew. */
void keys_clear(struct server_keys *keys);

/* The SCRAM secret of a plain password, for checking clients: derived on first use, the same until keys_clear. NULL: no memory. */
const struct scram_secret *keys_secret_of_plain(struct server_keys *keys, const char *user, const char *password, uint32_t iterations);
/* A login as `user` proved `client_key` for the secret with this salt. */
void keys_keep(struct server_keys *keys, const char *user, const uint8_t *salt, size_t salt_size, uint32_t iterations,
	       const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY]);
/* True when keys for this user, salt and count are kept; fills in both. */
bool keys_find(const struct server_keys *keys, const char *user, const uint8_t *salt, size_t salt_size, uint32_t iterations,
	       uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
/* True when any keys are kept for this user. */
bool keys_has(const struct server_keys *keys, const char *user);
/* password_matches, with the last success per user remembered as a keyed digest, so that an expensive
   comparison with a SCRAM secret is made once. */
bool keys_password_matches(struct server_keys *keys, const char *password, const char *user, const char *stored);

#endif
