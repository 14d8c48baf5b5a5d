/*
 * The keyed hash of tables: equals the SipHash of OpenSSL for every word length and remainder; depends on the key; and keeps chains short for keys
 * that collide in a hash without a key.
 */
#include "base/hash.h"
#include "unit.h"

#include <openssl/evp.h>
#include <openssl/params.h>

#define MOST 70			/* 11 bytes */
#define NAMES 400
#define ALIKE 1024		/* up to this bit, the hashes without a key are equal */
#define LONG_CHAIN 16		/* a longer chain is extremely unlikely by chance */

struct named {
	UT_hash_handle hh;
	char name[24];
};

/* SipHash with one round for each word and three at the end. */
static uint64_t by_openssl(const uint8_t key[HASH_KEY], const uint8_t *from, size_t size)
{
	size_t width = 8, done = 0;
	unsigned one = 1, three = 3;
	uint8_t out[8] = { 0 };
	uint64_t all = 0;
	OSSL_PARAM options[] = {
		OSSL_PARAM_construct_size_t("size", &width), OSSL_PARAM_construct_uint("c-rounds", &one),
		OSSL_PARAM_construct_uint("d-rounds", &three), OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
	EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);

	CHECK(EVP_MAC_init(context, key, HASH_KEY, options) == 1 && EVP_MAC_update(context, from, size) == 1 &&
	      EVP_MAC_final(context, out, &done, sizeof(out)) == 1 && done == sizeof(out));
	EVP_MAC_CTX_free(context);
	EVP_MAC_free(mac);
	for (int i = 8; i-- > 0;)
		all = all << 8 | out[i];
	return all;
}

static void key_of(uint8_t key[HASH_KEY], unsigned seed)
{
	for (unsigned i = 0; i < HASH_KEY; i++)
		key[i] = (uint8_t)(37 * seed + 101 * i);
}

TEST(hash_equals_siphash)
{
	uint8_t key[HASH_KEY], text[MOST + 1];

	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(255 - 3 * i);
	for (unsigned seed = 0; seed < 4; seed++) {
		key_of(key, seed);
		hash_set_key(key);
		for (size_t size = 0; size <= MOST; size++) {
			CHECK(hash_of(text, size) == (unsigned)by_openssl(key, text, size));
			/* at an unaligned address too */
			CHECK(hash_of(text + 1, size) == (unsigned)by_openssl(key, text + 1, size));
		}
	}
}

TEST(hash_depends_on_the_key)
{
	uint8_t key[HASH_KEY];
	unsigned before[NAMES];
	int same = 0;

	key_of(key, 1);
	hash_set_key(key);
	for (unsigned i = 0; i < NAMES; i++)
		before[i] = hash_of(&i, sizeof(i));
	/* a key that differs in its last bit only */
	key[HASH_KEY - 1] ^= 0x80;
	hash_set_key(key);
	for (unsigned i = 0; i < NAMES; i++)
		same += hash_of(&i, sizeof(i)) == before[i];
	CHECK_INT(same, 0);
}

static unsigned longest_chain(const struct named *table)
{
	unsigned longest = 0;

	for (unsigned i = 0; table && i < table->hh.tbl->num_buckets; i++)
		if (table->hh.tbl->buckets[i].count > longest)
			longest = table->hh.tbl->buckets[i].count;
	return longest;
}

/* Finds the next name that uthash's own hash puts into the same bucket. */
static void next_alike(char *name, size_t size, unsigned *number)
{
	unsigned hash;

	do {
		snprintf(name, size, "statement_%u", (*number)++);
		HASH_JEN(name, strlen(name), hash);
	} while (hash % ALIKE != 0);
}

TEST(colliding_names_do_not_share_a_chain)
{
	static struct named all[NAMES];
	struct named *table = NULL, *plain = NULL, *found;
	unsigned number = 0, hash;
	uint8_t key[HASH_KEY];

	key_of(key, 7);
	hash_set_key(key);
	for (int i = 0; i < NAMES; i++) {
		next_alike(all[i].name, sizeof(all[i].name), &number);
		HASH_ADD_STR(table, name, &all[i]);
		REQUIRE(HASH_HAS(hh, &all[i]));
	}
	CHECK(longest_chain(table) <= LONG_CHAIN);
	for (int i = 0; i < NAMES; i++) {
		HASH_FIND_STR(table, all[i].name, found);
		CHECK(found == &all[i]);
	}
	HASH_CLEAR(hh, table);
	/* uthash's own hash makes a long chain, so the test is meaningful */
	for (int i = 0; i < NAMES; i++) {
		HASH_JEN(all[i].name, strlen(all[i].name), hash);
		HASH_ADD_KEYPTR_BYHASHVALUE(hh, plain, all[i].name, strlen(all[i].name), hash, &all[i]);
	}
	CHECK(longest_chain(plain) >= NAMES / 2);
	HASH_CLEAR(hh, plain);
}

/* Tables of names. */

TEST(objects_are_found_in_insertion_order)
{
	enum { MANY = 3000 };
	static int objects[MANY];
	struct arena *arena = arena_new(false);
	struct index index = { NULL };
	char name[16];
	void **found;
	size_t count;
	int i;

	CHECK(!index_get(&index, "n1"));
	CHECK(index_objects(&index, arena, &count) && count == 0);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(index_put(&index, arena, arena_copy(arena, name, strlen(name)), &objects[i]));
	}
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(index_get(&index, name) == &objects[i]);
	}
	CHECK(!index_get(&index, "n"));
	CHECK(!index_get(&index, "n3000"));
	found = index_objects(&index, arena, &count);
	REQUIRE(found && count == MANY);
	for (i = 0; i < MANY; i++)
		CHECK(found[i] == &objects[i]);
	index_clear(&index);
	CHECK(!index_get(&index, "n1"));
	arena_free(&arena);
}

TEST(repeated_name_keeps_its_position)
{
	struct arena *arena = arena_new(false);
	struct index index = { NULL };
	int a, b, c;
	void **found;
	size_t count;

	CHECK(index_put(&index, arena, "x", &a));
	CHECK(index_put(&index, arena, "y", &b));
	CHECK(index_put(&index, arena, "x", &c));
	found = index_objects(&index, arena, &count);
	REQUIRE(found && count == 2);
	CHECK(found[0] == &c && found[1] == &b);
	index_clear(&index);
	arena_free(&arena);
}

UNIT_MAIN
