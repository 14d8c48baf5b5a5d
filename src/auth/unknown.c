/*
 * Imitation of known users for names that do not exist.
 *
 * Several logins with one name must not reveal whether it exists. A user that exists on a server
 * has the same secret wherever this server answers the look-up, and no secret where no look-up is
 * answered: in a database that does not exist, or on the console. Therefore a made-up secret
 * depends on the name and on the server that answered. All databases of a server are assumed to
 * have the same users.
 *
 * The kinds of made-up secrets follow the kinds of secrets with which users of that server have
 * logged in. A look-up without a successful login does not count, otherwise any client could
 * distort the proportions by causing look-ups. Each user counts once, and at most USERS_MOST per
 * server.
 *
 * For a made-up secret that imitates a password in clear text a key is derived once, because the
 * first login of a known user with such a password takes that time. Bits that a keyed digest
 * selects record this, so that other names cannot evict it.
 *
 * Each name of a source has a key, and each property of the made-up secret is a digest under that
 * key, so that a visible property (the salt) reveals nothing about the others. A property with a
 * distribution is a number on a scale of 2^32: the property of a name changes only if the
 * distribution changes.
 */
#include "auth/unknown.h"

#include "auth/login_state.h"
#include "backend/keys.h"
#include "base/hash.h"
#include "base/mem.h"
#include "pg/scram.h"

#include <stdio.h>
#include <string.h>

#define USERS_MOST 4096
#define ITERATIONS 4096			/* the default of PostgreSQL, if no users are counted */
#define DERIVED_BITS (1u << 20)
#define DERIVED_PLACES 4

/* The properties of a secret that a client can see. */
struct secret_shape {
	bool is_scram;
	uint8_t salt_size;		/* of SCRAM */
	uint32_t iterations;
};

struct unknown_source {
	struct secret_kinds kinds;
	uint32_t users;
	UT_hash_handle hh;
	char name[];			/* host and port */
};

struct user_shape {
	UT_hash_handle hh;
	uint64_t tag;			/* keyed digest of source and user */
	struct unknown_source *source;
	struct secret_shape shape;
};

struct unknown {
	struct unknown_source *sources;
	struct user_shape *users;
	struct secret_kinds all;	/* of all sources */
	uint8_t derived[DERIVED_BITS / 8];
};

struct unknown *unknown_new(void)
{
	return mem_try(sizeof(struct unknown));
}

void unknown_free(struct unknown **unknown)
{
	struct unknown *u = *unknown;
	struct unknown_source *source, *next;
	struct user_shape *user, *next_user;

	if (!u)
		return;
	HASH_ITER(hh, u->users, user, next_user) {
		HASH_DEL(u->users, user);
		mem_free(user);
	}
	HASH_ITER(hh, u->sources, source, next) {
		HASH_DEL(u->sources, source);
		mem_free(source);
	}
	mem_free(u);
	*unknown = NULL;
}

/* ---- counting ---- */

/* False: the secret is empty or unusable, and no login succeeds with it. */
static bool shape_of(const struct secret *secret, struct secret_shape *shape)
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

static void add_shape(struct secret_kinds *kinds, const struct secret_shape *shape)
{
	int at = 0;

	kinds->all++;
	if (!shape->is_scram)
		return;
	kinds->scram++;
	while (at < SECRET_SHAPES && kinds->shapes[at].count > 0 &&
	       (kinds->shapes[at].iterations < shape->iterations ||
		(kinds->shapes[at].iterations == shape->iterations &&
		 kinds->shapes[at].salt_size < shape->salt_size)))
		at++;
	if (at < SECRET_SHAPES && kinds->shapes[at].count > 0 &&
	    kinds->shapes[at].iterations == shape->iterations &&
	    kinds->shapes[at].salt_size == shape->salt_size) {
		kinds->shapes[at].count++;
		return;
	}
	if (kinds->shapes[SECRET_SHAPES - 1].count > 0) {
		kinds->shapes[0].count++;
		return;
	}
	memmove(&kinds->shapes[at + 1], &kinds->shapes[at],
		(size_t)(SECRET_SHAPES - 1 - at) * sizeof(kinds->shapes[0]));
	kinds->shapes[at].iterations = shape->iterations;
	kinds->shapes[at].salt_size = shape->salt_size;
	kinds->shapes[at].count = 1;
}

void unknown_count_secret(struct secret_kinds *kinds, const struct secret *secret)
{
	struct secret_shape shape;

	if (shape_of(secret, &shape))
		add_shape(kinds, &shape);
}

