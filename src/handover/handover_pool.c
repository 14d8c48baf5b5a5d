/*
 * The counters and keys of the process, databases and pools in a handover, and the walk over all pools, which determines the
 * order of the records.
 *
 * The configuration is not handed over: the new process reads its own. Therefore a database record says how its servers were
 * reached, to find out whether they still fit, and a pool is named by database and user.
 *
 * Records are sent in the order in which the lists of room pool are rebuilt: waiting clients from the first in the queue, idle
 * servers, with lists that grow at the front, from the last. A linked client follows its server.
 */
#include "handover/handover_parts.h"

#include "auth/unknown.h"
#include "backend/dial.h"
#include "backend/keys.h"
#include "backend/proven_secret.h"
#include "backend/secrets.h"
#include "conf/value.h"

#include <string.h>

/* ---- the process ---- */

/* Packs a separate part that is only compared, because it describes the other process's configuration. Frees it. */
static void pack_apart(struct bytes *out, struct bytes *apart)
{
	pack_blob(out, apart->data ? bytes_front(apart) : NULL, bytes_size(apart));
	out->failed |= apart->failed;
	bytes_wipe(apart);
}

/* Whether this process's part differs from the other process's part. Frees it. */
static bool differs(struct bytes *ours, const uint8_t *theirs, size_t size)
{
	bool differs = ours->failed || !theirs || bytes_size(ours) != size || memcmp(bytes_front(ours), theirs, size) != 0;

	bytes_wipe(ours);
	return differs;
}

/* Settings that replace TCP server connections when they change. A change between two processes replaces them too. Without TLS
   these settings have no effect. */
static struct bytes tls_of(const struct world *w)
{
	struct bytes out = BYTES_EMPTY;

	pack_bool(&out, w->server_tls != NULL);
	if (w->server_tls)
		value_rows_pack(&out, &setting_table, APPLIES_TCP_SERVERS, &w->conf->settings);
	return out;
}

/* Includes the names of the tracked parameters: untracked parameters stay in a session for the next client. */
static struct bytes logins_of(const struct world *w)
{
	struct bytes out = BYTES_EMPTY;

	value_rows_pack(&out, &setting_table, APPLIES_SERVERS, &w->conf->settings);
	for (int i = 0; i < params_count(w->params); i++)
		pack_text(&out, params_name(w->params, i));
	return out;
}

void world_pack(struct bytes *out, const struct world *w)
{
	struct bytes tls = tls_of(w), logins = logins_of(w);

	pack_u64(out, w->last_id);
	pack_u64(out, statements_last(w->statements));
	pack_bool(out, w->listening.inherited);
	pack_i64(out, w->pools->stats_at);
	bytes_append_u32(out, w->pools->last_dedicated);
	unknown_pack(out, w->unknown);
	pack_apart(out, &tls);
	pack_apart(out, &logins);
	pack_blob(out, w->seed, sizeof(w->seed));
	keys_pack(out, w->secrets->keys);
	keys_pack(out, w->secrets->found_keys);
}

void world_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	struct bytes tls = tls_of(w), logins = logins_of(w);
	const uint8_t *theirs;
	size_t size;

	in->bad |= h->has_world;
	h->has_world = true;
	w->last_id = unpack_u64(in);
	statements_begin_behind(w->statements, unpack_u64(in));
	w->listening.inherited = unpack_bool(in);
	w->pools->stats_at = unpack_i64(in);
	w->pools->last_dedicated = unpack_u32(in);
	unknown_unpack(in, w->unknown);
	theirs = unpack_blob(in, &size);
	h->tls_differs = differs(&tls, theirs, size);
	theirs = unpack_blob(in, &size);
	h->logins_differ = differs(&logins, theirs, size);
	unpack_exactly(in, w->seed, sizeof(w->seed));
	keys_unpack(in, w->secrets->keys);
	keys_unpack(in, w->secrets->found_keys);
}

/* ---- databases ---- */

/* Serialises where and how the database connects, including the password: the bytes are equal exactly if the databases of two
   processes connect to the same place in the same way. */
static void pack_connection(struct bytes *out, const struct conf_database *database)
{
	value_rows_pack(out, &database_table, APPLIES_SERVERS, database);
	pack_text(out, database->password ? database->password->bytes : NULL);
}

