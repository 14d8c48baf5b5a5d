/*
 * Digests, and secrets in the forms in which PostgreSQL stores them ("Password Authentication", pg_authid); SASLprep.
 *
 * The calls of OpenSSL 3 can fail. On failure the digests return false, with an output of zeros, so that no caller uses an incomplete digest.
 *
 * Base64 is strict: RFC 4648 section 3.5 permits a decoder to refuse encodings with unused bits set, so that a value has exactly one encoding, and no
 * two different SCRAM messages carry the same proof. OpenSSL's decoder skips blanks, and does not return the number of bytes before the padding.
 *
 * pg_authid.rolpassword, and a user list made from it, has for each role one of
 *
 *	md5<32 hex digits>					MD5 of password and role name
 *	SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>	RFC 5802, RFC 7677
 *
 * and a user list may have the password itself. As in PostgreSQL, only the form decides: a string that is nearly an MD5 secret is a password. The
 * keys of SCRAM are
 *
 *	SaltedPassword = PBKDF2-HMAC-SHA-256(SASLprep(password), salt, iterations)
 *	ClientKey      = HMAC(SaltedPassword, "Client Key")
 *	StoredKey      = SHA-256(ClientKey)
 *	ServerKey      = HMAC(SaltedPassword, "Server Key")
 *
 * With StoredKey a verifier checks a ClientKey; with ClientKey a client logs in. Passwords and keys on the stack are wiped before each return.
 */
#include "pg/password.h"

#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <idn-free.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stringprep.h>

#define SCRAM_PREFIX "SCRAM-SHA-256$"
#define MD5_SIZE 16

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

