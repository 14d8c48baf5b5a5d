/* The cache of derived keys: entries belong to a user and a stored secret and match no other. */
#include "backend/keys.h"
#include "derive.h"
#include "unit.h"

#include <stdlib.h>

#define FEW 16		/* iterations: the tests are about which server gets the keys, not about their cost */

static const uint8_t salt[16] = "sixteen bytes of";

/* Replaces the allocator of base/mem.h. The fails_at-th allocation from now on fails; 0: none fails. */
static int fails_at;

void *calloc(size_t count, size_t size)
{
	/* otherwise the compiler turns malloc and memset into a call of this function */
	void *(*const volatile fill)(void *, int, size_t) = memset;
	void *memory = fails_at > 0 && --fails_at == 0 ? NULL : malloc(count * size);

	return memory ? fill(memory, 0, count * size) : NULL;
}

/* A SCRAM secret of this password, as text. */
static const char *secret_of(const char *password, char text[SCRAM_SECRET_TEXT])
{
	struct scram_secret secret;

	if (!scram_secret_derive(password, salt, sizeof(salt), FEW, &secret) || !scram_secret_write(&secret, text, SCRAM_SECRET_TEXT))
		text[0] = 0;
	return text;
}

static bool finds(const struct server_keys *keys, const char *user, const char *stored)
{
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];

	return keys_find(keys, user, stored, salt, sizeof(salt), FEW, client_key, server_key);
}

static void keep(struct server_keys *keys, const char *user, const char *stored)
{
	static const uint8_t key[SCRAM_KEY];

	keys_keep(keys, user, stored, salt, sizeof(salt), FEW, key, key, true);
}

/* Looks the key up as a login does. Returns false if the key must be derived. */
static bool knows_plain(struct server_keys *keys, const char *user, const char *password, uint32_t iterations)
{
	return keys_plain_secret(keys, user, password, salt, iterations);
}

static void derive_plain(struct server_keys *keys, const char *user, const char *password, uint32_t iterations)
{
	uint8_t salted[SCRAM_KEY];

	CHECK(scram_salted_derive(password, salt, sizeof(salt), iterations, salted));
	CHECK(keys_keep_plain(keys, user, password, salt, iterations, salted));
}

TEST(a_plain_password_is_derived_once)
{
	struct server_keys *keys = keys_new(0);
	struct scram_secret secret;

	CHECK(!knows_plain(keys, "ann", "pencil", FEW));
	derive_plain(keys, "ann", "pencil", FEW);
	REQUIRE(knows_plain(keys, "ann", "pencil", FEW));
	REQUIRE(scram_secret_derive("pencil", salt, sizeof(salt), FEW, &secret));
	CHECK(memcmp(&secret, keys_plain_secret(keys, "ann", "pencil", salt, FEW), sizeof(secret)) == 0);
	CHECK(!knows_plain(keys, "bob", "pencil", FEW));
	keys_free(&keys);
	CHECK(!keys);
}

TEST(changed_password_or_iterations_are_derived_again)
{
	struct server_keys *keys = keys_new(0);

	derive_plain(keys, "ann", "pencil", FEW);
	CHECK(!knows_plain(keys, "ann", "crayon", FEW));
	CHECK(!knows_plain(keys, "ann", "pencil", FEW + 1));
	derive_plain(keys, "ann", "crayon", FEW);
	CHECK(knows_plain(keys, "ann", "crayon", FEW));
	CHECK(!knows_plain(keys, "ann", "pencil", FEW));
	keys_free(&keys);
}

TEST(least_recently_used_secret_is_evicted)
{
	struct server_keys *keys = keys_new(2);

	derive_plain(keys, "ann", "pencil", FEW);
	derive_plain(keys, "bob", "pencil", FEW);
	CHECK(knows_plain(keys, "ann", "pencil", FEW));
	derive_plain(keys, "eve", "pencil", FEW);
	CHECK(knows_plain(keys, "ann", "pencil", FEW));
	CHECK(!knows_plain(keys, "bob", "pencil", FEW));
	keys_free(&keys);
}

