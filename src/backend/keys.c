/*
 * Secrets of users: the user list, and SCRAM keys.
 *
 * SCRAM derives its keys by thousands of HMACs on purpose. A pooler that derives them for each
 * login would be slow, and any client or server could keep it busy. Derived keys (derivation.c) are
 * therefore stored: the verifier's secret for a plain password, and the ClientKey for logins at
 * servers. With SCRAM a client reveals its ClientKey to any party with the StoredKey (RFC 5802
 * section 3: ClientKey = ClientProof XOR ClientSignature). pgweir can log in at a server with the
 * ClientKey, and no clear password is stored.
 *
 * Each entry belongs to a stored secret, by a digest; after a change of the secret it is not found
 * any more. Keys for several secrets are stored beside each other, because two databases may have
 * different passwords for one user, and a password changes at different times in different places.
 *
 * Keys that were derived for a server login are untested until the server has accepted them and has
 * proven its own knowledge. They are stored too, so that attempts at a server do not each cause a
 * derivation while it refuses the password. They are in a list of their own, so that no working
 * keys are displaced when a server sends another salt each time.
 *
 * Everything is wiped before it is freed. A look-up does not remove an entry; only a new entry
 * displaces an old one.
 */
#include "backend/keys.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"
#include "pg/scram.h"

#include <openssl/rand.h>
#include <string.h>

#define FOUND_KEYS_MOST 1024		/* users found by auth_query with stored keys */

/* Keys for one secret, salt and count. */
struct salt_keys {
	struct salt_keys *next;
	/* keyed digest of the stored secret that the ClientKey belongs to */
	uint8_t of_secret[32];
	/* keyed digest of the password in clear that matched this secret last */
	uint8_t proven[32];
	bool has_proven;
	uint8_t salt[SCRAM_SALT_MAX];
	size_t salt_size;
	uint32_t iterations;
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
};

struct user_keys {
	struct scram_secret of_plain;	/* verifier of a plain password */
	uint8_t of_plain_tag[32];	/* keyed digest of that password */
	bool has_plain;
	struct salt_keys *salts;	/* last used first; KEYS_SALTS at most */
	struct salt_keys *untested;	/* last used first; KEYS_UNTESTED at most */
	struct list by_use;
	UT_hash_handle hh;
	char name[];
};

struct server_keys {
	struct user_keys *users;
	struct list by_use;		/* all users, last used at the end */
	unsigned most;			/* 0: no limit */
	uint8_t seed[32];		/* key of the digests, valid in this process only */
};

/* ---- the secrets of all users ---- */

struct secrets *secrets_new(void)
{
	struct secrets *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	all->keys = keys_new(0);
	all->old_keys = keys_new(0);
	all->found_keys = keys_new(FOUND_KEYS_MOST);
	if (!all->keys || !all->old_keys || !all->found_keys)
		secrets_free(&all);
	return all;
}

void secrets_free(struct secrets **place)
{
	struct secrets *all = *place;

	if (!all)
		return;
	if (all->list)
		userlist_free(&all->list);
	keys_free(&all->keys);
	keys_free(&all->old_keys);
	keys_free(&all->found_keys);
	mem_free(all);
	*place = NULL;
}

/* ---- keys ---- */

struct server_keys *keys_new(unsigned most)
{
	struct server_keys *k = mem_try(sizeof(*k));

	if (!k)
		return NULL;
	if (RAND_bytes(k->seed, sizeof(k->seed)) != 1) {
		mem_free(k);
		return NULL;
	}
	list_init(&k->by_use);
	k->most = most;
	return k;
}

static void clear_salts(struct salt_keys **first)
{
	while (*first) {
		struct salt_keys *s = *first;

		*first = s->next;
		mem_wipe(s, sizeof(*s));
		mem_free(s);
	}
}

/* Frees an entry, which is in no table. */
static void discard(struct user_keys *u)
{
	clear_salts(&u->salts);
	clear_salts(&u->untested);
	mem_wipe(u, sizeof(*u));
	mem_free(u);
}

