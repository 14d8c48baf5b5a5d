#ifndef PG_PASSWORD_H
#define PG_PASSWORD_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Digests, from OpenSSL. Each function returns false, with an output of zeros, if the library has no memory.
 */
#define SHA256_SIZE 32

bool digest_sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE]);
/* HMAC (RFC 2104) with SHA-256. */
bool digest_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[SHA256_SIZE]);

/*
 * Base64 (RFC 4648 section 4) as SCRAM uses it: padded, without blanks and line breaks.
 */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)	/* characters for n bytes */

/* Writes BASE64_SIZE(size) characters and a NUL. */
void base64_encode(char *to, const void *bytes, size_t size);
/* Decodes all `length` characters of `text` into at most `size` bytes, and sets *got to their number. False: a character that is not base64, wrong
   padding, unused bits that are not zero, or too many bytes. */
bool base64_decode(void *to, size_t size, size_t *got, const char *text, size_t length);

/*
 * Secrets as PostgreSQL stores them (pg_authid.rolpassword), and SASLprep.
 */
#define MD5_SECRET 35		/* "md5" and 32 hex digits */
#define SCRAM_KEY 32		/* SHA-256 */
#define SCRAM_SALT_MAX 64	/* bytes; PostgreSQL uses 16 */
#define SCRAM_SECRET_TEXT 208	/* room for any SCRAM secret as text, and its NUL */
/* Limit of the iterations of a derivation: a million take about a quarter of a second, which stops the event loop where pgweir derives keys itself,
   and are more than recommended anywhere (OWASP: 600,000; PostgreSQL: 4096). A secret with more iterations can be read and checked by a SCRAM
   exchange, which derives nothing. */
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

/* Returns the kind of the secret. A string that is neither an MD5 nor a SCRAM secret is a plain password. SECRET_NONE: NULL, "" (PostgreSQL has no
   empty passwords), and a string that looks like a SCRAM secret and is unusable, for example because its salt is too long: as a password it would be
   known to an attacker that has read the secret. */
enum secret_kind secret_kind_of(const char *secret);
/* False: the text is not a valid SCRAM secret. */
bool scram_secret_read(const char *text, struct scram_secret *out);
/* Writes "SCRAM-SHA-256$..." with a NUL; false: `size` is too small. */
bool scram_secret_write(const struct scram_secret *secret, char *to, size_t size);
/* Computes SaltedPassword from the password after SASLprep (RFC 5802 section 3, RFC 7677), which takes long. False: no memory, or the size of the
   salt or the count is out of bounds. */
bool scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY]);
/* Computes the keys, which is fast. With ClientKey a client can log in at each server with this secret. False: no memory; the keys are then zeros. */
bool scram_keys_of_salted(const uint8_t salted[SCRAM_KEY], uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY],
			  uint8_t server_key[SCRAM_KEY]);
/* Reads all `length` characters, which must be digits, as a count of 1 to 2^31-1. */
bool scram_iterations_read(const char *digits, size_t length, uint32_t *out);
/* Writes "md5" + hex(md5(password || user)) with a NUL. False, and "": OpenSSL has no MD5 (FIPS). */
bool md5_secret(const char *password, const char *user, char to[MD5_SECRET + 1]);
/* Writes the answer to AuthenticationMD5Password: "md5" + hex(md5(hexadecimal digits of the secret || salt)). False as above. */
bool md5_answer(const char secret[MD5_SECRET + 1], const uint8_t salt[4], char to[MD5_SECRET + 1]);
/* The stored secret, a plain password or an MD5 secret, belongs to the password. The time does not depend on the secret. False for an empty password,
   and for a SCRAM secret, which needs derived keys. */
bool password_matches(const char *password, const char *user, const char *stored);
/* Applies SASLprep (RFC 4013) as PostgreSQL does: a password that cannot be prepared is returned unchanged. Returns a new secret, to be freed with
   secret_free; NULL: no memory. */
struct secret *saslprep(const char *password);

#endif
