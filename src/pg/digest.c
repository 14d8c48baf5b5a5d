/*
 * SHA-256, HMAC-SHA-256 and base64 for the logins of PostgreSQL.
 *
 * The calls of OpenSSL 3 can fail. On failure the functions here return false, with an output of zeros, so that no caller uses an incomplete digest.
 *
 * Base64 is strict: RFC 4648 section 3.5 permits a decoder to refuse encodings with unused bits set, so that a value has exactly one encoding, and no
 * two different SCRAM messages carry the same proof. OpenSSL's decoder skips blanks, and does not return the number of bytes before the padding.
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

static char digit_of(unsigned value)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	return digits[value & 63];
}

/* Returns 0 to 63, or -1. */
static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

void base64_encode(char *to, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	for (; size >= 3; size -= 3, from += 3) {
		*to++ = digit_of(from[0] >> 2);
		*to++ = digit_of((unsigned)from[0] << 4 | from[1] >> 4);
		*to++ = digit_of((unsigned)from[1] << 2 | from[2] >> 6);
		*to++ = digit_of(from[2]);
	}
	if (size > 0) {
		unsigned second = size == 2 ? from[1] : 0;

		*to++ = digit_of(from[0] >> 2);
		*to++ = digit_of((unsigned)from[0] << 4 | second >> 4);
		*to++ = size == 2 ? digit_of(second << 2) : '=';
		*to++ = '=';
	}
	*to = '\0';
}

bool base64_decode(void *to, size_t size, size_t *got, const char *text, size_t length)
{
	uint8_t *out = to;
	size_t padding = 0, done = 0;
	uint32_t bits = 0;

	if (length % 4 != 0)
		return false;
	while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < length - padding; i++) {
		int value = value_of(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		/* of four digits, the second, third and fourth each complete a byte */
		if (i % 4 == 0)
			continue;
		if (done == size)
			return false;
		out[done++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	if ((padding == 1 && (bits & 3)) || (padding == 2 && (bits & 15)))
		return false;
	*got = done;
	return true;
}
