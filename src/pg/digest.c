/*
 * SHA-256, HMAC-SHA-256 and MD5, as far as PostgreSQL's logins use them.
 *
 * The calls of OpenSSL 3 that can fail are kept in this one file, so that what stands above it sees a truth
 * value and never a half-written digest: on failure the output is all zeros, and false is returned.
 */
#include "pg/digest.h"

#include <limits.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

bool digest_sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE])
{
	unsigned got = 0;

	if (EVP_Digest(data, size, out, &got, EVP_sha256(), NULL) == 1 && got == SHA256_SIZE)
		return true;
	memset(out, 0, SHA256_SIZE);
	return false;
}

bool digest_hmac_sha256(const void *key, size_t key_size, const void *data, size_t size, uint8_t out[SHA256_SIZE])
{
	unsigned got = 0;

	if (key_size <= INT_MAX && HMAC(EVP_sha256(), key, (int)key_size, data, size, out, &got) && got == SHA256_SIZE)
		return true;
	memset(out, 0, SHA256_SIZE);
	return false;
}

bool digest_md5(struct digest_part first, struct digest_part second, uint8_t out[MD5_SIZE])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned got = 0;
	bool ok = md && EVP_DigestInit_ex(md, EVP_md5(), NULL) == 1 &&
		  EVP_DigestUpdate(md, first.data, first.size) == 1 &&
		  EVP_DigestUpdate(md, second.data, second.size) == 1 && EVP_DigestFinal_ex(md, out, &got) == 1 &&
		  got == MD5_SIZE;

	EVP_MD_CTX_free(md);
	if (!ok)
		memset(out, 0, MD5_SIZE);
	return ok;
}