static void keys_forget(struct server_keys *k, struct user_keys *u)
{
	HASH_DEL(k->users, u);
	list_remove(&u->by_use);
	discard(u);
}

static struct user_keys *find(const struct server_keys *k, const char *user)
{
	struct user_keys *u = NULL;

	HASH_FIND_STR(k->users, user, u);
	return u;
}

static void clear(struct server_keys *k)
{
	struct user_keys *u, *next;

	HASH_ITER(hh, k->users, u, next)
		keys_forget(k, u);
}

void keys_free(struct server_keys **keys)
{
	if (!*keys)
		return;
	clear(*keys);
	mem_wipe((*keys)->seed, sizeof((*keys)->seed));
	mem_free(*keys);
	*keys = NULL;
}

/* Finds or makes the entry of the user and notes its use. With a limit the least recently used
   entry is removed. Without a limit the names come from the user list and from forced users only.
   NULL: no memory. */
static struct user_keys *keys_get(struct server_keys *k, const char *user)
{
	struct user_keys *u = find(k, user);
	size_t length = strlen(user);

	if (u) {
		list_remove(&u->by_use);
		list_append(&k->by_use, &u->by_use);
		return u;
	}
	if (k->most > 0 && HASH_COUNT(k->users) >= k->most)
		keys_forget(k, LIST_OBJECT(k->by_use.next, struct user_keys, by_use));
	u = mem_try(sizeof(*u) + length + 1);
	if (!u)
		return NULL;
	memcpy(u->name, user, length + 1);
	HASH_ADD_KEYPTR(hh, k->users, u->name, length, u);
	if (!HASH_HAS(hh, u)) {
		discard(u);
		return NULL;
	}
	list_append(&k->by_use, &u->by_use);
	return u;
}

const struct scram_secret *keys_plain_secret(struct server_keys *k, const char *user,
					     const char *password, const uint8_t salt[MOCK_SALT],
					     uint32_t iterations)
{
	const struct user_keys *u = find(k, user);
	uint8_t now[32];

	if (!u || !u->has_plain || u->of_plain.iterations != iterations ||
	    memcmp(u->of_plain.salt, salt, MOCK_SALT) != 0 ||
	    !digest_hmac_texts(k->seed, password, "", now) ||
	    !mem_equal_constant_time(u->of_plain_tag, now, sizeof(now)))
		return NULL;
	/* notes the use */
	keys_get(k, user);
	return &u->of_plain;
}

bool keys_keep_plain(struct server_keys *k, const char *user, const char *password,
		     const uint8_t salt[MOCK_SALT], uint32_t iterations,
		     const uint8_t salted[SCRAM_KEY])
{
	struct user_keys *u = keys_get(k, user);
	struct scram_secret fresh = { .iterations = iterations, .salt_size = MOCK_SALT };
	uint8_t client_key[SCRAM_KEY];
	bool ok = u &&
		  scram_keys_of_salted(salted, client_key, fresh.stored_key, fresh.server_key) &&
		  digest_hmac_texts(k->seed, password, "", u->of_plain_tag);

	if (ok) {
		memcpy(fresh.salt, salt, MOCK_SALT);
		u->of_plain = fresh;
	}
	if (u)
		u->has_plain = ok;
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(&fresh, sizeof(fresh));
	return ok;
}

/* The key of a look-up. */
struct wanted {
	uint8_t of_secret[32];
	const uint8_t *salt;
	size_t salt_size;
	uint32_t iterations;
};

/* Finds the keys and moves them to the front of their list. NULL: not found. */
static struct salt_keys *keys_use(struct salt_keys **list, const struct wanted *wanted)
{
	for (struct salt_keys **place = list; *place; place = &(*place)->next) {
		struct salt_keys *s = *place;

		if (s->iterations != wanted->iterations || s->salt_size != wanted->salt_size ||
		    memcmp(s->salt, wanted->salt, wanted->salt_size) != 0 ||
		    !mem_equal_constant_time(s->of_secret, wanted->of_secret, sizeof(s->of_secret)))
			continue;
		*place = s->next;
		s->next = *list;
		*list = s;
		return s;
	}
	return NULL;
}

