/*
 * Secrets for unknown users: see mock.h.
 *
 * Each name of a source has a key, and each property is a digest under that key, so that a visible property (the salt) reveals nothing about the
 * others. A property with a distribution is a number on a scale of 2^32: the property of a name changes only if the distribution changes.
 */
#include "pg/mock.h"

#include "pg/scram.h"

#include <string.h>

#define ITERATIONS 4096			/* the default of PostgreSQL, if no users are counted */

/* ---- counting ---- */

bool secret_shape_of(const struct secret *secret, struct secret_shape *shape)
{
	enum secret_kind kind = secret_kind_of(secret->bytes);
	struct scram_secret scram;

	*shape = (struct secret_shape){ .is_scram = kind == SECRET_SCRAM };
	if (kind == SECRET_SCRAM && scram_secret_read(secret->bytes, &scram)) {
		shape->iterations = scram.iterations;
		shape->salt_size = (uint8_t)scram.salt_size;
		mem_wipe(&scram, sizeof(scram));
	}
	return kind != SECRET_NONE;
}

void secret_kinds_count(struct secret_kinds *kinds, const struct secret_shape *shape)
{
	int at = 0;

	kinds->all++;
	if (!shape->is_scram)
		return;
	kinds->scram++;
	while (at < SECRET_SHAPES && kinds->shapes[at].count > 0 &&
	       (kinds->shapes[at].iterations < shape->iterations ||
		(kinds->shapes[at].iterations == shape->iterations && kinds->shapes[at].salt_size < shape->salt_size)))
		at++;
	if (at < SECRET_SHAPES && kinds->shapes[at].count > 0 && kinds->shapes[at].iterations == shape->iterations &&
	    kinds->shapes[at].salt_size == shape->salt_size) {
		kinds->shapes[at].count++;
		return;
	}
	if (kinds->shapes[SECRET_SHAPES - 1].count > 0) {
		kinds->shapes[0].count++;
		return;
	}
	memmove(&kinds->shapes[at + 1], &kinds->shapes[at], (size_t)(SECRET_SHAPES - 1 - at) * sizeof(kinds->shapes[0]));
	kinds->shapes[at].iterations = shape->iterations;
	kinds->shapes[at].salt_size = shape->salt_size;
	kinds->shapes[at].count = 1;
}

/* ---- drawing ---- */

bool mock_name(struct mock_name *out, const uint8_t seed[32], const char *source, const char *user)
{
	size_t ns = strlen(source) + 1, nu = strlen(user);
	char *text = mem_try(ns + nu + 1);
	bool ok;

	if (!text)
		return false;
	memcpy(text, source, ns);
	memcpy(text + ns, user, nu);
	ok = digest_hmac_sha256(seed, 32, text, ns + nu, out->key);
	mem_free(text);
	return ok;
}

/* Computes a digest of the name for this purpose. */
static bool draw(const char *purpose, const struct mock_name *name, uint8_t digest[SHA256_SIZE])
{
	return digest_hmac_sha256(name->key, sizeof(name->key), purpose, strlen(purpose), digest);
}

/* Draws a number below `total`; 0 if `total` is 0. */
static bool draw_below(const char *purpose, const struct mock_name *name, uint32_t total, uint32_t *drawn)
{
	uint8_t digest[SHA256_SIZE];
	uint32_t place;

	if (!draw(purpose, name, digest))
		return false;
	memcpy(&place, digest, sizeof(place));
	*drawn = (uint32_t)((uint64_t)place * total >> 32);
	return true;
}

bool mock_is_scram(const struct secret_kinds *kinds, const struct mock_name *name)
{
	uint32_t drawn;

	return draw_below("kind of secret", name, kinds->all, &drawn) && drawn < kinds->scram;
}

bool mock_secret(const struct secret_kinds *kinds, const struct mock_name *name, uint32_t plain_iterations,
		 struct scram_secret *out, bool *is_plain, uint8_t plain_salt[MOCK_SALT])
{
	uint32_t plain = plain_iterations > 0 ? kinds->all - kinds->scram : 0, total = plain + kinds->scram, drawn;
	uint8_t digest[2 * SHA256_SIZE];
	int at = 0;

	_Static_assert(SCRAM_SALT_MAX <= 2 * SHA256_SIZE, "two digests make the longest salt");
	_Static_assert(MOCK_SALT <= SHA256_SIZE, "a digest makes a salt");
	memset(out, 0, sizeof(*out));
	out->iterations = plain_iterations > 0 && kinds->all > 0 ? plain_iterations : ITERATIONS;
	out->salt_size = MOCK_SALT;
	if (!draw_below("shape of secret", name, total, &drawn))
		return false;
	*is_plain = drawn < plain;
	if (total > 0 && !*is_plain) {
		for (drawn -= plain; at < SECRET_SHAPES - 1 && drawn >= kinds->shapes[at].count; at++)
			drawn -= kinds->shapes[at].count;
		out->iterations = kinds->shapes[at].iterations;
		out->salt_size = kinds->shapes[at].salt_size;
	}
	/* the exchange refuses every proof, whatever the keys */
	if (!draw("salt", name, digest) ||
	    !draw("rest of the salt", name, digest + SHA256_SIZE) || !draw("stored key", name, out->stored_key) ||
	    !draw("server key", name, out->server_key))
		return false;
	memcpy(out->salt, digest, out->salt_size);
	if (plain_salt)
		memcpy(plain_salt, digest, MOCK_SALT);
	return true;
}
