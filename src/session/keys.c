/*
 * Keys that were expensive to get.
 *
 * SCRAM derives its keys by thousands of HMACs, on purpose. A pooler that did this at each login would be a
 * slow pooler, and one that any client or server could keep busy. So what was derived (derivation.c) is kept: the
 * verifier's secret for a plain password, the ClientKey for logging in at servers. A client that logs in with
 * SCRAM reveals its ClientKey to whoever holds the StoredKey (RFC 5802 section 3: ClientKey = ClientProof XOR
 * ClientSignature); with it pgweir can log in at the server as that user, and no clear password is stored anywhere.
 *
 * Whatever is kept is bound to the stored secret by a digest: when the secret changes, it is of no use any more.
 * PAM and LDAP leave no secret behind that a server could be shown. There the password itself is kept.
 *
 * Everything here is wiped when it goes. One who is found stays where he is: only for the sake of a new one does anybody go.
 */
#include "session/keys.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <string.h>

/* Keys for one salt and count. */
struct salt_keys {
	struct salt_keys *next;
	uint8_t of_secret[32];		/* keyed digest of the stored secret that the ClientKey belongs to */
	uint8_t salt[SCRAM_SALT_MAX];
	size_t salt_size;
	uint32_t iterations;
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
};

struct user_keys {
	struct scram_secret of_plain;	/* verifier of a plain password */
	uint8_t of_plain_tag[32];	/* keyed digest of that password */
	bool has_plain;
	struct salt_keys *salts;	/* the one used last comes first; KEYS_SALTS at most */
	uint8_t proven[32];		/* keyed digest of the password and secret that last matched */
	bool has_proven;
	struct secret *password;	/* PAM or LDAP found it to be right; NULL: neither was asked */
	struct list by_use;
	UT_hash_handle hh;
	char name[];
};

struct server_keys {
	struct user_keys *users;
	struct list by_use;		/* all of them, used longest ago first */
	unsigned most;			/* 0: no bound */
	unsigned passwords;		/* users with one */
	uint8_t seed[32];		/* key of the digests: they mean nothing outside this process */
};

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

