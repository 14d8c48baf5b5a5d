/*
 * Keys that were expensive to get.
 *
 * SCRAM derives its keys by thousands of HMACs, on purpose. A pooler that did this at each login would be a
 * slow pooler, and one that anybody could keep busy. So each derivation is made once for a user and its secret: the
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

struct user_keys {
	struct scram_secret of_plain;	/* verifier of a plain password */
	uint8_t of_plain_tag[32];	/* keyed digest of that password */
	bool has_plain;
	uint8_t of_secret[32];		/* keyed digest of the stored secret that the ClientKey belongs to */
	uint8_t salt[64];
	size_t salt_size;
	uint32_t iterations;		/* 0: no ClientKey kept */
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
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

/* One that is in no table. */
static void discard(struct server_keys *k, struct user_keys *u)
{
	set_password(k, u, NULL);
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

const struct scram_secret *keys_secret_of_plain(struct server_keys *k, const char *user, const char *password, uint32_t iterations)
{
	struct user_keys *u = get(k, user);
	struct scram_secret fresh;
	uint8_t now[32], salt[16];

	if (!u || !keys_tag(k, password, "", now))
		return NULL;
	if (u->has_plain && u->of_plain.iterations == iterations && mem_equal_constant_time(u->of_plain_tag, now, sizeof(now)))
		return &u->of_plain;
	if (RAND_bytes(salt, sizeof(salt)) != 1 || !scram_secret_derive(password, salt, sizeof(salt), iterations, &fresh))
		return NULL;
	u->of_plain = fresh;
	mem_wipe(&fresh, sizeof(fresh));
	memcpy(u->of_plain_tag, now, sizeof(now));
	u->has_plain = true;
	return &u->of_plain;
}

bool keys_keep(struct server_keys *k, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, const uint8_t client_key[SCRAM_KEY], const uint8_t server_key[SCRAM_KEY])
{
	struct user_keys *u = get(k, user);
	uint8_t of_secret[32];

	if (!u || salt_size > sizeof(u->salt) || !keys_tag(k, stored, "", of_secret))
		return false;
	/* the password that was remembered gives another ClientKey */
	if (memcmp(u->of_secret, of_secret, sizeof(of_secret)) != 0)
		u->has_proven = false;
	memcpy(u->of_secret, of_secret, sizeof(of_secret));
	memcpy(u->salt, salt, salt_size);
	u->salt_size = salt_size;
	u->iterations = iterations;
	memcpy(u->client_key, client_key, SCRAM_KEY);
	memcpy(u->server_key, server_key, SCRAM_KEY);
	return true;
}

bool keys_has(const struct server_keys *k, const char *user, const char *stored)
{
	const struct user_keys *u = find(k, user);
	uint8_t of_secret[32];

	return u && u->iterations != 0 && keys_tag(k, stored, "", of_secret) &&
	       mem_equal_constant_time(u->of_secret, of_secret, sizeof(of_secret));
}

bool keys_find(const struct server_keys *k, const char *user, const char *stored, const uint8_t *salt, size_t salt_size,
	       uint32_t iterations, uint8_t client_key[SCRAM_KEY], uint8_t server_key[SCRAM_KEY])
{
	const struct user_keys *u = find(k, user);

	if (!u || u->iterations != iterations || u->salt_size != salt_size || memcmp(u->salt, salt, salt_size) != 0 ||
	    !keys_has(k, user, stored))
		return false;
	memcpy(client_key, u->client_key, SCRAM_KEY);
	memcpy(server_key, u->server_key, SCRAM_KEY);
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

void keys_pack(struct bytes *out, const struct server_keys *k)
{
	pack_blob(out, k->seed, sizeof(k->seed));
	LIST_EACH(node, &k->by_use) {
		const struct user_keys *u = LIST_OBJECT(node, const struct user_keys, by_use);

		pack_text(out, u->name);
		pack_blob(out, u->of_secret, sizeof(u->of_secret));
		pack_blob(out, u->salt, u->salt_size);
		bytes_append_u32(out, u->iterations);
		pack_blob(out, u->client_key, sizeof(u->client_key));
		pack_blob(out, u->server_key, sizeof(u->server_key));
		pack_bool(out, u->has_proven);
		pack_blob(out, u->proven, sizeof(u->proven));
		pack_blob(out, u->password ? u->password->bytes : NULL, u->password ? u->password->length : 0);
	}
	pack_text(out, NULL);
}

static void unpack_user(struct unpack *in, struct server_keys *k, struct user_keys *u)
{
	const uint8_t *salt, *password;
	size_t size;

	unpack_exactly(in, u->of_secret, sizeof(u->of_secret));
	salt = unpack_blob(in, &size);
	in->bad |= size > sizeof(u->salt);
	if (salt && !in->bad)
		memcpy(u->salt, salt, size);
	u->salt_size = in->bad ? 0 : size;
	u->iterations = unpack_u32(in);
	unpack_exactly(in, u->client_key, sizeof(u->client_key));
	unpack_exactly(in, u->server_key, sizeof(u->server_key));
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
