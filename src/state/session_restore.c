/*
 * The server of a link gets the parameters and the role of its client before the first message, and
 * the channels before a text that may read or change them. The answer is awaited, because a request
 * must not run with the DateStyle or client_encoding of another client: its answer would be wrong.
 *
 * One query does it all. In the order of its statements, each only if it is necessary:
 *
 * 1. The role of the session is set back to the role at its start, because some parameters can be
 *    set only by that role.
 * 2. If another client has tainted the session (STALE_SESSION), the session is reset, except for
 *    prepared statements, which clients share.
 * 3. Parameters: set_config for each that differs, and RESET for parameters that the client lacks.
 * 4. The client's role.
 * 5. DISCARD SEQUENCES, if the session may have values of another client.
 * 6. LISTEN for the client's channels, if the next text may read or change them.
 *
 * The answer is the end of task_params: expect_params() notes the parameters that the session has
 * now. If the server refuses the values, refuse_params() decides whether the server ends or the
 * client gets the error.
 *
 * Example. The server was last used by a client with search_path = app. The next client has the
 * default path, and TimeZone = UTC. The query sets TimeZone and RESETs search_path, and the first
 * message of the client is sent after its answer.
 *
 * A server reads a query in the client_encoding that its session has when the query arrives.
 * Therefore values beyond ASCII need client_encoding first, in a query of its own (task_encoding).
 */
#include "state/session_restore.h"

#include "base/assert.h"
#include "base/printable.h"
#include "pg/build.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_functions.h"
#include "state/session_state.h"
#include "state/task.h"

#include <stdio.h>
#include <string.h>

bool session_tell(struct client *c, const struct params *told, const struct params *now,
		  uint64_t which)
{
	const struct params_table *table = c->peer.world->params;
	struct bytes out = BYTES_EMPTY;
	bool alive = true;

	for (int i = 0; i < params_count(table); i++) {
		const char *has = params_get(now, i), *believed = params_get(told, i);

		if (which & (uint64_t)1 << i && has && (!believed || strcmp(has, believed) != 0))
			pg_build_parameter_status(&out, params_name(table, i), has);
	}
	if (bytes_size(&out) > 0 || out.failed)
		alive = client_send(c, &out);
	bytes_free(&out);
	return alive;
}

/* ---- channels ---- */

/*
 * UNLISTEN and pg_listening_channels() are executed by the current server of the client. That
 * server LISTENs to the client's channels first (session_restore_channels()): outside of
 * transactions before such a text, otherwise before the text that begins the transaction. At the
 * end of the link the server is asked for the remaining channels if there was an UNLISTEN, and it
 * UNLISTENs. In between the client receives its own notifications from the server: PostgreSQL omits
 * the channels that a transaction leaves, the listener does not.
 */

/* The server has LISTENed to all channels of the client that the listener delivers: it must
   UNLISTEN at the end of the link. */
static void note_channels(struct server *s, struct client *c)
{
	s->session.channels_restored = true;
	/* with this pin the server had the channels already, and keeps them */
	if (!(c->pooled.pins & PIN_LISTENING))
		session_set_dirty(s, FACT_CHANNELS);
}

static enum task_end relisten_done(struct server *s, bool failed)
{
	if (failed || s->said_fatal) {
		server_end(s, s->said_fatal ? REASON_SERVER_CRASHED : REASON_STATE_UNKNOWN, NULL);
		return TASK_END_NOTHING;
	}
	note_channels(s, client_of(s->pooled.link));
	return TASK_END_RESUME;
}

const struct server_task task_relisten = {
	.name = "listen",
	.description = "LISTEN to the channels of the client",
	.states = TASK_IN(ACTIVE),
	.on_done = relisten_done,
};

/* Appends LISTEN for all channels that the listener delivers to this client. */
static void append_channels(const struct notify_client *h, struct bytes *sql)
{
	LIST_EACH(node, &h->subscriptions) {
		const struct subscription *sub = LIST_OBJECT(node, struct subscription, of_client);

		if (!sub->from_server)
			channel_sql(sql, "LISTEN ", sub->channel->name);
	}
}

void session_restore_channels(struct server *s, struct client *c)
{
	struct bytes sql = BYTES_EMPTY;

	append_channels(c->session->notify_client, &sql);
	server_run_and_free(s, &task_relisten, &sql);
}

/* ---- parameters ---- */