static void keep_for_salt(struct server_keys *keys, uint8_t number)
{
	uint8_t own_salt[16] = { number }, key[SCRAM_KEY] = { number };

	CHECK(keys_keep(keys, "ann", "stored", own_salt, sizeof(own_salt), FEW, key, key, true));
}

static bool finds_for_salt(struct server_keys *keys, uint8_t number)
{
	uint8_t own_salt[16] = { number }, client_key[SCRAM_KEY], server_key[SCRAM_KEY];

	return keys_find(keys, "ann", "stored", own_salt, sizeof(own_salt), FEW, client_key, server_key) && client_key[0] == number;
}

TEST(least_recently_used_salt_is_evicted)
{
	struct server_keys *keys = keys_new(0);

	for (uint8_t number = 1; number <= KEYS_SALTS; number++)
		keep_for_salt(keys, number);
	for (uint8_t number = 1; number <= KEYS_SALTS; number++)
		CHECK(finds_for_salt(keys, number));
	/* the first key was the least recently used, until now */
	CHECK(finds_for_salt(keys, 1));
	keep_for_salt(keys, KEYS_SALTS + 1);
	CHECK(finds_for_salt(keys, 1));
	CHECK(!finds_for_salt(keys, 2));
	CHECK(finds_for_salt(keys, KEYS_SALTS + 1));
	/* storing an existing key again */
	keep_for_salt(keys, 3);
	for (uint8_t number = 3; number <= KEYS_SALTS + 1; number++)
		CHECK(finds_for_salt(keys, number));
	keys_free(&keys);
}

TEST(keys_are_found_by_user_and_secret)
{
	struct server_keys *keys = keys_new(0);
	uint8_t client_key[SCRAM_KEY] = "client", server_key[SCRAM_KEY] = "server", c[SCRAM_KEY], s[SCRAM_KEY];

	CHECK(!keys_has(keys, "ann", "stored"));
	keys_keep(keys, "ann", "stored", salt, sizeof(salt), FEW, client_key, server_key, true);
	REQUIRE(keys_find(keys, "ann", "stored", salt, sizeof(salt), FEW, c, s));
	CHECK(memcmp(c, client_key, SCRAM_KEY) == 0 && memcmp(s, server_key, SCRAM_KEY) == 0);
	CHECK(keys_has(keys, "ann", "stored"));
	CHECK(!keys_has(keys, "bob", "stored"));
	CHECK(!keys_has(keys, "ann", "stored otherwise"));
	CHECK(!finds(keys, "ann", "stored otherwise"));
	CHECK(!keys_find(keys, "ann", "stored", salt, sizeof(salt) - 1, FEW, c, s));
	CHECK(!keys_find(keys, "ann", "stored", (const uint8_t *)"sixteen bytes OF", sizeof(salt), FEW, c, s));
	CHECK(!keys_find(keys, "ann", "stored", salt, sizeof(salt), FEW + 1, c, s));
	keys_free(&keys);
}

/* Two databases have different passwords for one user, or a password is being changed. */
TEST(keys_of_several_secrets_are_kept)
{
	struct server_keys *keys = keys_new(0);
	uint8_t one[SCRAM_KEY] = "one", two[SCRAM_KEY] = "two", c[SCRAM_KEY], s[SCRAM_KEY];

	keys_keep(keys, "ann", "before", salt, sizeof(salt), FEW, one, one, true);
	keys_keep(keys, "ann", "after", salt, sizeof(salt), FEW, two, two, true);
	CHECK(keys_has(keys, "ann", "before") && keys_has(keys, "ann", "after"));
	REQUIRE(keys_find(keys, "ann", "after", salt, sizeof(salt), FEW, c, s));
	CHECK(memcmp(c, two, SCRAM_KEY) == 0);
	REQUIRE(keys_find(keys, "ann", "before", salt, sizeof(salt), FEW, c, s));
	CHECK(memcmp(c, one, SCRAM_KEY) == 0);
	/* new keys for a secret and salt replace the old keys */
	keys_keep(keys, "ann", "before", salt, sizeof(salt), FEW, two, two, true);
	REQUIRE(keys_find(keys, "ann", "before", salt, sizeof(salt), FEW, c, s));
	CHECK(memcmp(c, two, SCRAM_KEY) == 0);
	keys_free(&keys);
}