/* Stores the keys at the front of the list, which has at most `most` entries. False: no memory. */
static bool keys_store(struct salt_keys **list, const struct wanted *wanted, int most,
		       const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY])
{
	struct salt_keys *s = keys_use(list, wanted), **last = list;

	if (!s) {
		s = mem_try(sizeof(*s));
		if (!s)
			return false;
		memcpy(s->of_secret, wanted->of_secret, sizeof(s->of_secret));
		memcpy(s->salt, wanted->salt, wanted->salt_size);
		s->salt_size = wanted->salt_size;
		s->iterations = wanted->iterations;
		s->next = *list;
		*list = s;
		for (int i = 0; i < most && *last; i++)
			last = &(*last)->next;
		clear_salts(last);
	}
	memcpy(s->client_key, client_key, SCRAM_KEY);
	memcpy(s->server_key, server_key, SCRAM_KEY);
	return true;
}

/* Makes the key of a look-up. False: no memory. */
static bool keys_want(struct wanted *wanted, const struct server_keys *k, const char *stored,
		      const uint8_t *salt, size_t salt_size, uint32_t iterations)
{
	wanted->salt = salt;
	wanted->salt_size = salt_size;
	wanted->iterations = iterations;
	return digest_hmac_texts(k->seed, stored, "", wanted->of_secret);
}

bool keys_keep(struct server_keys *k, const char *user, const char *stored, const uint8_t *salt,
	       size_t salt_size, uint32_t iterations, const uint8_t client_key[SCRAM_KEY],
	       const uint8_t server_key[SCRAM_KEY], bool are_tested)
{
	struct user_keys *u = keys_get(k, user);
	struct salt_keys *tested;
	struct wanted wanted;

	if (!u || salt_size > SCRAM_SALT_MAX ||
	    !keys_want(&wanted, k, stored, salt, salt_size, iterations))
		return false;
	if (!are_tested)
		return keys_use(&u->salts, &wanted) ||
		       keys_store(&u->untested, &wanted, KEYS_UNTESTED, client_key, server_key);
	/* the keys are tested now: removes them, the first of the other list */
	tested = keys_use(&u->untested, &wanted);
	if (tested) {
		u->untested = tested->next;
		tested->next = NULL;
		clear_salts(&tested);
	}
	return keys_store(&u->salts, &wanted, KEYS_SALTS, client_key, server_key);
}

bool keys_has(const struct server_keys *k, const char *user, const char *stored)
{
	const struct user_keys *u = find(k, user);
	uint8_t of_secret[32];

	if (!u || !u->salts || !digest_hmac_texts(k->seed, stored, "", of_secret))
		return false;
	for (const struct salt_keys *s = u->salts; s; s = s->next)
		if (mem_equal_constant_time(s->of_secret, of_secret, sizeof(of_secret)))
			return true;
	return false;
}

bool keys_find(const struct server_keys *k, const char *user, const char *stored,
	       const uint8_t *salt, size_t salt_size, uint32_t iterations,
	       uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct user_keys *u = find(k, user);
	struct wanted wanted;
	const struct salt_keys *s;

	if (!u || !keys_want(&wanted, k, stored, salt, salt_size, iterations))
		return false;
	s = keys_use(&u->salts, &wanted);
	if (!s && !(s = keys_use(&u->untested, &wanted)))
		return false;
	memcpy(client_key, s->client_key, SCRAM_KEY);
	memcpy(server_key, s->server_key, SCRAM_KEY);
	return true;
}

