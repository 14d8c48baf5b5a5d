#ifndef PG_PASSWORD_H
#define PG_PASSWORD_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Digests, from OpenSSL. Each function returns false, with an output of zeros, if the library has
 * no memory.
 */
#define SHA256_SIZE 32

bool digest_sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE]);
/* HMAC (RFC 2104) with SHA-256. */
bool digest_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
			uint8_t out[SHA256_SIZE]);
/* HMAC with SHA-256 of the text `a`, a NUL, and the text `b`. */
bool digest_hmac_texts(const uint8_t key[32], const char *a, const char *b,
		       uint8_t out[SHA256_SIZE]);

/*
 * Secrets as PostgreSQL stores them (pg_authid.rolpassword).
 */
#define MD5_SECRET 35		/* "md5" and 32 hex digits */
#define SCRAM_KEY 32		/* SHA-256 */
#define SCRAM_SALT_MAX 64	/* bytes; PostgreSQL uses 16 */
/* bytes of the salt when pgweir derives a secret from a plain password */
#define MOCK_SALT 16
#define SCRAM_SECRET_TEXT 208	/* room for any SCRAM secret as text, and its NUL */
/* Limit of the iterations of a derivation: a million take about a quarter of a second, which stops
   the event loop where pgweir derives keys itself, and are more than recommended anywhere (OWASP:
   600,000; PostgreSQL: 4096). A secret with more iterations can be read and checked by a SCRAM
   exchange, which derives nothing. */
#define SCRAM_ITERATIONS_MAX 1000000

enum secret_kind { SECRET_NONE, SECRET_PLAIN, SECRET_MD5, SECRET_SCRAM };

/* A SCRAM-SHA-256 secret: "SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>", salt and
   keys base64. */
struct scram_secret {
	uint32_t iterations;
	size_t salt_size;	/* bytes, 1..SCRAM_SALT_MAX */
	uint8_t salt[SCRAM_SALT_MAX];
	uint8_t stored_key[SCRAM_KEY];
	uint8_t server_key[SCRAM_KEY];
};

/* Returns the kind of the secret. Any string but an MD5 or SCRAM secret is a plain password.
   SECRET_NONE: NULL, "" (PostgreSQL has no empty passwords), and an unusable string of the form of
   a SCRAM secret, for example because its salt is too long: as a password it would be known to an
   attacker with access to the secret. */
enum secret_kind secret_kind_of(const char *secret);
/* Writes "md5", the hexadecimal digest of the two parts, and a NUL. False, and "": OpenSSL has no
   MD5 (FIPS). */
bool md5_write(const char *first, size_t first_size, const void *second, size_t second_size,
	       char to[MD5_SECRET + 1]);
/* Writes "md5" + hex(md5(password || user)) with a NUL. False, and "": OpenSSL has no MD5
   (FIPS). */
static inline bool md5_secret(const char *password, const char *user, char to[MD5_SECRET + 1])
{
	return md5_write(password, strlen(password), user, strlen(user), to);
}
/* Writes the answer to AuthenticationMD5Password: "md5" + hex(md5(hexadecimal digits of the secret
   || salt)). False, and "": OpenSSL has no MD5 (FIPS). */
static inline bool md5_answer(const char secret[MD5_SECRET + 1], const uint8_t salt[4],
			      char to[MD5_SECRET + 1])
{
	return md5_write(secret + 3, MD5_SECRET - 3, salt, 4, to);
}
/* The stored secret, a plain password or an MD5 secret, belongs to the password. The time does not
   depend on the secret. False for an empty password, and for a SCRAM secret, which needs derived
   keys. */
bool password_matches(const char *password, const char *user, const char *stored);

#endif