/* Takes the secret; NULL: none. */
static void set_password(struct server_keys *k, struct user_keys *u, struct secret *password)
{
	k->passwords -= u->password != NULL;
	k->passwords += password != NULL;
	secret_free(&u->password);
	u->password = password;
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

/* One that is in no table. */
static void discard(struct server_keys *k, struct user_keys *u)
{
	set_password(k, u, NULL);
	clear_salts(&u->salts);
	mem_wipe(u, sizeof(*u));
	mem_free(u);
}

static void forget(struct server_keys *k, struct user_keys *u)
{
	HASH_DEL(k->users, u);
	list_remove(&u->by_use);
	discard(k, u);
}

static void clear(struct server_keys *k)
{
	struct user_keys *u, *next;

	HASH_ITER(hh, k->users, u, next)
		forget(k, u);
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

static struct user_keys *find(const struct server_keys *k, const char *user)
{
	struct user_keys *u = NULL;

	HASH_FIND_STR(k->users, user, u);
	return u;
}

static struct user_keys *user_at(struct list *node)
{
	return LIST_OBJECT(node, struct user_keys, by_use);
}

/* With a bound, who was used longest ago goes. Without one, the names are those of the user list and of forced users, so there are
   not more than these. */
static struct user_keys *get(struct server_keys *k, const char *user)
{
	struct user_keys *u = find(k, user);
	size_t length = strlen(user);

	if (u) {
		list_remove(&u->by_use);
		list_append(&k->by_use, &u->by_use);
		return u;
	}
	if (k->most > 0 && HASH_COUNT(k->users) >= k->most)
		forget(k, user_at(k->by_use.next));
	u = mem_try(sizeof(*u) + length + 1);
	if (!u)
		return NULL;
	memcpy(u->name, user, length + 1);
	HASH_ADD_KEYPTR(hh, k->users, u->name, length, u);
	if (!HASH_HAS(hh, u)) {
		discard(k, u);
		return NULL;
	}
	list_append(&k->by_use, &u->by_use);
	return u;
}

bool keys_tag(const struct server_keys *k, const char *a, const char *b, uint8_t out[32])
{
	unsigned size = 32;
	size_t na = strlen(a) + 1, nb = strlen(b);
	uint8_t *both = mem_try(na + nb + 1);
	bool ok;

	if (!both)
		return false;
	memcpy(both, a, na);
	memcpy(both + na, b, nb);
	ok = HMAC(EVP_sha256(), k->seed, sizeof(k->seed), both, na + nb, out, &size) != NULL;
	mem_wipe(both, na + nb);
	mem_free(both);
	return ok;
}

const struct scram_secret *keys_plain_secret(struct server_keys *k, const char *user, const char *password, uint32_t iterations)
{
	const struct user_keys *u = find(k, user);
	uint8_t now[32];

	if (!u || !u->has_plain || u->of_plain.iterations != iterations || !keys_tag(k, password, "", now) ||
	    !mem_equal_constant_time(u->of_plain_tag, now, sizeof(now)))
		return NULL;
	/* was used now */
	get(k, user);
	return &u->of_plain;
}

bool keys_keep_plain(struct server_keys *k, const char *user, const char *password, const uint8_t salt[MOCK_SALT], uint32_t iterations,
		     const uint8_t salted[SCRAM_KEY])
{
	struct user_keys *u = get(k, user);
	struct scram_secret fresh = { .iterations = iterations, .salt_size = MOCK_SALT };
	uint8_t client_key[SCRAM_KEY];
	bool ok = u && scram_keys_of_salted(salted, client_key, fresh.stored_key, fresh.server_key) && keys_tag(k, password, "", u->of_plain_tag);

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

/* Moves the keys for this salt and count to the front. NULL: there are none. */
static struct salt_keys *use_salt(struct user_keys *u, const uint8_t *salt, size_t salt_size, uint32_t iterations)
{
	for (struct salt_keys **place = &u->salts; *place; place = &(*place)->next) {
		struct salt_keys *s = *place;

		if (s->iterations != iterations || s->salt_size != salt_size || memcmp(s->salt, salt, salt_size) != 0)
			continue;
		*place = s->next;
		s->next = u->salts;
		u->salts = s;
		return s;
	}
	return NULL;
}

/* A place for new ones, at the front. */
static struct salt_keys *salt_new(struct user_keys *u)
{
	struct salt_keys *s = mem_try(sizeof(*s)), **last = &u->salts;

	if (!s)
		return NULL;
	s->next = u->salts;
	u->salts = s;
	for (int i = 0; i < KEYS_SALTS && *last; i++)
		last = &(*last)->next;
	clear_salts(last);
	return s;
}

bool keys_keep(struct server_keys *k, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY])
{
	struct user_keys *u = get(k, user);
	struct salt_keys *s;
	uint8_t of_secret[32];

	if (!u || salt_size > sizeof(s->salt) || !keys_tag(k, stored, "", of_secret))
		return false;
	/* keys of another secret are of no use any more, nor is the password that was remembered with them */
	if (u->salts && memcmp(u->salts->of_secret, of_secret, sizeof(of_secret)) != 0) {
		clear_salts(&u->salts);
		u->has_proven = false;
	}
	s = use_salt(u, salt, salt_size, iterations);
	if (!s && !(s = salt_new(u)))
		return false;
	memcpy(s->of_secret, of_secret, sizeof(of_secret));
	memcpy(s->salt, salt, salt_size);
	s->salt_size = salt_size;
	s->iterations = iterations;
	memcpy(s->client_key, client_key, SCRAM_KEY);
	memcpy(s->server_key, server_key, SCRAM_KEY);
	return true;
}

bool keys_has(const struct server_keys *k, const char *user, const char *stored)
{
	const struct user_keys *u = find(k, user);
	uint8_t of_secret[32];

	return u && u->salts && keys_tag(k, stored, "", of_secret) &&
	       mem_equal_constant_time(u->salts->of_secret, of_secret, sizeof(of_secret));
}

bool keys_find(const struct server_keys *k, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	struct user_keys *u = find(k, user);
	const struct salt_keys *s = u && keys_has(k, user, stored) ? use_salt(u, salt, salt_size, iterations) : NULL;

	if (!s)
		return false;
	memcpy(client_key, s->client_key, SCRAM_KEY);
	memcpy(server_key, s->server_key, SCRAM_KEY);
	return true;
}

bool keys_password_is_proven(struct server_keys *k, const char *password, const char *user, const char *stored)
{
	const struct user_keys *u = find(k, user);
	uint8_t now[32];

	if (!u || !u->has_proven || !keys_tag(k, stored, password, now) || !mem_equal_constant_time(u->proven, now, sizeof(now)))
		return false;
	/* was used now */
	return get(k, user) != NULL;
}

/* Who is remembered without his keys would never leave any. */
static void remember(struct server_keys *k, const char *password, const char *user, const char *stored, const struct scram_secret *secret,
		     const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY])
{
	struct user_keys *u;

	if (!keys_keep(k, user, stored, secret->salt, secret->salt_size, secret->iterations, client_key, server_key))
		return;
	u = get(k, user);
	u->has_proven = keys_tag(k, stored, password, u->proven);
}

bool keys_password_prove(struct server_keys *k, const char *password, const char *user, const char *stored, const uint8_t salted[SCRAM_KEY])
{
	uint8_t client_key[SCRAM_KEY], stored_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct scram_secret secret;
	bool right = scram_secret_read(stored, &secret) && scram_keys_of_salted(salted, client_key, stored_key, server_key) &&
		     mem_equal_constant_time(stored_key, secret.stored_key, SCRAM_KEY);

	if (right)
		remember(k, password, user, stored, &secret, client_key, server_key);
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
	mem_wipe(&secret, sizeof(secret));
	return right;
}

bool keys_keep_password(struct server_keys *k, const char *user, const struct secret *password)
{
	struct user_keys *u = get(k, user);
	struct secret *copy;

	if (!u)
		return false;
	if (u->password && u->password->length == password->length &&
	    mem_equal_constant_time(u->password->bytes, password->bytes, password->length))
		return true;
	copy = secret_new(password->bytes, password->length);
	if (!copy)
		return false;
	set_password(k, u, copy);
	return true;
}

void keys_forget_password(struct server_keys *k, const char *user)
{
	struct user_keys *u = k->passwords > 0 ? find(k, user) : NULL;

	if (u)
		set_password(k, u, NULL);
}

const struct secret *keys_password(const struct server_keys *k, const char *user)
{
	const struct user_keys *u = k->passwords > 0 ? find(k, user) : NULL;

	return u ? u->password : NULL;
}

/* ---- to another process ---- */

static void pack_salt(struct bytes *out, const struct salt_keys *s)
{
	pack_bool(out, true);
	pack_blob(out, s->of_secret, sizeof(s->of_secret));
	pack_blob(out, s->salt, s->salt_size);
	bytes_append_u32(out, s->iterations);
	pack_blob(out, s->client_key, sizeof(s->client_key));
	pack_blob(out, s->server_key, sizeof(s->server_key));
}

void keys_pack(struct bytes *out, const struct server_keys *k)
{
	pack_blob(out, k->seed, sizeof(k->seed));
	LIST_EACH(node, &k->by_use) {
		const struct user_keys *u = LIST_OBJECT(node, const struct user_keys, by_use);

		pack_text(out, u->name);
		for (const struct salt_keys *s = u->salts; s; s = s->next)
			pack_salt(out, s);
		pack_bool(out, false);
		pack_bool(out, u->has_proven);
		pack_blob(out, u->proven, sizeof(u->proven));
		pack_blob(out, u->password ? u->password->bytes : NULL, u->password ? u->password->length : 0);
	}
	pack_text(out, NULL);
}

static void unpack_salt(struct unpack *in, struct salt_keys *s)
{
	const uint8_t *salt;
	size_t size;

	unpack_exactly(in, s->of_secret, sizeof(s->of_secret));
	salt = unpack_blob(in, &size);
	in->bad |= size > sizeof(s->salt);
	if (salt && !in->bad)
		memcpy(s->salt, salt, size);
	s->salt_size = in->bad ? 0 : size;
	s->iterations = unpack_u32(in);
	unpack_exactly(in, s->client_key, sizeof(s->client_key));
	unpack_exactly(in, s->server_key, sizeof(s->server_key));
}

/* In their order. */
static void unpack_salts(struct unpack *in, struct user_keys *u)
{
	struct salt_keys **end = &u->salts;

	clear_salts(end);
	for (int i = 0; unpack_bool(in) && !in->bad; i++, end = &(*end)->next) {
		*end = mem_try(sizeof(**end));
		in->bad |= !*end || i == KEYS_SALTS;
		if (in->bad)
			return;
		unpack_salt(in, *end);
	}
}

static void unpack_user(struct unpack *in, struct server_keys *k, struct user_keys *u)
{
	const uint8_t *password;
	size_t size;

	unpack_salts(in, u);
	u->has_proven = unpack_bool(in);
	unpack_exactly(in, u->proven, sizeof(u->proven));
	password = unpack_blob(in, &size);
	set_password(k, u, size > 0 ? secret_new(password, size) : NULL);
	in->bad |= size > 0 && !u->password;
}

void keys_unpack(struct unpack *in, struct server_keys *k)
{
	const char *name;

	clear(k);
	unpack_exactly(in, k->seed, sizeof(k->seed));
	while ((name = unpack_text(in)) != NULL) {
		struct user_keys *u = get(k, name);

		in->bad |= !u;
		if (u)
			unpack_user(in, k, u);
	}
	/* half of a key is none */
	if (in->bad)
		clear(k);
}
