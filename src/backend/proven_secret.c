/*
 * Secrets that logins have proven: secrets that auth_query has found, and passwords that PAM or LDAP has accepted. The pool whose servers are
 * logged in to with them keeps them, as long as it exists.
 *
 * A secret of auth_query belongs to the pool (database, user), not to the user name: the name may have another secret in another database, and a
 * database with a forced user has a pool of that user. The secret is stored only after the client has proven that it knows it. If the secret has
 * changed, the server refuses it, and the next login brings the new secret. A login may take long: a secret of an older look-up does not replace a
 * secret of a later one. For a SCRAM secret the ClientKey is stored with it (keys.c), for the same pool.
 *
 * PAM and LDAP have no secret that could be sent to a server, so the password itself is stored. The client has sent the password for one database.
 * The server of another database must not receive it, because that server may belong to another tenant and ask for the password in clear text.
 */
#include "backend/proven_secret.h"

#include "backend/server_info.h"
#include "base/mem.h"
#include "pg/scram.h"

#include <string.h>

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

static struct proven_secret *proven_secret_new(const struct secret *secret)
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

/* A server login that failed with another secret may succeed now. */
static void forgive(struct pool *pool)
{
	if (pool->login_failed && pool->login_failure == FAILURE_LASTING)
		pool_login_forgiven(pool);
}

void proven_secret_keep(struct pool *pool, struct world *w, const struct secret *secret, uint64_t answer)
{
	struct server_info *info = server_info_get(pool, w->params);
	uint8_t client_key[SCRAM_KEY], server_key[SCRAM_KEY];
	struct scram_secret scram;
	const char *user = pool->user->name;
	struct proven_secret *f;

	if (!info || secret->length == 0)
		return;
	if (!info->proven.found || !secret_is_same(info->proven.found->secret, secret)) {
		if (info->proven.found && answer < info->proven.found->answer)
			return;
		f = proven_secret_new(secret);
		if (!f)
			return;
		proven_secret_free(&info->proven.found);
		info->proven.found = f;
		forgive(pool);
	}
	f = info->proven.found;
	if (answer > f->answer)
		f->answer = answer;
	if (secret_kind_of(secret->bytes) != SECRET_SCRAM)
		return;
	/* the ClientKey that this login or an earlier login has revealed */
	if (scram_secret_read(f->secret->bytes, &scram) &&
	    keys_find(w->secrets->found_keys, user, f->secret->bytes, scram.salt, scram.salt_size, scram.iterations, client_key, server_key))
		keys_keep(f->keys, user, f->secret->bytes, scram.salt, scram.salt_size, scram.iterations, client_key, server_key);
	mem_wipe(&scram, sizeof(scram));
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
}

void shown_keep(struct pool *pool, struct world *w, const struct secret *password)
{
	struct server_info *info = server_info_get(pool, w->params);
	struct proven_secret *f;

	if (!info || (password && info->proven.shown && secret_is_same(info->proven.shown->secret, password)))
		return;
	f = password ? proven_secret_new(password) : NULL;
	if (password && !f)
		return;
	proven_secret_free(&info->proven.shown);
	if (!f)
		return;
	info->proven.shown = f;
	forgive(pool);
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