/*
 * The client's values have been set: notes the parameters that the session has now. An unreported
 * parameter has the client's value. A reported parameter has its last reported value, in the
 * server's spelling. Example: a client has "utf-8", and the session "UTF8". After the SET the
 * server reports nothing, because its value is the same. "UTF8" is noted for the server, and the
 * client gets it too (session_restored), because otherwise the two sets would differ and the value
 * would be set again for each transaction.
 */
static bool expect_params(struct server *s, struct client *c)
{
	struct world *w = s->peer.world;
	bool has_channels;
	const struct params *expected = params_hold(c->params), *next;

	s->session.set_there |= server_unset_params(s, c);
	for (int i = 0; i < params_count(w->params); i++) {
		if (!params_get(c->params, i))
			s->session.set_there &= ~((uint64_t)1 << i);
		if (!(s->session.reported & (uint64_t)1 << i))
			continue;
		next = params_with(w->params, expected, i, params_get(s->params, i));
		params_drop(w->params, &expected);
		if (!next)
			return false;
		expected = next;
	}
	params_replace(w->params, &s->params, expected);
	if (s->session.stale & STALE_SESSION)
		server_note_reset(s, c);
	if (s->session.stale & (STALE_SEQUENCES | STALE_SESSION))
		server_values_to(s, c->peer.id);
	has_channels = s->session.stale & STALE_CHANNELS;
	/* in the middle of a link, in which the client may have set a role */
	session_set_known(s, c->pooled.pins ? ~(unsigned)STALE_ROLE : UINT8_MAX);
	if (has_channels)
		note_channels(s, c);
	server_close_if_params_stay(s);
	return true;
}

static bool same_others(const struct params *a, const struct params *b)
{
	return a->others == b->others && memcmp(&a->values[a->tracked], &b->values[b->tracked],
						2 * a->others * sizeof(*a->values)) == 0;
}

/* The server has refused the parameters. The cause may be the state that another client has left in
   the session: a short statement_timeout, parameters that cannot be reset, temporary tables after
   which temp_buffers cannot change. Then the server ends, and the client gets another one. Start-up
   parameters that no server has accepted yet do not end a server: the client gets the error. */
static enum task_end refuse_params(struct server *s, struct client *c)
{
	char words[PRINTABLE_TEXT], detail[PRINTABLE_TEXT + 8];
	const char *said = "invalid server parameter", *sqlstate = s->task_sqlstate;
	bool was_accepted = (c->session && c->params != c->session->first) ||
			    (s->task_words && strstr(s->task_words, "temp_buffers"));
	bool is_used = (s->last_client_pid != 0 && was_accepted) ||
		       !same_others(s->params, s->pooled.startup);

	if (s->session.stale & STALE_SESSION || (is_used && !c->pooled.pins)) {
		server_end_leaving(s, REASON_PARAMS_UNKNOWN, false);
		return TASK_END_PARTED;
	}
	if (s->session.stale & STALE_ROLE && s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_ROLE_UNKNOWN);
	if (params_others(c->params) > 0 && s->task_words)
		said = printable_text(s->task_words, words, sizeof(words));
	snprintf(detail, sizeof(detail), "%s %s", strlen(sqlstate) == 5 ? sqlstate : "08P01", said);
	client_end(c, REASON_SERVER_PARAMETER, detail);
	return TASK_END_NOTHING;
}

enum task_end session_restored(struct server *s, bool failed)
{
	struct client *c = client_of(s->pooled.link);

	/* the client has this error already, and gets no second error */
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	if (failed)
		return refuse_params(s, c);
	if (!expect_params(s, c)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return TASK_END_NOTHING;
	}
	if (s->params == c->params)
		return TASK_END_RESTORED;
	/* The server may spell a value in its own way ("utf-8" is "UTF8"): then the client is told,
	   as a direct connection would have told it. A client in its login gets the values with its
	   welcome. */
	if (!c->login && !session_tell(c, c->params, s->params, UINT64_MAX))
		return TASK_END_NOTHING;
	params_replace(s->peer.world->params, &c->params, params_hold(s->params));
	return TASK_END_RESTORED;
}

static enum task_end params_done(struct server *s, bool failed)
{
	if (!failed)
		latency_add(s->pooled.pool, LATENCY_RESTORE, s->peer.world->now - s->task_since);
	return session_restored(s, failed);
}

