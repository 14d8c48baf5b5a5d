/*
 * The facts that a pool has learned from its servers: the parameters of a new session, with which
 * clients are welcomed, the secrets that logins have proven, and the text of the last failed login.
 *
 * Invariant: the facts are about the servers that the pool's database names now. When a RELOAD
 * names other servers, the generation of the pool changes, and older facts are dropped, except for
 * the text of the last failed login, which is valid until the next login.
 */
#include "backend/server_info.h"

#include "backend/proven_secret.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "pg/scram.h"
#include "pool/role.h"
#include "sql/state_functions.h"

#include <string.h>

/* ---- what servers report at the login ---- */

/*
 * Parameters that a server has reported at its login and that are not tracked, as ParameterStatus
 * messages for its clients. Servers of a pool with equal values share one object.
 *
 * in_hot_standby is a property of the server; no session can set it.
 *
 * Invariant: `standby` is the value that a server with this object has reported last, until the
 * messages have it.
 */

/* The only parameter of the server itself: a standby has become the primary. */
#define STANDBY "in_hot_standby"

struct welcome *welcome_of(struct bytes *messages, struct welcome *like)
{
	size_t size = bytes_size(messages);
	struct welcome *made;

	if (like && !messages->failed && !like->standby && bytes_size(&like->messages) == size &&
	    (size == 0 || memcmp(bytes_front(&like->messages), bytes_front(messages), size) == 0)) {
		bytes_free(messages);
		like->users++;
		return like;
	}
	made = messages->failed ? NULL : mem_try(sizeof(*made));
	if (!made) {
		bytes_free(messages);
		return NULL;
	}
	made->users = 1;
	made->messages = *messages;
	*messages = (struct bytes)BYTES_EMPTY;
	return made;
}

void welcome_drop(struct welcome **place)
{
	struct welcome *welcome = *place;

	*place = NULL;
	if (!welcome || --welcome->users > 0)
		return;
	bytes_free(&welcome->messages);
	mem_free(welcome->standby);
	mem_free(welcome);
}

bool welcome_reported(struct welcome *welcome, const char *name, const char *value)
{
	char *copy;

	if (strcmp(name, STANDBY) != 0)
		return false;
	/* without memory clients get the older value */
	copy = mem_copy_string(value);
	if (copy) {
		mem_free(welcome->standby);
		welcome->standby = copy;
	}
	return true;
}

/* Inserts the reported value into the messages. */
static NEVER_INLINE void info_renew(struct welcome *welcome)
{
	struct bytes fresh = BYTES_EMPTY;
	struct pg_frames in = pg_frames_of(&welcome->messages);
	struct pg_frame f;

	/* another process may have written the messages: they may be incomplete */
	while (bytes_size(&welcome->messages) > 0 &&
	       pg_frames_next(&in, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct pg_cursor body = pg_cursor_of(f.body, f.size);
		const char *name = pg_read_string(&body);

		if (strcmp(name, STANDBY) == 0)
			pg_build_parameter_status(&fresh, name, welcome->standby);
		else
			bytes_append(&fresh, f.body - PG_HEADER, PG_HEADER + f.size);
	}
	mem_free(welcome->standby);
	welcome->standby = NULL;
	if (fresh.failed) {
		bytes_free(&fresh);
		return;
	}
	bytes_free(&welcome->messages);
	welcome->messages = fresh;
}

const struct bytes *welcome_messages(struct welcome *welcome)
{
	/* called for each login; usually nothing has been reported */
	if (welcome->standby)
		info_renew(welcome);
	return &welcome->messages;
}

/* ---- proven secrets ---- */

/*
 * Secrets that logins have proven: secrets that auth_query has found, and passwords that PAM or
 * LDAP has accepted. They are kept as long as the pool whose servers they are for; for pools at
 * several hosts, as long as their parent.
 *
 * A secret of auth_query belongs to the pool (database, user), not to the user name: the name may
 * have another secret in another database, and a database with a forced user has a pool of that
 * user. The secret is stored only after the client has proven that it knows it. If the secret has
 * changed, the server refuses it, and the next login brings the new secret. A login may take long:
 * a secret of an older look-up does not replace a secret of a later one. For a SCRAM secret the
 * ClientKey is stored with it (keys.c), for the same pool.
 *
 * PAM and LDAP have no secret that could be sent to a server, so the password itself is stored. The
 * client has sent the password for one database. The server of another database must not receive
 * it, because that server may belong to another tenant and ask for the password in clear text.
 */

/* Wipes and frees. *place may be NULL, and is NULL afterwards. */
static void proven_secret_free(struct proven_secret **place)
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
static void forgive(struct pool *parent)
{
	LIST_EACH(node, &parent->database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		if (pool->parent == parent && pool->login_failed &&
		    pool->login_failure == FAILURE_LASTING)
			pool_login_forgiven(pool);
	}
}

void proven_secret_keep(struct pool *pool, struct world *w, const struct secret *secret,
			uint64_t answer)
{
	struct server_info *info = server_info_get(pool->parent, w->params);
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
		forgive(pool->parent);
	}
	f = info->proven.found;
	if (answer > f->answer)
		f->answer = answer;
	if (secret_kind_of(secret->bytes) != SECRET_SCRAM)
		return;
	/* the ClientKey that this login or an earlier login has revealed */
	if (scram_secret_read(f->secret->bytes, &scram) &&
	    keys_find(w->logins.secrets->found_keys, user, f->secret->bytes, scram.salt,
		      scram.salt_size, scram.iterations, client_key, server_key))
		keys_keep(f->keys, user, f->secret->bytes, scram.salt, scram.salt_size,
			  scram.iterations, client_key, server_key, true);
	mem_wipe(&scram, sizeof(scram));
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
}