bool keys_password_check(struct server_keys *k, const char *password, const char *user,
			 const char *stored)
{
	const struct user_keys *u = find(k, user);
	uint8_t now[32];

	if (!u || !u->salts || !digest_hmac_texts(k->seed, stored, password, now))
		return false;
	for (const struct salt_keys *s = u->salts; s; s = s->next) {
		/* notes the use */
		if (s->has_proven && mem_equal_constant_time(s->proven, now, sizeof(now)))
			return keys_get(k, user) != NULL;
	}
	return false;
}

bool keys_password_prove(struct server_keys *k, const char *password, const char *user,
			 const char *stored, const uint8_t salted[SCRAM_KEY])
{
	uint8_t client_key[SCRAM_KEY], stored_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct scram_secret secret;
	bool right = scram_secret_read(stored, &secret) &&
		     scram_keys_of_salted(salted, client_key, stored_key, server_key) &&
		     mem_equal_constant_time(stored_key, secret.stored_key, SCRAM_KEY);

	/* the digest of the password is stored with the keys, and is freed with them */
	if (right && keys_keep(k, user, stored, secret.salt, secret.salt_size, secret.iterations,
			       client_key, server_key, true)) {
		struct salt_keys *s = find(k, user)->salts;

		s->has_proven = digest_hmac_texts(k->seed, stored, password, s->proven);
	}
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
	mem_wipe(&secret, sizeof(secret));
	return right;
}

/* ---- online restart ---- */

static void pack_salts(struct bytes *out, const struct salt_keys *first)
{
	for (const struct salt_keys *s = first; s; s = s->next) {
		pack_bool(out, true);
		pack_blob(out, s->of_secret, sizeof(s->of_secret));
		pack_blob(out, s->salt, s->salt_size);
		bytes_append_u32(out, s->iterations);
		pack_blob(out, s->client_key, sizeof(s->client_key));
		pack_blob(out, s->server_key, sizeof(s->server_key));
		pack_bool(out, s->has_proven);
		pack_blob(out, s->proven, sizeof(s->proven));
	}
	pack_bool(out, false);
}

void keys_pack(struct bytes *out, const struct server_keys *k)
{
	pack_blob(out, k->seed, sizeof(k->seed));
	LIST_EACH(node, &k->by_use) {
		const struct user_keys *u = LIST_OBJECT(node, const struct user_keys, by_use);

		pack_text(out, u->name);
		pack_salts(out, u->salts);
		pack_salts(out, u->untested);
	}
	pack_text(out, NULL);
}

/* Reads at most `most` entries in their order. */
static void unpack_salts(struct unpack *in, struct salt_keys **end, int most)
{
	clear_salts(end);
	for (int i = 0; unpack_bool(in) && !in->bad; i++) {
		struct salt_keys *s = *end = mem_try(sizeof(*s));
		const uint8_t *salt;
		size_t size;

		in->bad |= !s || i == most;
		if (in->bad)
			return;
		end = &s->next;
		unpack_exactly(in, s->of_secret, sizeof(s->of_secret));
		salt = unpack_blob(in, &size);
		in->bad |= size > sizeof(s->salt);
		if (salt && !in->bad)
			memcpy(s->salt, salt, size);
		s->salt_size = in->bad ? 0 : size;
		s->iterations = unpack_u32(in);
		unpack_exactly(in, s->client_key, sizeof(s->client_key));
		unpack_exactly(in, s->server_key, sizeof(s->server_key));
		s->has_proven = unpack_bool(in);
		unpack_exactly(in, s->proven, sizeof(s->proven));
	}
}

void keys_unpack(struct unpack *in, struct server_keys *k)
{
	const char *name;

	clear(k);
	unpack_exactly(in, k->seed, sizeof(k->seed));
	while ((name = unpack_text(in)) != NULL) {
		struct user_keys *u = keys_get(k, name);

		in->bad |= !u;
		if (!u)
			continue;
		unpack_salts(in, &u->salts, KEYS_SALTS);
		unpack_salts(in, &u->untested, KEYS_UNTESTED);
	}
	/* an incomplete record is not used */
	if (in->bad)
		clear(k);
}