static enum task_end encoding_done(struct server *s, bool failed)
{
	if (!failed && !s->said_fatal && !session_restore_begin(s, client_of(s->pooled.link), true))
		return TASK_END_NOTHING;
	return params_done(s, failed);
}

/* A row without columns: the session has statements of SQL's PREPARE (see `reset`). */
static void params_row(struct server *s, const struct pg_frame *row)
{
	if (row->size == sizeof(uint16_t))
		server_task_fails(s);
}

const struct server_task task_params = {
	.name = "parameters",
	.description = "setting the client's parameters",
	.states = TASK_IN(ACTIVE),
	.keeps_error = true,
	.is_cancelable = true,
	.on_row = params_row,
	.on_done = params_done,
};

const struct server_task task_encoding = {
	.name = "parameters",
	.description = "setting the client's encoding",
	.states = TASK_IN(ACTIVE),
	.keeps_error = true,
	.is_cancelable = true,
	.on_done = encoding_done,
};

/* The statements of DISCARD ALL, except that prepared statements, which clients share, are kept. A
   row without columns says that a function has prepared a statement by SQL: then the server is of
   no use to other clients. */
static const char restore_reset[] =
	"CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();RESET ALL;DISCARD "
	"TEMP;DISCARD SEQUENCES;SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql;";

bool session_restore_begin(struct server *s, struct client *c, bool encoding_is_set)
{
	struct world *w = s->peer.world;
	struct bytes sql = BYTES_EMPTY;
	const struct params *has = s->params, *encoded;
	const char *encoding = params_get(has, PARAM_CLIENT_ENCODING),
		   *wanted = params_get(c->params, PARAM_CLIENT_ENCODING);
	const char *role = params_other_value(c->params, PARAMS_ROLE);
	bool is_unknown = s->session.stale & (STALE_PARAMS | STALE_ROLE), is_ascii = true;
	/* some parameters can be set only by the role that the session began with */
	bool role_moves = has != c->params || s->session.stale & STALE_ROLE;
	uint64_t unknown;
	int changes = 0;

	if (s->session.stale & STALE_FUNCTIONS) {
		session_functions_ask(s);
		return false;
	}
	if (role_moves &&
	    (s->session.stale & STALE_ROLE || params_other_value(has, PARAMS_ROLE))) {
		bytes_append_text(&sql, "SELECT ");
		role_sql(s->session.role, false, &sql);
		bytes_append_u8(&sql, ';');
		changes++;
	}
	if (s->session.stale & STALE_SESSION) {
		bytes_append_text(&sql, restore_reset);
		changes++;
		has = s->pooled.startup;
		is_unknown = false;
		s->session.set_there = 0;
	}
	unknown = (is_unknown ? ~s->session.reported : 0) | server_unset_params(s, c);
	changes += params_sql(w->params, has, c->params, unknown, s->session.search_path, &sql);
	if (role && role_moves) {
		bytes_append_text(&sql, ";SELECT ");
		sql.failed |= !role_sql(role, false, &sql);
		changes++;
	}
	if (s->session.stale & STALE_SEQUENCES) {
		bytes_append_text(&sql, ";DISCARD SEQUENCES");
		changes++;
	}
	if (s->session.stale & STALE_CHANNELS) {
		bytes_append_u8(&sql, ';');
		append_channels(c->session->notify_client, &sql);
		changes++;
	}
	if (changes == 0) {
		bytes_free(&sql);
		if (expect_params(s, c))
			return true;
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	c->pooled.pool->state_restores += c->link_facts.keeps_state;
	for (size_t i = 0; !sql.failed && i < bytes_size(&sql); i++)
		is_ascii &= !(bytes_front(&sql)[i] & 0x80);
	if (encoding_is_set || is_ascii || !wanted || (encoding && strcmp(encoding, wanted) == 0)) {
		server_run_and_free(s, &task_params, &sql);
		return false;
	}
	/* the server reads the whole query in its present encoding: a query of its own sets the
	   encoding, which is a plain word */
	bytes_free(&sql);
	encoded = params_with(w->params, s->params, PARAM_CLIENT_ENCODING, wanted);
	if (!encoded) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	params_sql(w->params, s->params, encoded, 0, NULL, &sql);
	params_drop(w->params, &encoded);
	server_run_and_free(s, &task_encoding, &sql);
	return false;
}
