/*
 * Secrets that logins have proven: what auth_query has found, and passwords that PAM or LDAP has found right. The pool that needs
 * them keeps them, for as long as it lives.
 *
 * A client that is looked up brings the only secret with which a server of its pool can be logged in to:
 * its own. It belongs to the pool, (database, user), and not to the name: the same name may have another
 * secret in another database, and a database that forces a user on its clients has a pool that is not
 * theirs, where their secrets have no business. It is kept only after the client has proven to know it.
 * When it has been changed since, the server says so, and the next login brings the new one. A login may take long: one that
 * was looked up before the change and ends after another's has nothing new to tell.
 *
 * With a SCRAM secret it is the ClientKey that logs in (keys.c), and it is the pool's for the same reasons.
 *
 * PAM and LDAP leave no secret behind that a server could be shown. There the password itself is kept. It was sent to be used in one
 * database, and the server of another one must not get it: that may belong to a tenant and ask for it in clear text.
 */
#include "backend/found.h"

#include "backend/lore.h"
#include "base/mem.h"

#include <string.h>

const struct found *found_of(const struct pool *pool)
{
	const struct pool_lore *lore = pool->session;

	return lore ? lore->found : NULL;
}

void found_free(struct found **place)
{
	struct found *f = *place;

	if (!f)
		return;
	*place = NULL;
	secret_free(&f->secret);
	keys_free(&f->keys);
	mem_free(f);
}

static struct found *found_new(const struct secret *secret)
{
	struct found *f = mem_try(sizeof(*f));

	if (!f)
		return NULL;
	f->secret = secret_new(secret->bytes, secret->length);
	f->keys = keys_new(1);
	if (!f->secret || !f->keys)
		found_free(&f);
	return f;
}

/* The ClientKey that this login has revealed, or an earlier one. */
static void keep_keys(const struct found *f, const struct server_keys *proven, const char *user)
{
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct scram_secret scram;

	if (scram_secret_read(f->secret->bytes, &scram) &&
	    keys_find(proven, user, f->secret->bytes, scram.salt, scram.salt_size, scram.iterations, client_key, server_key))
		keys_keep(f->keys, user, f->secret->bytes, scram.salt, scram.salt_size, scram.iterations, client_key, server_key);
	mem_wipe(&scram, sizeof(scram));
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
}

/* A login at a server that failed with another secret. */
static void forgive(struct pool *pool)
{
	if (pool->login_failed && pool->login_failure == FAILURE_LASTING)
		pool_login_forgiven(pool);
}

void found_keep(struct pool *pool, struct world *w, const struct secret *secret, uint64_t answer)
{
	struct pool_lore *lore = pool_lore_get(pool, w);
	struct found *f;

	if (!lore || secret->length == 0)
		return;
	if (!lore->found || !secret_is_same(lore->found->secret, secret)) {
		if (lore->found && answer < lore->found->answer)
			return;
		f = found_new(secret);
		if (!f)
			return;
		found_free(&lore->found);
		lore->found = f;
		forgive(pool);
	}
	if (answer > lore->found->answer)
		lore->found->answer = answer;
	if (secret_kind_of(secret->bytes) == SECRET_SCRAM)
		keep_keys(lore->found, w->found_keys, pool->user->name);
}

const struct found *shown_of(const struct pool *pool)
{
	const struct pool_lore *lore = pool->session;

	return lore ? lore->shown : NULL;
}

void shown_keep(struct pool *pool, struct world *w, const struct secret *password)
{
	struct pool_lore *lore = pool_lore_get(pool, w);
	struct found *f;

	if (!lore || (lore->shown && secret_is_same(lore->shown->secret, password)))
		return;
	f = found_new(password);
	if (!f)
		return;
	found_free(&lore->shown);
	lore->shown = f;
	forgive(pool);
}

void shown_forget(struct pool *pool)
{
	struct pool_lore *lore = pool->session;

	if (lore)
		found_free(&lore->shown);
}

void found_pack(struct bytes *out, const struct found *f)
{
	pack_bool(out, f != NULL);
	if (!f)
		return;
	pack_blob(out, f->secret->bytes, f->secret->length);
	keys_pack(out, f->keys);
}

void found_unpack(struct unpack *in, struct found **place)
{
	struct found *f;
	size_t size;
	const uint8_t *bytes;

	if (!unpack_bool(in))
		return;
	bytes = unpack_blob(in, &size);
	f = mem_try(sizeof(*f));
	in->bad |= !f || !bytes;
	if (in->bad) {
		mem_free(f);
		return;
	}
	f->secret = secret_new(bytes, size);
	f->keys = keys_new(1);
	in->bad |= !f->secret || !f->keys;
	if (!in->bad)
		keys_unpack(in, f->keys);
	found_free(place);
	*place = f;
}
