/*
 * The query of a look-up: it is sent on a server that is lent to it, and its answer is read. The query and its answer are defined in
 * pg/authquery.c.
 */
#include "auth/lookup_parts.h"

#include "state/role.h"
#include "backend/server_info.h"
#include "state/task.h"
#include "base/log.h"
#include "base/printable.h"
#include "conn/journal.h"

#include <string.h>

#define FRAME_MOST (AUTHQUERY_SECRET_MOST + 1024)	/* longest message of an answer: a name and a secret, or an error */
#define PARAMS_MOST (64 + 2 * PARAMS_OTHERS_MOST)	/* an earlier process may have tracked some of the others */
#define LASTS_MOST (15 * USEC)		/* where no setting says how long a query may last */

/* Names of the parameters in which the session of this server may differ from a fresh one. */
static size_t changed_params(const struct server *s, const char *names[PARAMS_MOST])
{
	struct world *w = s->peer.world;
	const struct server_info *info = server_info_get(s->pooled.pool, w->params);
	size_t count = 0;

	for (int i = 0; info && i < params_count(w->params) && count < PARAMS_MOST; i++) {
		const char *has = params_get(s->params, i), *fresh = params_get(info->reported.defaults, i);

		if (i != PARAM_SEARCH_PATH && i != PARAM_CLIENT_ENCODING && has && (!fresh || strcmp(has, fresh) != 0))
			names[count++] = params_name(w->params, i);
	}
	for (size_t i = 0; i < params_others(s->params) && count < PARAMS_MOST; i++)
		if (strcmp(params_other(s->params, i).name, PARAMS_ROLE) != 0)
			names[count++] = params_other(s->params, i).name;
	return count;
}

static bool send_batch(struct lookup *l, struct server *s)
{
	const char *names[PARAMS_MOST];
	size_t count = changed_params(s, names);
	struct bytes out = BYTES_EMPTY, role = BYTES_EMPTY;
	bool sent;

	if (s->role)
		role_sql(s, true, &role);
	bytes_append_u8(&role, 0);
	if (!role.failed)
		authquery_build(&l->answer, &out, l->sql, names, count, s->role ? (const char *)bytes_front(&role) : NULL);
	out.failed |= role.failed;
	bytes_free(&role);
	sent = journal_send(s, MARK_TASK, &out);
	bytes_free(&out);
	return sent;
}

static enum task_end lookup_done(struct server *s, bool failed)
{
	(void)failed;
	if (pool_is_unwanted(s->pooled.pool)) {
		server_end(s, REASON_LOOKUP_OVER, NULL);
		return TASK_END_NOTHING;
	}
	/* what a function of auth_query has left in the session belongs to no client */
	s->needs_reset = server_wants_reset(s, pool_mode_of(s->pooled.pool) == MODE_SESSION);
	return TASK_END_RELEASE;
}

static const struct server_task task_lookup = {
	.name = "auth_query", .words = "auth_query", .states = TASK_IN(LOOKUP), .on_done = lookup_done,
};

void lookup_run(struct lookup *l, struct server *s)
{
	struct world *w = l->world;
	char who[256], user[PRINTABLE_NAME];

	pool_unlink(&s->pooled, SERVER_LOOKUP, true, w->now);
	lookup_request_over(l);
	while (lookup_first_waiting(l)) {
		struct list *node = &lookup_first_waiting(l)->node;

		list_remove(node);
		list_append(&l->asked, node);
	}
	lookup_phase_to(l, LOOKUP_RUNNING);
	l->server = s;
	s->lookup = l;
	server_task_to(s, &task_lookup);
	/* parameters that a client set may be impossible to reset, and would make each look-up fail */
	if (params_others(s->params) > 0 && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_PARAMS_UNKNOWN;
	s->said_fatal = false;
	s->peer.request_at = w->now_wall;
	authquery_begin(&l->answer, l->user, l->path);
	log_debug("%s auth_query for user \"%s\"", server_text(s, who, sizeof(who)),
		  printable_inside(l->user, user, sizeof(user)));
	if (!send_batch(l, s))
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

static void answered(struct server *s)
{
	struct lookup *l = s->lookup;
	enum authquery_verdict verdict = authquery_end(&l->answer);
	char pool[POOL_TEXT], user[PRINTABLE_NAME];

	if (verdict == AUTHQUERY_FAILED)
		lookup_log_failure(l, l->answer.why);
	else if (l->answer.is_unusable)
		lookup_log(l, LEVEL_WARNING, "found a SCRAM secret", "it cannot be used");
	else if (l->answer.other_name)
		log_warning("%s: auth_query found another user than \"%s\"", pool_text(l->pool, pool, sizeof(pool)),
			    printable_inside(l->user, user, sizeof(user)));
	l->world->lookups->answers++;
	/* the server is free before the turn is: the next look-up of the pool may have it */
	s->lookup = NULL;
	l->server = NULL;
	if (server_task_end(s) == TASK_END_RELEASE)
		server_release(s);
	lookup_query_over(l, verdict == AUTHQUERY_FAILED ? REASON_CONFIG_ERROR : REASON_NONE, l->answer.secret);
}

/* One message. False: the server has ended. */
static bool take(struct server *s, const struct pg_frame *f)
{
	enum ledger_owner owner;
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	if (verdict == LEDGER_BROKEN) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
		return false;
	}
	if (f->type == PGS_PARAMETER) {
		struct pg_cursor body = pg_cursor_of(f->body, f->size);
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (!body.bad)
			server_parameter(s, name, value);
		return true;
	}
	if (verdict == LEDGER_ASYNC && f->type != PGS_ERROR)
		return true;
	if (!authquery_take(&s->lookup->answer, f->type, f->body, f->size)) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
		return false;
	}
	if (f->type != PGS_READY)
		return true;
	s->status = 'I';
	answered(s);
	return !peer_is_stopped(&s->peer);
}