static struct unknown_source *source_get(struct unknown *u, const char *name)
{
	struct unknown_source *source;
	size_t length = strlen(name);

	HASH_FIND(hh, u->sources, name, length, source);
	if (source || !(source = mem_try(sizeof(*source) + length + 1)))
		return source;
	memcpy(source->name, name, length + 1);
	HASH_ADD_KEYPTR(hh, u->sources, source->name, length, source);
	if (HASH_HAS(hh, source))
		return source;
	mem_free(source);
	return NULL;
}

struct unknown_source *unknown_source_of(struct unknown *u, const struct pool *pool)
{
	const struct conf_database *conf = pool->database->conf;
	const char *host = conf->host ? conf->host : "";
	size_t size = strlen(host) + strlen(conf->port) + 2;
	char *name = mem_try(size);
	struct unknown_source *source;

	if (!name)
		return NULL;
	snprintf(name, size, "%s:%s", host, conf->port);
	source = source_get(u, name);
	mem_free(name);
	return source;
}

/* Counts the kind of a user's secret. */
static void unknown_count(struct unknown *u, struct unknown_source *source, uint64_t tag,
			  const struct secret_shape *shape)
{
	struct user_shape *user;

	HASH_FIND(hh, u->users, &tag, sizeof(tag), user);
	if (user && (user->shape.is_scram != shape->is_scram ||
		     user->shape.iterations != shape->iterations ||
		     user->shape.salt_size != shape->salt_size)) {
		/* the user has a new secret: counts all users again */
		user->shape = *shape;
		source = user->source;
		source->kinds = u->all = (struct secret_kinds){ .all = 0 };
		for (const struct user_shape *each = u->users; each; each = each->hh.next) {
			add_shape(&u->all, &each->shape);
			if (each->source == source)
				add_shape(&source->kinds, &each->shape);
		}
	}
	if (user || source->users >= USERS_MOST || !(user = mem_try(sizeof(*user))))
		return;
	user->tag = tag;
	user->source = source;
	user->shape = *shape;
	HASH_ADD(hh, u->users, tag, sizeof(user->tag), user);
	if (!HASH_HAS(hh, user)) {
		mem_free(user);
		return;
	}
	source->users++;
	add_shape(&source->kinds, shape);
	add_shape(&u->all, shape);
}

void unknown_user_proven(struct world *w, struct unknown_source *source, const char *user,
			 const struct secret *secret)
{
	struct secret_shape shape;
	uint8_t key[SHA256_SIZE];
	uint64_t tag;

	if (!source || !shape_of(secret, &shape) ||
	    !digest_hmac_texts(w->seed, source->name, user, key))
		return;
	memcpy(&tag, key, sizeof(tag));
	mem_wipe(key, sizeof(key));
	unknown_count(w->logins.unknown, source, tag, &shape);
}

/* ---- drawing ---- */

/* The secrets of the users that unknown users imitate. */
static const struct secret_kinds *kinds_for(const struct client *c)
{
	const struct world *w = c->peer.world;

	if (c->login->source)
		return &c->login->source->kinds;
	/* also where no look-up is possible, because the database does not exist */
	return login_user_was_looked_up(c->login) || w->conf->settings.auth_user
		       ? &w->logins.unknown->all
		       : &w->logins.secrets->kinds;
}

/* Returns the key of all values that are made up for the client's name, which is constant during
   the login. NULL: no memory. */
static const uint8_t *key_for(const struct client *c)
{
	struct login *l = c->login;

	if (!l->has_unknown_key)
		l->has_unknown_key = digest_hmac_texts(c->peer.world->seed,
						       l->source ? l->source->name : "", l->user,
						       l->unknown_key);
	return l->has_unknown_key ? l->unknown_key : NULL;
}

/* Computes a digest of the name for this purpose. */
static bool unknown_draw(const char *purpose, const uint8_t key[SHA256_SIZE],
			 uint8_t digest[SHA256_SIZE])
{
	return digest_hmac_sha256(key, SHA256_SIZE, purpose, strlen(purpose), digest);
}

/* Draws a number below `total`; 0 if `total` is 0. */
static bool draw_below(const char *purpose, const uint8_t key[SHA256_SIZE], uint32_t total,
		       uint32_t *drawn)
{
	uint8_t digest[SHA256_SIZE];
	uint32_t place;

	if (!unknown_draw(purpose, key, digest))
		return false;
	memcpy(&place, digest, sizeof(place));
	*drawn = (uint32_t)((uint64_t)place * total >> 32);
	return true;
}