void shown_keep(struct pool *pool, struct world *w, const struct secret *password)
{
	struct server_info *info = server_info_get(pool->parent, w->params);
	struct proven_secret *f;

	if (!info || (password && info->proven.shown &&
		      secret_is_same(info->proven.shown->secret, password)))
		return;
	f = password ? proven_secret_new(password) : NULL;
	if (password && !f)
		return;
	proven_secret_free(&info->proven.shown);
	if (!f)
		return;
	info->proven.shown = f;
	forgive(pool->parent);
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

/* ---- the facts ---- */

struct server_info *server_info_get(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->server_info;

	if (info && info->generation != pool->generation) {
		/* after a RELOAD the pool has other servers */
		params_drop(table, &info->reported.defaults);
		welcome_drop(&info->reported.welcome);
		info->reported.defaults = params_none(table);
		info->reported.known = 0;
		hosts_clear(&info->hosts);
		database_functions_drop(&info->functions);
		info->generation = pool->generation;
	}
	if (info || !(info = mem_try(sizeof(*info))))
		return info;
	info->reported.defaults = params_none(table);
	info->generation = pool->generation;
	pool->server_info = info;
	return info;
}

void server_info_free(struct pool *pool, struct params_table *table)
{
	struct server_info *info = pool->server_info;

	if (!info)
		return;
	proven_secret_free(&info->proven.found);
	proven_secret_free(&info->proven.shown);
	params_drop(table, &info->reported.defaults);
	welcome_drop(&info->reported.welcome);
	hosts_clear(&info->hosts);
	database_functions_drop(&info->functions);
	ASSERT(!info->notify_server);
	mem_free(info->failure.text);
	mem_free(info);
	pool->server_info = NULL;
}

void database_functions_drop(struct database_functions **place)
{
	struct database_functions *f = *place;

	*place = NULL;
	if (!f || --f->pools > 0)
		return;
	state_functions_free(&f->all);
	mem_free(f);
}

/* A refusal by the server and an invalid answer are lasting failures. Other failures may end
   without a change of the configuration. */
static enum login_failure failure_of(const struct server *s, enum close_reason why)
{
	/* the login was successful, but the server cannot be used; or its host goes down */
	if (!s->dial)
		return s->pooled.pool->host && why == REASON_SERVER_CRASHED ? FAILURE_AWAY
									    : FAILURE_LASTING;
	if (s->dial->refusal != SERVER_REFUSAL_OTHER)
		return s->dial->refusal == SERVER_REFUSAL_FULL ? FAILURE_FULL : FAILURE_BUSY;
	switch (why) {
	case REASON_CONNECT_FAILED:
	case REASON_SERVER_CRASHED:
		return FAILURE_AWAY;
	case REASON_CONNECT_TIMED_OUT:
	case REASON_CONNECT_TIMEOUT:
	case REASON_DNS_FAILED:
	case REASON_SERVER_TLS:
	case REASON_NO_MEMORY:
		return FAILURE_PASSING;
	default:
		return FAILURE_LASTING;
	}
}

bool server_info_failed(struct server *s, enum close_reason why, const char *text,
			enum login_failure *failed)
{
	struct pool *pool = s->pooled.pool;
	struct server_info *info = server_info_get(pool, s->peer.world->params);
	enum login_failure failure;

	/* no fault of the server: policy, an administrator, a client or another primary has ended
	   the login, which says nothing about the server */
	if ((close_reason_rows[why].fault == FAULT_POLICY && why != REASON_CONNECT_TIMEOUT) ||
	    close_reason_rows[why].fault == FAULT_CLIENT || why == REASON_HOST_ROLE)
		return false;
	/* a RELOAD or a changed address has given the pool other servers meanwhile */
	if (s->pooled.close_reason != REASON_NONE ||
	    (s->dial && s->dial->generation != pool->generation))
		return false;
	failure = *failed = failure_of(s, why);
	/* for an outdated secret the server would have answered with this SQLSTATE */
	if (info && why != REASON_SERVER_SAID)
		text_copy(info->failure.sqlstate, sizeof(info->failure.sqlstate),
			  why == REASON_SERVER_SECRET_OLD ? close_reason_rows[why].sqlstate : "");
	/* the server may accept other clients than this replication client */
	if (s->pooled.dedicated && failure == FAILURE_LASTING && why == REASON_SERVER_SAID)
		return true;
	if (info) {
		mem_free(info->failure.text);
		info->failure.text = mem_copy_string(text);
		info->failure.refused = why == REASON_SERVER_SAID;
	}
	if (s->dial)
		hosts_note(s, HOST_FAILS);
	/* the clients wait for a host, not for this one; after no answer or no address, the next
	   question shows whether the host lives */
	if (pool->host && (failure == FAILURE_AWAY || failure == FAILURE_BUSY)) {
		host_note_failure(pool->host, text, s->peer.world->now);
		return true;
	}
	if (pool->host)
		host_doubt(pool->host, s->peer.world->now);
	if (failure == FAILURE_LASTING)
		pool_server_refused(&s->pooled);
	/* invalid_catalog_name: a client has mistyped the name, or the database is created later */
	if (pool->database->automatic && info && strcmp(info->failure.sqlstate, "3D000") == 0)
		failure = FAILURE_MISSING;
	pool_login_failed(pool, failure, s->peer.world->now);
	return true;
}

const char *pool_login_error(const struct pool *pool)
{
	const struct server_info *info = pool->server_info;

	return info ? info->failure.text : NULL;
}

/* ---- the handover ---- */

static void welcome_pack(struct bytes *out, struct welcome *welcome)
{
	const struct bytes *messages = welcome ? welcome_messages(welcome) : NULL;

	pack_bool(out, welcome != NULL);
	if (messages)
		pack_blob(out, bytes_size(messages) > 0 ? bytes_front(messages) : NULL,
			  bytes_size(messages));
}

/* `like`: see welcome_of(). */
static struct welcome *welcome_unpack(struct unpack *in, struct welcome *like)
{
	struct bytes messages = BYTES_EMPTY;
	struct welcome *welcome;
	const uint8_t *from;
	size_t size;

	if (!unpack_bool(in))
		return NULL;
	from = unpack_blob(in, &size);
	if (in->bad)
		return NULL;
	bytes_append(&messages, from, size);
	welcome = welcome_of(&messages, like);
	in->bad |= !welcome;
	return welcome;
}

void server_info_pack(struct bytes *out, const struct pool *pool, const struct params_table *table)
{
	const struct server_info *info = pool->server_info;

	pack_bool(out, info != NULL);
	if (!info)
		return;
	params_pack(out, table, info->reported.defaults);
	params_pack_bits(out, table, info->reported.known);
	welcome_pack(out, info->reported.welcome);
	pack_text(out, info->failure.text);
	proven_secret_pack(out, info->proven.found);
	proven_secret_pack(out, info->proven.shown);
}

void server_info_unpack(struct unpack *in, struct pool *pool, struct params_table *table)
{
	const struct params *defaults;
	struct server_info *info;

	if (!unpack_bool(in))
		return;
	info = server_info_get(pool, table);
	defaults = params_unpack(in, table);
	in->bad |= !info || !defaults;
	if (in->bad) {
		if (defaults)
			params_drop(table, &defaults);
		return;
	}
	params_replace(table, &info->reported.defaults, defaults);
	info->reported.known = params_unpack_bits(in, table);
	welcome_drop(&info->reported.welcome);
	info->reported.welcome = welcome_unpack(in, NULL);
	mem_free(info->failure.text);
	info->failure.text = mem_copy_string(unpack_text(in));
	proven_secret_unpack(in, &info->proven.found);
	proven_secret_unpack(in, &info->proven.shown);
}

void server_welcome_pack(struct bytes *out, const struct server *s)
{
	welcome_pack(out, s->welcome);
}

void server_welcome_unpack(struct unpack *in, struct server *s)
{
	const struct server_info *info = s->pooled.pool->server_info;

	s->welcome = welcome_unpack(in, info ? info->reported.welcome : NULL);
	in->bad |= !s->welcome;
}