static bool database_send(struct sender *s, const struct database *d)
{
	struct bytes out = BYTES_EMPTY, connection = BYTES_EMPTY;
	bool sent;

	pack_connection(&connection, d->conf);
	pack_text(&out, d->name);
	pack_bool(&out, d->disabled);
	pack_bool(&out, d->served);
	pack_apart(&out, &connection);
#define X(name) pack_u64(&out, d->stats.total.name); pack_u64(&out, d->stats.newer.name); pack_u64(&out, d->stats.older.name);
	STATS_EACH(X)
#undef X
	pack_i64(&out, d->stats.newer_at);
	pack_i64(&out, d->stats.older_at);
	pack_u64(&out, d->statements);
	sent = records_send(s->to, HANDOVER_DATABASE, &out, -1, s->patience);
	bytes_wipe(&out);
	return sent;
}

void database_unpack(struct unpack *in, struct handover *h)
{
	struct world *w = h->world;
	const char *name = unpack_text(in);
	bool disabled = unpack_bool(in), served = unpack_bool(in);
	size_t size;
	const uint8_t *connection = unpack_blob(in, &size);
	struct bytes ours = BYTES_EMPTY;
	struct stats_history stats;
	struct database *d, **more;
	uint64_t statements;

#define X(name) stats.total.name = unpack_u64(in); stats.newer.name = unpack_u64(in); stats.older.name = unpack_u64(in);
	STATS_EACH(X)
#undef X
	stats.newer_at = unpack_i64(in);
	stats.older_at = unpack_i64(in);
	statements = unpack_u64(in);
	in->bad |= !name || !connection;
	if (in->bad)
		return;
	d = database_get(w->pools, name, w->now);
	/* the database is not in this configuration, so its connections do not fit either */
	if (!d)
		return;
	d->disabled = disabled;
	d->served = served;
	d->stats = stats;
	d->statements = statements;
	pack_connection(&ours, d->conf);
	if (!differs(&ours, connection, size) || d->is_console)
		return;
	/* its servers connect to another place than this configuration says */
	more = mem_resize(h->moved, (h->moved_count + 1) * sizeof(struct database *));
	in->bad |= !more;
	if (!more)
		return;
	h->moved = more;
	h->moved[h->moved_count++] = d;
}

/* ---- pools ---- */

void handover_pack_welcome(struct bytes *out, struct welcome *welcome)
{
	const struct bytes *messages = welcome ? welcome_messages(welcome) : NULL;

	pack_bool(out, welcome != NULL);
	if (messages)
		pack_blob(out, bytes_size(messages) > 0 ? bytes_front(messages) : NULL, bytes_size(messages));
}

struct welcome *handover_unpack_welcome(struct unpack *in, struct welcome *like)
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

static void server_info_pack(struct bytes *out, const struct params_table *table, struct server_info *info)
{
	pack_bool(out, info != NULL);
	if (!info)
		return;
	params_pack(out, table, info->reported.defaults);
	params_pack_bits(out, table, info->reported.known);
	handover_pack_welcome(out, info->reported.welcome);
	pack_text(out, info->failure.text);
	proven_secret_pack(out, info->proven.found);
	proven_secret_pack(out, info->proven.shown);
}

static void server_info_unpack(struct unpack *in, struct params_table *table, struct pool *pool)
{
	struct server_info *info;
	const struct params *defaults;

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
	params_drop(table, &info->reported.defaults);
	info->reported.defaults = defaults;
	info->reported.known = params_unpack_bits(in, table);
	welcome_drop(&info->reported.welcome);
	info->reported.welcome = handover_unpack_welcome(in, NULL);
	mem_free(info->failure.text);
	info->failure.text = mem_copy_string(unpack_text(in));
	proven_secret_unpack(in, &info->proven.found);
	proven_secret_unpack(in, &info->proven.shown);
}

static bool pool_record_send(struct sender *s, const struct pool *pool)
{
	const char *forced = pool->database->conf->user;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	pack_text(&out, pool->database->name);
	pack_text(&out, pool->user->name);
	/* a pool for auth_query: its user is not the user that the database forces on its clients */
	pack_bool(&out, forced && strcmp(forced, pool->user->name) != 0);
	pack_bool(&out, pool_mode_of(pool) == MODE_SESSION);
	pack_bool(&out, pool->login_failed);
	pack_i64(&out, pool->login_failed_at);
	pack_i64(&out, pool->login_failing_since);
	bytes_append_u8(&out, pool->login_failure);
	pack_bool(&out, pool->logins_succeeded > 0);
	pack_i64(&out, pool->last_lifetime_close);
	pack_i64(&out, pool->held_until);
	server_info_pack(&out, s->world->params, pool->server_cache);
	sent = records_send(s->to, HANDOVER_POOL, &out, -1, s->patience);
	bytes_wipe(&out);
	return sent;
}

