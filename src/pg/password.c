/*
 * Secrets in the forms in which PostgreSQL stores them.
 *
 * pg_authid.rolpassword, and a user list made from it, holds for each role one of
 *
 *	md5<32 hex digits>					MD5 of password and role name
 *	SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>	RFC 5802, RFC 7677
 *
 * and a user list may hold the password itself. As in PostgreSQL the form alone decides: a string that is nearly
 * an MD5 or SCRAM secret is a password that looks odd. The keys of SCRAM are
 *
 *	SaltedPassword = PBKDF2-HMAC-SHA-256(SASLprep(password), salt, iterations)
 *	ClientKey      = HMAC(SaltedPassword, "Client Key")
 *	StoredKey      = SHA-256(ClientKey)
 *	ServerKey      = HMAC(SaltedPassword, "Server Key")
 *
 * so that the holder of StoredKey can check a ClientKey, and the holder of ClientKey can log in. Passwords and keys that were
 * on the stack are wiped before each return.
 */
#include "pg/password.h"

#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/text.h"
#include "pg/base64.h"
#include "pg/digest.h"

#define SCRAM_PREFIX "SCRAM-SHA-256$"

static bool is_md5_secret(const char *secret)
{
	return strlen(secret) == MD5_SECRET && strncmp(secret, "md5", 3) == 0 &&
	       strspn(secret + 3, "0123456789abcdef") == MD5_SECRET - 3;
}

enum secret_kind secret_kind_of(const char *secret)
{
	struct scram_secret scram;
	enum secret_kind kind = SECRET_PLAIN;

	if (!secret || !*secret)
		return SECRET_NONE;
	if (is_md5_secret(secret))
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

bool scram_secret_is_unusable(const char *text)
{
	struct scram_secret scram;
	bool is_usable = scram_secret_read(text, &scram);

	mem_wipe(&scram, sizeof(scram));
	return text_starts(text, SCRAM_PREFIX) && !is_usable;
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

bool scram_keys_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations,
		       uint8_t client_key[SCRAM_KEY], uint8_t stored_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	uint8_t salted[SCRAM_KEY];
	bool ok = scram_salted_derive(password, salt, salt_size, iterations, salted) &&
		  scram_keys_of_salted(salted, client_key, stored_key, server_key);

	mem_wipe(salted, sizeof(salted));
	if (!ok) {
		mem_wipe(client_key, SCRAM_KEY);
		mem_wipe(stored_key, SCRAM_KEY);
		mem_wipe(server_key, SCRAM_KEY);
	}
	return ok;
}

bool scram_secret_derive(const char *password, const uint8_t *salt, size_t salt_size, uint32_t iterations,
			 struct scram_secret *out)
{
	uint8_t client_key[SCRAM_KEY];
	bool ok;

	memset(out, 0, sizeof(*out));
	ok = scram_keys_derive(password, salt, salt_size, iterations, client_key, out->stored_key, out->server_key);
	mem_wipe(client_key, sizeof(client_key));
	if (!ok)
		return false;
	out->iterations = iterations;
	out->salt_size = salt_size;
	memcpy(out->salt, salt, salt_size);
	return true;
}

static bool md5_text(struct digest_part first, struct digest_part second, char to[MD5_SECRET + 1])
{
	uint8_t digest[MD5_SIZE];
	bool ok = digest_md5(first, second, digest);

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
	return md5_text((struct digest_part){ password, strlen(password) }, (struct digest_part){ user, strlen(user) },
			to);
}

bool md5_answer(const char secret[MD5_SECRET + 1], const uint8_t salt[4], char to[MD5_SECRET + 1])
{
	return md5_text((struct digest_part){ secret + 3, MD5_SECRET - 3 }, (struct digest_part){ salt, 4 }, to);
}

/* Compares digests, so that the time depends on neither the place of the first difference nor the length of
   the longest common beginning. */
static bool plain_matches(const char *password, const char *stored)
{
	uint8_t a[SHA256_SIZE], b[SHA256_SIZE];
	bool hashed = digest_sha256(password, strlen(password), a) && digest_sha256(stored, strlen(stored), b);
	bool equal = hashed && mem_equal_constant_time(a, b, sizeof(a));

	mem_wipe(a, sizeof(a));
	mem_wipe(b, sizeof(b));
	return equal;
}

static bool md5_matches(const char *password, const char *user, const char *stored)
{
	char want[MD5_SECRET + 1];
	bool equal = md5_secret(password, user, want) && mem_equal_constant_time(want, stored, MD5_SECRET);

	mem_wipe(want, sizeof(want));
	return equal;
}

bool password_matches(const char *password, const char *user, const char *stored)
{
	if (!*password)
		return false;
	switch (secret_kind_of(stored)) {
	case SECRET_PLAIN:
		return plain_matches(password, stored);
	case SECRET_MD5:
		return md5_matches(password, user, stored);
	case SECRET_SCRAM:
	case SECRET_NONE:
		break;
	}
	return false;
}