/* ---- base64 ---- */

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(char *to, const void *bytes, size_t size)
{
	const uint8_t *from = bytes;

	for (; size >= 3; size -= 3, from += 3) {
		*to++ = base64_digits[from[0] >> 2];
		*to++ = base64_digits[((unsigned)from[0] << 4 | from[1] >> 4) & 63];
		*to++ = base64_digits[((unsigned)from[1] << 2 | from[2] >> 6) & 63];
		*to++ = base64_digits[from[2] & 63];
	}
	if (size > 0) {
		unsigned second = size == 2 ? from[1] : 0;

		*to++ = base64_digits[from[0] >> 2];
		*to++ = base64_digits[((unsigned)from[0] << 4 | second >> 4) & 63];
		*to++ = size == 2 ? base64_digits[second << 2 & 63] : '=';
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
		char c = text[i];
		int digit = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 :
			    c == '+' ? 62 : c == '/' ? 63 : -1;

		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		/* of four base64_digits, the second, third and fourth each complete a byte */
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

/* ---- secrets ---- */

enum secret_kind secret_kind_of(const char *secret)
{
	struct scram_secret scram;
	enum secret_kind kind = SECRET_PLAIN;

	if (!secret || !*secret)
		return SECRET_NONE;
	if (strlen(secret) == MD5_SECRET && strncmp(secret, "md5", 3) == 0 && strspn(secret + 3, "0123456789abcdef") == MD5_SECRET - 3)
		return SECRET_MD5;
	if (scram_secret_read(secret, &scram))
		kind = SECRET_SCRAM;
	else if (text_starts(secret, SCRAM_PREFIX))
		kind = SECRET_NONE;
	mem_wipe(&scram, sizeof(scram));
	return kind;
}

bool scram_iterations_read(const char *digits, size_t length, uint32_t *out)
{
	uint64_t value = 0;

	for (size_t i = 0; i < length; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(digits[i] - '0');
		if (value > INT32_MAX)
			return false;
	}
	*out = (uint32_t)value;
	return value > 0;
}

static bool read_key(const char *from, const char *end, uint8_t key[SCRAM_KEY])
{
	size_t got;

	return base64_decode(key, SCRAM_KEY, &got, from, (size_t)(end - from)) && got == SCRAM_KEY;
}

bool scram_secret_read(const char *text, struct scram_secret *out)
{
	const char *count, *salt, *stored, *server;

	memset(out, 0, sizeof(*out));
	if (!text_starts(text, SCRAM_PREFIX))
		return false;
	count = text + strlen(SCRAM_PREFIX);
	salt = strchr(count, ':');
	stored = salt ? strchr(salt, '$') : NULL;
	server = stored ? strchr(stored, ':') : NULL;
	return server && scram_iterations_read(count, (size_t)(salt - count), &out->iterations) &&
	       base64_decode(out->salt, sizeof(out->salt), &out->salt_size, salt + 1, (size_t)(stored - salt - 1)) &&
	       out->salt_size > 0 && read_key(stored + 1, server, out->stored_key) &&
	       read_key(server + 1, server + strlen(server), out->server_key);
}

bool scram_secret_write(const struct scram_secret *secret, char *to, size_t size)
{
	char salt[BASE64_SIZE(SCRAM_SALT_MAX) + 1], stored[BASE64_SIZE(SCRAM_KEY) + 1], server[sizeof(stored)];
	int length;

	base64_encode(salt, secret->salt, secret->salt_size);
	base64_encode(stored, secret->stored_key, SCRAM_KEY);
	base64_encode(server, secret->server_key, SCRAM_KEY);
	length = snprintf(to, size, SCRAM_PREFIX "%u:%s$%s:%s", (unsigned)secret->iterations, salt, stored, server);
	mem_wipe(stored, sizeof(stored));
	mem_wipe(server, sizeof(server));
	return length > 0 && (size_t)length < size;
}

bool scram_salted_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations, uint8_t salted[SCRAM_KEY])
{
	struct secret *prepared;
	bool ok;

	if (salt_size < 1 || salt_size > SCRAM_SALT_MAX || iterations < 1 || iterations > SCRAM_ITERATIONS_MAX)
		return false;
	prepared = saslprep(password);
	ok = prepared && prepared->length <= INT32_MAX &&
	     PKCS5_PBKDF2_HMAC(prepared->bytes, (int)prepared->length, salt, (int)salt_size, (int)iterations,
			       EVP_sha256(), SCRAM_KEY, salted) == 1;
	secret_free(&prepared);
	return ok;
}

bool scram_keys_of_salted(const uint8_t salted[SCRAM_KEY], uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY],
			  uint8_t server_key[SCRAM_KEY])
{
	static const char client[] = "Client Key", server[] = "Server Key";
	bool ok = digest_hmac_sha256(salted, SCRAM_KEY, client, strlen(client), client_key) &&
		  digest_sha256(client_key, SCRAM_KEY, stored_key) &&
		  digest_hmac_sha256(salted, SCRAM_KEY, server, strlen(server), server_key);

	if (!ok) {
		mem_wipe(client_key, SCRAM_KEY);
		mem_wipe(stored_key, SCRAM_KEY);
		mem_wipe(server_key, SCRAM_KEY);
	}
	return ok;
}

/* Writes "md5" and the digest of the two parts. */
static bool write_md5(const char *first, size_t first_size, const void *second, size_t second_size, char to[MD5_SECRET + 1])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t digest[MD5_SIZE];
	unsigned got = 0;
	bool ok = md && EVP_DigestInit_ex(md, EVP_md5(), NULL) == 1 && EVP_DigestUpdate(md, first, first_size) == 1 &&
		  EVP_DigestUpdate(md, second, second_size) == 1 && EVP_DigestFinal_ex(md, digest, &got) == 1 && got == MD5_SIZE;

	EVP_MD_CTX_free(md);
	to[0] = '\0';
	if (ok) {
		memcpy(to, "md5", 3);
		text_hex(to + 3, digest, MD5_SIZE);
	}
	mem_wipe(digest, sizeof(digest));
	return ok;
}

bool md5_secret(const char *password, const char *user, char to[MD5_SECRET + 1])
{
	return write_md5(password, strlen(password), user, strlen(user), to);
}

bool md5_answer(const char secret[MD5_SECRET + 1], const uint8_t salt[4], char to[MD5_SECRET + 1])
{
	return write_md5(secret + 3, MD5_SECRET - 3, salt, 4, to);
}