static void keep_untested(struct server_keys *keys, uint8_t number)
{
	uint8_t own_salt[16] = { number }, key[SCRAM_KEY] = { number };

	keys_keep(keys, "ann", "stored", own_salt, sizeof(own_salt), FEW, key, key, false);
}

/* A server that sends a different salt each time displaces no keys that work. */
TEST(untested_keys_have_separate_places)
{
	struct server_keys *keys = keys_new(0);

	keep_untested(keys, 1);
	CHECK(finds_for_salt(keys, 1) && !keys_has(keys, "ann", "stored"));
	for (uint8_t number = 101; number <= 100 + KEYS_SALTS; number++)
		keep_for_salt(keys, number);
	CHECK(finds_for_salt(keys, 1));
	for (uint8_t number = 2; number <= KEYS_UNTESTED + 1; number++)
		keep_untested(keys, number);
	CHECK(!finds_for_salt(keys, 1));
	for (uint8_t number = 101; number <= 100 + KEYS_SALTS; number++)
		CHECK(finds_for_salt(keys, number));
	/* a key that a server accepts leaves its place for untested keys */
	keep_for_salt(keys, 2);
	keep_untested(keys, 9);
	for (uint8_t number = 2; number <= KEYS_UNTESTED + 1; number++)
		CHECK(finds_for_salt(keys, number));
	CHECK(finds_for_salt(keys, 9));
	/* and a tested key does not become untested again */
	keep_untested(keys, 2);
	CHECK(finds_for_salt(keys, 3));
	keys_free(&keys);
}

TEST(salt_that_is_too_long_is_not_stored)
{
	struct server_keys *keys = keys_new(0);
	uint8_t key[SCRAM_KEY] = "key", much[SCRAM_SALT_MAX + 1] = { 1 };

	keys_keep(keys, "ann", "stored", much, sizeof(much), FEW, key, key, true);
	CHECK(!keys_has(keys, "ann", "stored"));
	keys_free(&keys);
}

/* Checks the password as a login does. */
static bool matches(struct server_keys *keys, const char *password, const char *user, const char *stored)
{
	struct scram_secret secret;
	uint8_t salted[SCRAM_KEY];

	return scram_secret_read(stored, &secret) &&
	       scram_salted_derive(password, secret.salt, secret.salt_size, secret.iterations, salted) &&
	       keys_password_prove(keys, password, user, stored, salted);
}

TEST(password_match_stores_the_keys)
{
	struct server_keys *keys = keys_new(0);
	char stored[SCRAM_SECRET_TEXT];

	secret_of("pencil", stored);
	CHECK(!matches(keys, "crayon", "ann", stored));
	CHECK(!finds(keys, "ann", stored));
	CHECK(matches(keys, "pencil", "ann", stored));
	CHECK(finds(keys, "ann", stored));
	/* cached now, and still no other password matches */
	CHECK(keys_password_check(keys, "pencil", "ann", stored));
	CHECK(!keys_password_check(keys, "crayon", "ann", stored));
	CHECK(!keys_password_check(keys, "", "ann", stored));
	CHECK(!keys_password_check(keys, "pencil", "bob", stored));
	/* and a failed match does not remove the cached success */
	CHECK(!matches(keys, "crayon", "ann", stored));
	CHECK(keys_password_check(keys, "pencil", "ann", stored));
	keys_free(&keys);
}

TEST(cached_success_belongs_to_its_secret)
{
	struct server_keys *keys = keys_new(0);
	char before[SCRAM_SECRET_TEXT], after[SCRAM_SECRET_TEXT];

	secret_of("pencil", before);
	secret_of("crayon", after);
	CHECK(matches(keys, "pencil", "ann", before));
	CHECK(!keys_password_check(keys, "pencil", "ann", after));
	CHECK(!matches(keys, "pencil", "ann", after));
	CHECK(matches(keys, "crayon", "ann", after));
	CHECK(!matches(keys, "crayon", "ann", before));
	CHECK(!keys_password_check(keys, "crayon", "ann", before));
	CHECK(keys_password_check(keys, "pencil", "ann", before));
	CHECK(keys_password_check(keys, "crayon", "ann", after));
	keys_free(&keys);
}

