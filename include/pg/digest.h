#ifndef PG_DIGEST_H
#define PG_DIGEST_H

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

#endif
