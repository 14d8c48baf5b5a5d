#ifndef PG_PASSWORD_H
#define PG_PASSWORD_H

#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Secrets as PostgreSQL stores them (pg_authid.rolpassword), and SASLprep.
 */
#define MD5_SECRET 35		/* "md5" and 32 hex digits */
#define SCRAM_KEY 32		/* SHA-256 */
#define SCRAM_SALT_MAX 64	/* bytes; PostgreSQL uses 16 */
#define SCRAM_SECRET_TEXT 208	/* room for any SCRAM secret as text, and its NUL */
/* Most iterations that are ever derived: a million take about a quarter of a second, for which the event loop stands still where
   pgweir derives for itself, and are more than any advice on password storage asks for (OWASP: 600,000; PostgreSQL: 4096). A secret with
   more can still be read and checked by a SCRAM exchange, which derives nothing. */
#define SCRAM_ITERATIONS_MAX 1000000

enum secret_kind { SECRET_NONE, SECRET_PLAIN, SECRET_MD5, SECRET_SCRAM };

/* A SCRAM-SHA-256 secret: "SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>", salt and keys base64. */
struct scram_secret {
	uint32_t iterations;
	size_t salt_size;	/* bytes, 1..SCRAM_SALT_MAX */
	uint8_t salt[SCRAM_SALT_MAX];
	uint8_t stored_key[SCRAM_KEY];
	uint8_t server_key[SCRAM_KEY];
};

/* What kind of secret this string is; anything that is neither md5 nor SCRAM is a plain password. NULL and "" are
   SECRET_NONE: PostgreSQL knows no empty password. */
enum secret_kind secret_kind_of(const char *secret);
/* Looks like a SCRAM secret and cannot be used as one, for one because its salt is too long. It is no password either: an attacker
   that has read the secret would know it. */
bool scram_secret_is_unusable(const char *text);
/* False unless it is a whole, valid SCRAM secret. */
bool scram_secret_read(const char *text, struct scram_secret *out);
/* "SCRAM-SHA-256$..." into `to` (NUL-terminated); false when it does not fit. */
bool scram_secret_write(const struct scram_secret *secret, char *to, size_t size);
/* Derives a SCRAM secret from a password (RFC 5802 section 3; RFC 7677), after SASLprep. The expensive step.
   False: no memory, a salt of a size, or a count, that is out of bounds. */
bool scram_secret_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations,
			 struct scram_secret *out);
/* That step alone: SaltedPassword. False as above. */
bool scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
/* What follows from it, at little cost. False: no digest; the keys are zeros then. */
bool scram_keys_of_salted(const uint8_t salted[SCRAM_KEY], uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY],
			  uint8_t server_key[SCRAM_KEY]);
/* scram_secret_derive, giving also the ClientKey, which alone can log in at a server with this secret. On failure the keys
   are zeros. */
bool scram_keys_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		       uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY]);
/* Reads all `length` characters as a count in 1..2^31-1, digits only. */
bool scram_iterations_read(const char *digits, size_t length, uint32_t *out);
/* "md5" + hex(md5(password || user)), NUL-terminated. False, and "", when OpenSSL has no MD5 (FIPS). */
bool md5_secret(const char *password, const char *user, char to[MD5_SECRET + 1]);
/* The answer to AuthenticationMD5Password: "md5" + hex(md5(hex-part-of-secret || salt)). False as above. */
bool md5_answer(const char secret[MD5_SECRET + 1], const uint8_t salt[4], char to[MD5_SECRET + 1]);
/* True when the password is that of the stored secret, a plain one or an MD5 one. Constant time in the secret. An empty
   password matches nothing, and none a SCRAM secret, for which keys have to be derived. */
bool password_matches(const char *password, const char *user, const char *stored);
/* SASLprep (RFC 4013) as PostgreSQL applies it: what cannot be prepared is used as it is.
   A new string, wiped and freed with secret_free; NULL: no memory. */
struct secret *saslprep(const char *password);

#endif