TEST(cached_success_includes_the_keys)
{
	struct server_keys *keys = keys_new(0);
	char here[SCRAM_SECRET_TEXT];

	secret_of("pencil", here);
	CHECK(matches(keys, "pencil", "ann", here));
	/* SCRAM logins with secrets of other databases */
	for (uint8_t number = 1; number < KEYS_SALTS; number++)
		keep_for_salt(keys, number);
	CHECK(keys_password_check(keys, "pencil", "ann", here));
	keep_for_salt(keys, KEYS_SALTS);
	CHECK(!finds(keys, "ann", here));
	CHECK(!keys_password_check(keys, "pencil", "ann", here));
	CHECK(matches(keys, "pencil", "ann", here));
	CHECK(finds(keys, "ann", here));
	keys_free(&keys);
}

TEST(least_recently_used_success_is_evicted)
{
	struct server_keys *keys = keys_new(2);
	char stored[SCRAM_SECRET_TEXT];

	secret_of("pencil", stored);
	keep(keys, "ann", stored);
	keep(keys, "bob", stored);
	CHECK(matches(keys, "pencil", "ann", stored));
	keep(keys, "bob", stored);
	CHECK(keys_password_check(keys, "pencil", "ann", stored));
	keep(keys, "eve", stored);
	CHECK(keys_has(keys, "ann", stored));
	CHECK(!keys_has(keys, "bob", stored));
	CHECK(keys_has(keys, "eve", stored));
	keys_free(&keys);
}

TEST(out_of_memory_during_a_match)
{
	char stored[SCRAM_SECRET_TEXT];
	bool has_failed = true;

	secret_of("pencil", stored);
	for (int n = 1; has_failed; n++) {
		struct server_keys *keys = keys_new(2);

		REQUIRE(keys && n < 100);
		keep(keys, "bob", stored);
		fails_at = n;
		matches(keys, "pencil", "ann", stored);
		has_failed = fails_at == 0;
		fails_at = 0;
		CHECK(matches(keys, "pencil", "ann", stored));
		CHECK(!matches(keys, "crayon", "ann", stored));
		CHECK(finds(keys, "ann", stored));
		keys_free(&keys);
		/* the only entry */
		keys = keys_new(2);
		REQUIRE(keys);
		fails_at = n;
		matches(keys, "pencil", "ann", stored);
		has_failed |= fails_at == 0;
		fails_at = 0;
		CHECK(matches(keys, "pencil", "ann", stored));
		keys_free(&keys);
	}
}

/* Sends the keys with the hash that binds them to the stored secret; a truncated record stores nothing. */
TEST(keys_are_handed_over)
{
	char one[SCRAM_SECRET_TEXT], two[SCRAM_SECRET_TEXT];
	struct server_keys *keys = keys_new(0), *other = keys_new(0);
	struct bytes bytes = BYTES_EMPTY;
	struct unpack in;

	secret_of("one", one);
	secret_of("two", two);
	CHECK(matches(keys, "one", "ann", one));
	keep_untested(keys, 7);
	keys_pack(&bytes, keys);
	in = unpack_of(bytes_front(&bytes), bytes_size(&bytes));
	keys_unpack(&in, other);
	CHECK(unpack_is_done(&in));
	CHECK(finds(other, "ann", one) && !finds(other, "ann", two) && !finds(other, "bob", one));
	CHECK(finds_for_salt(other, 7) && keys_password_check(other, "one", "ann", one));
	for (size_t n = 0; n < bytes_size(&bytes); n++) {
		in = unpack_of(bytes_front(&bytes), n);
		keys_unpack(&in, other);
		CHECK(in.bad && !finds(other, "ann", one));
	}
	bytes_wipe(&bytes);
	keys_free(&keys);
	keys_free(&other);
}

UNIT_ALONE