/* Whole messages from the front of n bytes. False: the server has ended. */
static bool take_all(struct server *s, const uint8_t *buffer, size_t n, size_t *used)
{
	struct pg_frames in = { buffer, n };
	enum pg_verdict verdict = PG_MORE;
	struct pg_frame f;

	while (s->task == &task_lookup && (verdict = pg_frames_next(&in, FRAME_MOST + PG_LENGTH_WORD, &f)) == PG_OK)
		if (!take(s, &f))
			return false;
	*used = n - in.left;
	if (verdict != PG_BAD)
		return true;
	if (pg_frame_look(in.at, in.left, PG_LENGTH_LIMIT, &f) == PG_OK)
		authquery_fail(&s->lookup->answer, "a message of the answer is too long");
	server_end(s, REASON_SERVER_BROKEN, NULL);
	return false;
}

void lookup_read(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t n = bytes_size(&s->peer.held), used = 0;
	ssize_t r = 0;
	bool alive;

	if (n > 0)
		memcpy(w->buffer, bytes_front(&s->peer.held), n);
	bytes_wipe(&s->peer.held);
	if (from_socket)
		r = stream_read(&s->peer.stream, w->buffer + n, READ_BUFFER - n);
	if (r < 0) {
		mem_wipe(w->buffer, n);
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	n += (size_t)r;
	alive = take_all(s, w->buffer, n, &used);
	if (alive)
		bytes_append(&s->peer.held, w->buffer + used, n - used);
	/* a secret may be among them */
	mem_wipe(w->buffer, n);
	if (!alive)
		return;
	if (s->peer.held.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else if ((s->task != &task_lookup && n > used) || stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}

/* No client waits for it any more. In a database that none has logged in to its connection is not kept for that. */
static bool is_abandoned(const struct server *s)
{
	const struct lookup *l = s->lookup;

	return l->pool->database->stray && list_is_empty(&l->asked) && list_is_empty(&l->waiting);
}

/* query_timeout, as for any query of auth_user; and once client_login_timeout is over, no client that asked for it waits any more. If both
   are off, the query may last as long as a server login of the pooler, so that a stuck server cannot block all logins for ever. */
enum close_reason lookup_overdue(const struct server *s)
{
	const struct world *w = s->peer.world;
	const struct settings *set = &w->conf->settings;
	const struct conf_user *user = s->pooled.pool->user->conf;
	usec_t limit = user && user->query_timeout != CONF_UNSET ? user->query_timeout : set->query_timeout;
	usec_t logins = set->client_login_timeout;

	if (limit == 0 && logins == 0)
		limit = set->server_connect_timeout > 0 ? set->server_connect_timeout : LASTS_MOST;
	if (is_abandoned(s))
		return REASON_LOOKUP_OVER;
	if ((limit > 0 && w->now - s->task_since >= limit) || (logins > 0 && w->now - s->task_since >= logins))
		return REASON_QUERY_TIMEOUT;
	return REASON_NONE;
}

/* The connection was probably lost while the server was idle. */
static bool was_gone(const struct server *s, enum close_reason why)
{
	return why == REASON_SERVER_CRASHED && !s->lookup->answer.begun && s->pooled.opened < s->lookup->since;
}

void lookup_server_gone(struct server *s, enum close_reason why, const char *text)
{
	struct lookup *l = s->lookup;
	bool is_wrong = l->answer.failed && why == REASON_SERVER_BROKEN;

	/* half a secret may be in it */
	bytes_wipe(&s->peer.held);
	if (was_gone(s, why)) {
		lookup_log(l, LEVEL_LOG, "is asked again", text);
		lookup_ask_again(l);
		return;
	}
	if (!is_abandoned(s))
		lookup_log_failure(l, l->answer.failed ? l->answer.why : text);
	lookup_query_over(l, is_wrong ? REASON_CONFIG_ERROR : lookup_reason_for_client(why), NULL);
}
