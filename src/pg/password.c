/*
 * Digests, and secrets in the forms in which PostgreSQL stores them ("Password Authentication",
 * pg_authid).
 *
 * The calls of OpenSSL 3 can fail. On failure the digests return false, with an output of zeros, so
 * that no caller uses an incomplete digest.
 *
 * pg_authid.rolpassword, and a user list made from it, has for each role one of
 *
 *	md5<32 hex digits>					MD5 of password and role name
 *	SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>	RFC 5802, RFC 7677
 *
 * and a user list may have the password itself. As in PostgreSQL, only the form decides: a near
 * miss of an MD5 secret is a password. SCRAM secrets are in scram.c. Passwords and keys on the
 * stack are wiped before each return.
 */
#include "pg/password.h"

#include "base/text.h"
#include "pg/scram.h"

#include <limits.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define MD5_SIZE 16

bool digest_sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE])
{
	unsigned got = 0;

	if (EVP_Digest(data, size, out, &got, EVP_sha256(), NULL) == 1 && got == SHA256_SIZE)
		return true;
	memset(out, 0, SHA256_SIZE);
	return false;
}

bool digest_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size,
			uint8_t out[SHA256_SIZE])
{
	unsigned got = 0;

	if (key_size <= INT_MAX && HMAC(EVP_sha256(), key, (int)key_size, data, size, out, &got) &&
	    got == SHA256_SIZE)
		return true;
	memset(out, 0, SHA256_SIZE);
	return false;
}

bool digest_hmac_texts(const uint8_t key[32], const char *a, const char *b,
		       uint8_t out[SHA256_SIZE])
{
	size_t a_size = strlen(a) + 1, b_size = strlen(b);
	uint8_t *both = mem_try(a_size + b_size);
	bool ok;

	if (!both)
		return false;
	memcpy(both, a, a_size);
	memcpy(both + a_size, b, b_size);
	ok = digest_hmac_sha256(key, 32, both, a_size + b_size, out);
	mem_wipe(both, a_size + b_size);
	mem_free(both);
	return ok;
}

/* ---- secrets ---- */

enum secret_kind secret_kind_of(const char *secret)
{
	struct scram_secret scram;
	enum secret_kind kind = SECRET_PLAIN;

	if (!secret || !*secret)
		return SECRET_NONE;
	if (strlen(secret) == MD5_SECRET && strncmp(secret, "md5", 3) == 0 &&
	    strspn(secret + 3, "0123456789abcdef") == MD5_SECRET - 3)
		return SECRET_MD5;
	if (scram_secret_read(secret, &scram))
		kind = SECRET_SCRAM;
	else if (text_starts(secret, SCRAM_PREFIX))
		kind = SECRET_NONE;
	mem_wipe(&scram, sizeof(scram));
	return kind;
}

bool md5_write(const char *first, size_t first_size, const void *second, size_t second_size,
	       char to[MD5_SECRET + 1])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t digest[MD5_SIZE];
	unsigned got = 0;
	bool ok = md && EVP_DigestInit_ex(md, EVP_md5(), NULL) == 1 &&
		  EVP_DigestUpdate(md, first, first_size) == 1 &&
		  EVP_DigestUpdate(md, second, second_size) == 1 &&
		  EVP_DigestFinal_ex(md, digest, &got) == 1 && got == MD5_SIZE;

	EVP_MD_CTX_free(md);
	to[0] = '\0';
	if (ok) {
		memcpy(to, "md5", 3);
		text_hex(to + 3, digest, MD5_SIZE);
	}
	mem_wipe(digest, sizeof(digest));
	return ok;
}

/* Compares digests of plain passwords, so that the time depends on neither the place of the first
   difference nor the length of the common beginning. */
bool password_matches(const char *password, const char *user, const char *stored)
{
	uint8_t a[SHA256_SIZE], b[SHA256_SIZE];
	char want[MD5_SECRET + 1];
	bool is_equal = false;

	if (!*password)
		return false;
	switch (secret_kind_of(stored)) {
	case SECRET_PLAIN:
		is_equal = digest_sha256(password, strlen(password), a) &&
			   digest_sha256(stored, strlen(stored), b) &&
			   mem_equal_constant_time(a, b, sizeof(a));
		mem_wipe(a, sizeof(a));
		mem_wipe(b, sizeof(b));
		break;
	case SECRET_MD5:
		is_equal = md5_secret(password, user, want) &&
			   mem_equal_constant_time(want, stored, MD5_SECRET);
		mem_wipe(want, sizeof(want));
		break;
	case SECRET_SCRAM:
	case SECRET_NONE:
		break;
	}
	return is_equal;
}
