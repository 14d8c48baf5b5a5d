#ifndef PG_DIGEST_H
#define PG_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The digests that logins need, from OpenSSL. Each gives false, with the output zeroed, when the library has no
 * memory or its configuration forbids the algorithm (a FIPS provider has no MD5).
 */
#define SHA256_SIZE 32
#define MD5_SIZE 16

/* A piece of the input of a digest. */
struct digest_part {
	const void *data;
	size_t size;
};

bool digest_sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE]);
/* HMAC (RFC 2104) with SHA-256. */
bool digest_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[SHA256_SIZE]);
/* Of the two parts one behind the other. */
bool digest_md5(struct digest_part first, struct digest_part second, uint8_t out[MD5_SIZE]);

#endif