/* Compares digests of plain passwords, so that the time depends on neither the place of the first difference nor the length of the common beginning.
   */
bool password_matches(const char *password, const char *user, const char *stored)
{
	uint8_t a[SHA256_SIZE], b[SHA256_SIZE];
	char want[MD5_SECRET + 1];
	bool is_equal = false;

	if (!*password)
		return false;
	switch (secret_kind_of(stored)) {
	case SECRET_PLAIN:
		is_equal = digest_sha256(password, strlen(password), a) && digest_sha256(stored, strlen(stored), b) &&
			   mem_equal_constant_time(a, b, sizeof(a));
		mem_wipe(a, sizeof(a));
		mem_wipe(b, sizeof(b));
		break;
	case SECRET_MD5:
		is_equal = md5_secret(password, user, want) && mem_equal_constant_time(want, stored, MD5_SECRET);
		mem_wipe(want, sizeof(want));
		break;
	case SECRET_SCRAM:
	case SECRET_NONE:
		break;
	}
	return is_equal;
}

/* ---- SASLprep ---- */

/*
 * SASLprep (RFC 4013), a profile of stringprep (RFC 3454), maps passwords that look equal to the same bytes. The result must be the same in
 * PostgreSQL and in libpq, so these steps follow PostgreSQL:
 *
 *  - A password of ASCII is used unchanged, control characters included.
 *  - Blanks that are not ASCII become a space; characters that are "commonly mapped to nothing" are removed.
 *  - Then a search for prohibited characters, for characters that Unicode 3.2 had not assigned, and for text of mixed directions. (The RFC searches
 *    after the normalisation. The order matters for a few characters such as U+0340, which is prohibited, but is normalised to a permitted one.)
 *  - Then normalisation form KC.
 *  - If a step refuses the password, if nothing is left, or if the bytes are not UTF-8, the password is used unprepared: a role may have been given
 *    such a password in another encoding.
 *
 * The tables are in GNU libidn. Its profile of RFC 4013 includes the normalisation as a step, which is removed here and done afterwards.
 *
 * libidn sorts combining characters by swapping neighbours, which takes quadratic time: a password of 100 kB would stop the event loop for half a
 * second. Longer passwords are used unprepared.
 */
#define PREPARED_MAX 4096
#define PROFILE_STEPS 32

/* Returns the prepared password; NULL: unprepared. */
static struct secret *prepare(const char *password, size_t length)
{
	Stringprep_profile profile[PROFILE_STEPS];
	/* the mapping replaces or removes characters, and never makes the text longer */
	struct secret *mapped = secret_new(password, length), *prepared = NULL;
	char *normal = NULL;
	size_t count = 0;

	for (const Stringprep_profile *step = stringprep_saslprep; step->operation; step++) {
		if (step->operation == STRINGPREP_NFKC)
			continue;
		if (count == PROFILE_STEPS - 1)
			goto out;
		profile[count++] = *step;
	}
	memset(&profile[count], 0, sizeof(profile[count]));
	if (!mapped || stringprep(mapped->bytes, length + 1, STRINGPREP_NO_UNASSIGNED, profile) != STRINGPREP_OK)
		goto out;
	if (mapped->bytes[0] == '\0')
		goto out;
	normal = stringprep_utf8_nfkc_normalize(mapped->bytes, -1);
	if (!normal)
		goto out;
	prepared = secret_new(normal, strlen(normal));
	mem_wipe(normal, strlen(normal));
out:
	idn_free(normal);
	secret_free(&mapped);
	return prepared;
}

struct secret *saslprep(const char *password)
{
	size_t length = strlen(password);
	struct secret *prepared = NULL;
	bool is_ascii = true;

	for (const char *at = password; *at && is_ascii; at++)
		is_ascii = (unsigned char)*at < 0x80;
	if (length <= PREPARED_MAX && !is_ascii)
		prepared = prepare(password, length);
	return prepared ? prepared : secret_new(password, length);
}