/* Returns the pool with these names. NULL: it does not exist here, and h->no_place says why; or no memory. */
static struct pool *find_pool(struct handover *h, const char *database_name, const char *user_name, bool for_internal)
{
	struct world *w = h->world;
	struct database *d = database_get(w->pools, database_name, w->now);
	struct user *user = d ? user_get(w->pools, user_name) : NULL;
	struct pool *pool = user ? (for_internal ? pool_get_own : pool_get)(d, user, w->now) : NULL;

	h->no_place = REASON_NONE;
	if (!d)
		h->no_place = REASON_DATABASE_REMOVED;
	/* the database forces another user now */
	else if (pool && pool->user != user)
		h->no_place = REASON_DATABASE_CHANGED;
	return h->no_place == REASON_NONE ? pool : NULL;
}

void pool_unpack(struct unpack *in, struct handover *h)
{
	const char *database = unpack_text(in), *user = unpack_text(in);
	bool for_internal = unpack_bool(in), had_sessions = unpack_bool(in);

	h->pool = NULL;
	h->server = NULL;
	in->bad |= !database || !user;
	if (in->bad)
		return;
	h->pool = find_pool(h, database, user, for_internal);
	if (h->no_place != REASON_NONE) {
		in->at = in->end;
		return;
	}
	in->bad |= !h->pool;
	if (in->bad)
		return;
	h->mode_differs = had_sessions != (pool_mode_of(h->pool) == MODE_SESSION);
	h->pool->login_failed = unpack_bool(in);
	h->pool->login_failed_at = unpack_i64(in);
	h->pool->login_failing_since = unpack_i64(in);
	h->pool->login_failure = unpack_u8(in);
	h->pool->logins_succeeded = unpack_bool(in);
	h->pool->last_lifetime_close = unpack_i64(in);
	h->pool->held_until = unpack_i64(in);
	server_info_unpack(in, h->world->params, h->pool);
}

/* ---- the walk ---- */

static bool client_send_away(struct sender *s, struct list *node)
{
	struct pool_client *policy = LIST_OBJECT(node, struct pool_client, node);
	const struct client *c = policy->is_internal ? NULL : client_of(policy);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!c || !client_may_be_given(c))
		return true;
	if (!statements_of_client_send(s, c))
		return false;
	client_pack(&out, c);
	sent = records_send(s->to, HANDOVER_CLIENT, &out, c->peer.stream.fd, s->patience);
	bytes_wipe(&out);
	s->counts->clients++;
	return sent;
}

static bool server_send_away(struct sender *s, struct list *node)
{
	const struct server *server = server_of(LIST_OBJECT(node, struct pool_server, node));
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!server_may_be_given(server))
		return true;
	if (!statements_of_server_send(s, server))
		return false;
	server_pack(&out, server);
	sent = records_send(s->to, HANDOVER_SERVER, &out, server->peer.stream.fd, s->patience);
	bytes_wipe(&out);
	s->counts->servers++;
	return sent && (!server->pooled.link || client_send_away(s, &server->pooled.link->node));
}

static bool list_send(struct sender *s, const struct list *list, bool backwards, bool (*send)(struct sender *, struct list *))
{
	for (struct list *node = backwards ? list->prev : list->next; node != list; node = backwards ? node->prev : node->next)
		if (!send(s, node))
			return false;
	return true;
}

static bool pool_send(struct sender *s, const struct pool *pool)
{
	return pool_record_send(s, pool) &&
	       list_send(s, &pool->servers[SERVER_USED], true, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_IDLE], true, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_TESTED], false, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_LISTENING], false, server_send_away) &&
	       list_send(s, &pool->servers[SERVER_ACTIVE], false, server_send_away) &&
	       list_send(s, &pool->clients[CLIENT_IDLE], false, client_send_away) &&
	       list_send(s, &pool->clients[CLIENT_WAITING], false, client_send_away);
}

bool handover_send_pools(struct world *w, struct records *to, int patience, struct handover_counts *counts)
{
	struct sender s = { w, to, patience, counts, NULL };
	bool sent = true;

	/* stray databases have only connections of look-ups */
	for (const struct database *d = w->pools->databases; sent && d; d = d->hh.next)
		sent = d->removed || d->stray || database_send(&s, d);
	for (struct list *node = w->pools->all.next; sent && node != &w->pools->all; node = node->next) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);

		sent = pool->database->stray || pool_send(&s, pool);
	}
	sent = sent && records_send(to, HANDOVER_UNAUTHENTICATED, NULL, -1, patience) &&
	       list_send(&s, &w->pools->unauthenticated[CLIENT_STARTUP], false, client_send_away);
	known_statements_free(w->statements, &s.sent);
	return sent;
}
