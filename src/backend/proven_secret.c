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
#include "backend/proven_secret.h"

#include "backend/secrets.h"
#include "backend/server_info.h"
#include "base/mem.h"

#include <string.h>

const struct proven_secret *proven_secret_of(const struct pool *pool)
{
	const struct server_info *info = pool->server_cache;

	return info ? info->proven.found : NULL;
}

void proven_secret_free(struct proven_secret **place)
{
	struct proven_secret *f = *place;

	if (!f)
		return;
	*place = NULL;
	secret_free(&f->secret);
	keys_free(&f->keys);
	mem_free(f);
}

static struct proven_secret *found_new(const struct secret *secret)
{
	struct proven_secret *f = mem_try(sizeof(*f));

	if (!f)
		return NULL;
	f->secret = secret_new(secret->bytes, secret->length);
	f->keys = keys_new(1);
	if (!f->secret || !f->keys)
		proven_secret_free(&f);
	return f;
}

/* The ClientKey that this login has revealed, or an earlier one. */
static void keep_keys(const struct proven_secret *f, const struct server_keys *proven, const char *user)
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

void proven_secret_keep(struct pool *pool, struct world *w, const struct secret *secret, uint64_t answer)
{
	struct server_info *info = server_info_get(pool, w->params);
	struct proven_secret *f;

	if (!info || secret->length == 0)
		return;
	if (!info->proven.found || !secret_is_same(info->proven.found->secret, secret)) {
		if (info->proven.found && answer < info->proven.found->answer)
			return;
		f = found_new(secret);
		if (!f)
			return;
		proven_secret_free(&info->proven.found);
		info->proven.found = f;
		forgive(pool);
	}
	if (answer > info->proven.found->answer)
		info->proven.found->answer = answer;
	if (secret_kind_of(secret->bytes) == SECRET_SCRAM)
		keep_keys(info->proven.found, w->secrets->found_keys, pool->user->name);
}

const struct proven_secret *shown_of(const struct pool *pool)
{
	const struct server_info *info = pool->server_cache;

	return info ? info->proven.shown : NULL;
}

void shown_keep(struct pool *pool, struct world *w, const struct secret *password)
{
	struct server_info *info = server_info_get(pool, w->params);
	struct proven_secret *f;

	if (!info || (info->proven.shown && secret_is_same(info->proven.shown->secret, password)))
		return;
	f = found_new(password);
	if (!f)
		return;
	proven_secret_free(&info->proven.shown);
	info->proven.shown = f;
	forgive(pool);
}

void shown_forget(struct pool *pool)
{
	struct server_info *info = pool->server_cache;

	if (info)
		proven_secret_free(&info->proven.shown);
}

void proven_secret_pack(struct bytes *out, const struct proven_secret *f)
{
	pack_bool(out, f != NULL);
	if (!f)
		return;
	pack_blob(out, f->secret->bytes, f->secret->length);
	keys_pack(out, f->keys);
}

void proven_secret_unpack(struct unpack *in, struct proven_secret **place)
{
	struct proven_secret *f;
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
	proven_secret_free(place);
	*place = f;
}
