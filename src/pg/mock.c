/*
 * Made-up secrets of unknown users: see mock.h.
 *
 * Each property is drawn by a digest of the name under a key of its own, so that one that is shown (the salt) tells nothing of
 * another. A property that is drawn in proportion to counts is a place on a scale of 2^32: while the proportions stay, a name
 * stays where it is.
 */
#include "pg/mock.h"

#include "pg/digest.h"

#include <string.h>

#define COUNT_MOST (1u << 20)
#define ITERATIONS 4096			/* of PostgreSQL, where nothing else is known */

/* ---- counting ---- */

static void halve(struct secret_kinds *kinds)
{
	kinds->all /= 2;
	kinds->scram = 0;
	for (int i = 0; i < SECRET_SHAPES; i++) {
		/* one that is left keeps its place */
		kinds->shapes[i].count = (kinds->shapes[i].count + 1) / 2;
		kinds->scram += kinds->shapes[i].count;
	}
	if (kinds->all < kinds->scram)
		kinds->all = kinds->scram;
}

static void add_shape(struct secret_kinds *kinds, uint32_t iterations, uint8_t salt_size)
{
	int at = 0;

	while (at < SECRET_SHAPES && kinds->shapes[at].count > 0 &&
	       (kinds->shapes[at].iterations < iterations ||
		(kinds->shapes[at].iterations == iterations && kinds->shapes[at].salt_size < salt_size)))
		at++;
	if (at < SECRET_SHAPES && kinds->shapes[at].count > 0 && kinds->shapes[at].iterations == iterations &&
	    kinds->shapes[at].salt_size == salt_size) {
		kinds->shapes[at].count++;
		return;
	}
	if (kinds->shapes[SECRET_SHAPES - 1].count > 0) {
		kinds->shapes[0].count++;
		return;
	}
	memmove(&kinds->shapes[at + 1], &kinds->shapes[at], (size_t)(SECRET_SHAPES - 1 - at) * sizeof(kinds->shapes[0]));
	kinds->shapes[at].iterations = iterations;
	kinds->shapes[at].salt_size = salt_size;
	kinds->shapes[at].count = 1;
}

void secret_kinds_add(struct secret_kinds *kinds, const struct secret *secret)
{
	struct scram_secret scram;

	if (secret_kind_of(secret->bytes) == SECRET_NONE)
		return;
	if (kinds->all >= COUNT_MOST)
		halve(kinds);
	kinds->all++;
	if (secret_kind_of(secret->bytes) != SECRET_SCRAM || !scram_secret_read(secret->bytes, &scram))
		return;
	kinds->scram++;
	add_shape(kinds, scram.iterations, (uint8_t)scram.salt_size);
	mem_wipe(&scram, sizeof(scram));
}

/* ---- drawing ---- */

/* A digest of the name that belongs to this purpose alone. */
static bool draw(const char *purpose, const char *user, const uint8_t seed[32], uint8_t digest[SHA256_SIZE])
{
	uint8_t key[SHA256_SIZE];
	bool ok = digest_hmac_sha256(seed, 32, purpose, strlen(purpose), key) &&
		  digest_hmac_sha256(key, sizeof(key), user, strlen(user), digest);

	mem_wipe(key, sizeof(key));
	return ok;
}

/* A whole number below `total`, which is above 0. */
static bool draw_below(const char *purpose, const char *user, const uint8_t seed[32], uint32_t total, uint32_t *drawn)
{
	uint8_t digest[SHA256_SIZE];
	uint32_t place;

	if (!draw(purpose, user, seed, digest))
		return false;
	memcpy(&place, digest, sizeof(place));
	*drawn = (uint32_t)((uint64_t)place * total >> 32);
	return true;
}

bool mock_is_scram(const struct secret_kinds *kinds, const char *user, const uint8_t seed[32])
{
	uint32_t drawn;

	return kinds->all > 0 && draw_below("kind of secret", user, seed, kinds->all, &drawn) && drawn < kinds->scram;
}

/* Sets iterations and salt_size. */
static bool draw_shape(const struct secret_kinds *kinds, const char *user, const uint8_t seed[32], uint32_t plain_iterations,
		       struct scram_secret *out, bool *is_plain)
{
	uint32_t plain = plain_iterations > 0 ? kinds->all - kinds->scram : 0, total = plain + kinds->scram, drawn;
	int at = 0;

	out->iterations = plain_iterations > 0 && kinds->all > 0 ? plain_iterations : ITERATIONS;
	out->salt_size = MOCK_SALT;
	if (total == 0)
		return true;
	if (!draw_below("shape of secret", user, seed, total, &drawn))
		return false;
	*is_plain = drawn < plain;
	if (*is_plain)
		return true;
	for (drawn -= plain; at < SECRET_SHAPES - 1 && drawn >= kinds->shapes[at].count; at++)
		drawn -= kinds->shapes[at].count;
	out->iterations = kinds->shapes[at].iterations;
	out->salt_size = kinds->shapes[at].salt_size;
	return true;
}

bool mock_salt(const char *user, const uint8_t seed[32], uint8_t salt[MOCK_SALT])
{
	uint8_t digest[SHA256_SIZE];

	_Static_assert(MOCK_SALT <= SHA256_SIZE, "a digest makes a salt");
	if (!draw("salt", user, seed, digest))
		return false;
	memcpy(salt, digest, MOCK_SALT);
	return true;
}

bool mock_secret(const struct secret_kinds *kinds, const char *user, const uint8_t seed[32], uint32_t plain_iterations,
		 struct scram_secret *out, bool *is_plain)
{
	uint8_t digest[2 * SHA256_SIZE];

	_Static_assert(SCRAM_SALT_MAX <= 2 * SHA256_SIZE, "two digests make the longest salt");
	memset(out, 0, sizeof(*out));
	*is_plain = false;
	/* the keys are those of no password, and the exchange refuses every proof anyhow */
	if (!draw_shape(kinds, user, seed, plain_iterations, out, is_plain) || !draw("salt", user, seed, digest) ||
	    !draw("rest of the salt", user, seed, digest + SHA256_SIZE) || !draw("stored key", user, seed, out->stored_key) ||
	    !draw("server key", user, seed, out->server_key))
		return false;
	memcpy(out->salt, digest, out->salt_size);
	return true;
}