bool unknown_is_scram(const struct client *c)
{
	const struct secret_kinds *kinds = kinds_for(c);
	const uint8_t *key = key_for(c);
	uint32_t drawn;

	if (!key)
		return false;
	/* the same share of names as of known users; SCRAM, the default of PostgreSQL, until a
	   secret is known */
	return (draw_below("kind of secret", key, kinds->all, &drawn) && drawn < kinds->scram) ||
	       (kinds != &c->peer.world->logins.secrets->kinds && kinds->all == 0);
}

bool unknown_secret(const struct client *c, uint32_t plain_iterations, struct scram_secret *out,
		    bool *is_plain, uint8_t plain_salt[MOCK_SALT])
{
	const struct secret_kinds *kinds = kinds_for(c);
	const uint8_t *key = key_for(c);
	uint32_t plain = plain_iterations > 0 ? kinds->all - kinds->scram : 0,
		 total = plain + kinds->scram, drawn;
	uint8_t digest[2 * SHA256_SIZE];
	int at = 0;

	_Static_assert(SCRAM_SALT_MAX <= 2 * SHA256_SIZE, "two digests make the longest salt");
	_Static_assert(MOCK_SALT <= SHA256_SIZE, "a digest makes a salt");
	memset(out, 0, sizeof(*out));
	out->iterations = plain_iterations > 0 && kinds->all > 0 ? plain_iterations : ITERATIONS;
	out->salt_size = MOCK_SALT;
	if (!key || !draw_below("shape of secret", key, total, &drawn))
		return false;
	*is_plain = drawn < plain;
	if (total > 0 && !*is_plain) {
		for (drawn -= plain; at < SECRET_SHAPES - 1 && drawn >= kinds->shapes[at].count;
		     at++)
			drawn -= kinds->shapes[at].count;
		out->iterations = kinds->shapes[at].iterations;
		out->salt_size = kinds->shapes[at].salt_size;
	}
	/* the exchange refuses every proof with any keys */
	if (!unknown_draw("salt", key, digest) ||
	    !unknown_draw("rest of the salt", key, digest + SHA256_SIZE) ||
	    !unknown_draw("stored key", key, out->stored_key) ||
	    !unknown_draw("server key", key, out->server_key))
		return false;
	memcpy(out->salt, digest, out->salt_size);
	if (plain_salt)
		memcpy(plain_salt, digest, MOCK_SALT);
	return true;
}

/* ---- derived secrets ---- */

bool unknown_derived(const struct client *c, uint32_t iterations, bool is_new)
{
	uint8_t *bits = c->peer.world->logins.unknown->derived, digest[SHA256_SIZE];
	const uint8_t *key = key_for(c);
	uint32_t places[DERIVED_PLACES];
	bool was = key &&
		   digest_hmac_sha256(key, SHA256_SIZE, &iterations, sizeof(iterations), digest);

	if (!was)
		return false;
	/* the bits of this name and count */
	memcpy(places, digest, sizeof(places));
	for (int i = 0; i < DERIVED_PLACES; i++) {
		was = was && bits[places[i] % DERIVED_BITS / 8] >> places[i] % 8 & 1;
		if (is_new)
			bits[places[i] % DERIVED_BITS / 8] |= (uint8_t)(1u << places[i] % 8);
	}
	return was;
}

/* ---- to another process ---- */

void unknown_pack(struct bytes *out, const struct unknown *u)
{
	for (const struct user_shape *user = u->users; user; user = user->hh.next) {
		pack_text(out, user->source->name);
		pack_u64(out, user->tag);
		pack_bool(out, user->shape.is_scram);
		bytes_append_u32(out, user->shape.iterations);
		bytes_append_u8(out, user->shape.salt_size);
	}
	pack_text(out, NULL);
}

void unknown_unpack(struct unpack *in, struct unknown *u)
{
	const char *name;

	while ((name = unpack_text(in)) != NULL && !in->bad) {
		struct unknown_source *source = source_get(u, name);
		uint64_t tag = unpack_u64(in);
		struct secret_shape shape = { .is_scram = unpack_bool(in) };

		shape.iterations = unpack_u32(in);
		shape.salt_size = unpack_u8(in);
		in->bad |= !source ||
			   (shape.is_scram && (shape.iterations == 0 || shape.salt_size == 0 ||
					       shape.salt_size > SCRAM_SALT_MAX));
		if (!in->bad)
			unknown_count(u, source, tag, &shape);
	}
}
