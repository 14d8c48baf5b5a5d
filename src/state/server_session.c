/*
 * The session of a server connection: its parameters and its role, and the work between two
 * clients: connect_query, server_reset_query, server_check_query.
 *
 * After its link a server waits for the cancel requests that are sent to it. Then it is reset or
 * closed, waits for listeners (notify.c), or is idle.
 *
 * Parameters. Reported parameters are known. Other tracked parameters (search_path before
 * PostgreSQL 18, most of track_extra_parameters) are known until a SET or RESET is complete; after
 * that the next link sets all of them. DISCARD ALL restores the values that the session began with.
 *
 * The role. In transaction and statement mode a role that a client sets must not be visible to the
 * next client: the next link sets the role that the session began with, in the same query as the
 * parameters (session_restore.c). To save the round trip, this is done only after a possible change
 * of the role (STALE_ROLE):
 *
 *	- after CommandComplete with the tag SET or RESET, unless the text is plain
 *	  (sql/sql_commands.h): a Query that was sent while no other message was pending
 *	  (plain_set); or an Execute, if no text that may set a role was prepared on this server
 *	  (roles_prepared);
 *	- after the server has reported session_authorization or is_superuser.
 *
 * pgweir does not notice when a function or a DO block sets a role without a change of
 * is_superuser. With session_state = full the role moves with the client: the server is asked for
 * it (session_question.c), and it is in the client's set (PARAMS_ROLE).
 *
 * connect_query may set search_path and a role. pgweir reads both after connect_query and keeps
 * them in hexadecimal, because they are in the encoding of the database. Notes are not kept in the
 * session, because a client could change them there. If the first value is not known, the server is
 * closed when it is released with another value.
 *
 * Invariant: a server without a client becomes IDLE or BEING_CANCELED only in server_release(), or
 * by a handover.
 */
#include "state/server_session.h"

#include "backend/server_info.h"
#include "base/assert.h"
#include "base/mem.h"
#include "pg/startup.h"
#include "pool/host_identity.h"
#include "state/server_identity.h"
#include "state/notify.h"
#include "state/session_state.h"
#include "state/task.h"

#include <string.h>

#define SEARCH_PATH_MOST 16384		/* bytes of a note */
/* bytes of a note; a name has 63 bytes, or more if PostgreSQL was built with a larger
   NAMEDATALEN */
#define ROLE_NOTE_MOST 512
#define SEARCH_PATH_NOTE ROLE_HEX("pg_catalog.current_setting('search_path')")
#define HEX_DIGITS "0123456789abcdef"

/* ---- parameters ---- */

static const char *connect_query_of(const struct server *s)
{
	const char *query = s->pooled.pool->database->conf->connect_query;

	return query && *query ? query : NULL;
}

bool server_has_lasting_query(const struct server *s)
{
	const char *query = connect_query_of(s);

	return query && strcasestr(query, "set");
}

/* Whether search_path must be read after connect_query. A RESET would undo the setting of
   connect_query, so the value is set instead of a RESET. */
static bool needs_search_path(const struct server *s)
{
	return server_has_lasting_query(s) && !s->pooled.dedicated &&
	       !(s->session.reported & (uint64_t)1 << PARAM_SEARCH_PATH);
}

/* Whether search_path may have changed, or is changed for a client, and its first value is not
   known. */
static bool search_path_stays(const struct server *s)
{
	return !s->session.search_path && needs_search_path(s) &&
	       (s->session.stale & STALE_PARAMS || params_get(s->params, PARAM_SEARCH_PATH));
}

/* After DISCARD ALL each parameter that the server does not report has its start-up value. */
static void reset_unreported(struct server *s)
{
	struct world *w = s->peer.world;
	const struct params *set = params_with_others(w->params, s->params, s->pooled.startup);

	session_set_known(s, STALE_PARAMS);
	if (set)
		params_replace(w->params, &s->params, set);
	else
		session_set_stale(s, STALE_PARAMS);
	for (int i = 0; i < params_count(w->params); i++) {
		if (s->session.reported & (uint64_t)1 << i)
			continue;
		set = params_with(w->params, s->params, i, params_get(s->pooled.startup, i));
		if (set)
			params_replace(w->params, &s->params, set);
		else
			session_set_stale(s, STALE_PARAMS);
	}
}

/* session_question.c asks for the parameters that are set in the session. If a client has set a
   parameter to the server's start-up value, the parameter must be set in the session too, or the
   answer would say that the client has RESET it. */
uint64_t server_unset_params(const struct server *s, const struct client *c)
{
	const struct params *first = c->session ? c->session->first : c->params;
	uint64_t unset = 0;

	if (first == c->params)
		return 0;
	/* equal values have equal addresses */
	for (int i = 0; i < params_count(s->peer.world->params); i++) {
		const char *wants = params_get(c->params, i);

		if (wants && wants != params_get(first, i) && wants == params_get(s->params, i))
			unset |= (uint64_t)1 << i;
	}
	return unset & ~s->session.set_there;
}

bool server_close_if_reset(struct server *s)
{
	if (!server_has_lasting_query(s))
		return false;
	if (s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_STATE_STAYS);
	return true;
}

/* A client may have changed a parameter of connect_query. Its value after connect_query is not
   known, and a RESET would restore another value, so the server closes when it is released. It also
   closes for parameters such as idle_session_timeout, which would end or delay a server without a
   client (PARAMS_RESTORABLE). */
void server_close_if_params_stay(struct server *s)
{
	const char *query = connect_query_of(s);
	bool stays = search_path_stays(s);

	if (s->pooled.dedicated || s->pooled.close_reason != REASON_NONE)
		return;
	for (size_t i = 0; !stays && i < params_others(s->params); i++) {
		const char *name = params_other(s->params, i).name;

		if (strcmp(name, PARAMS_ROLE) == 0)
			continue;
		stays = params_kind_of(name) != PARAMS_SETTABLE ||
			(query && strcasestr(query, name) &&
			 s->pooled.pool->allowed.mode != MODE_SESSION);
	}
	if (stays)
		pool_server_close_later(&s->pooled, REASON_PARAMS_UNKNOWN);
}

/* ---- tainted and stale sessions ---- */

void server_note_stale(struct server *s)
{
	session_set_stale(s, STALE_SESSION | STALE_ROLE);
	server_close_if_reset(s);
}

void server_note_client(struct server *s, const struct client *c)
{
	if (s->session.tainted_by && s->session.tainted_by != c->peer.id)
		session_set_stale(s, STALE_SESSION | STALE_ROLE);
}

/* Prepared statements of this client may have been noted since the link began, and are executed
   after the reset. */
void server_note_reset(struct server *s, const struct client *c)
{
	if (s->session.tainted_by != c->peer.id)
		s->session.tainted_by = 0;
}

/* ---- the role ---- */

/* The role after connect_query may be unknown. If a client has changed the role since, it cannot be
   set back, and the server closes. */
static void close_with_stale_role(struct server *s)
{
	if (s->session.stale & STALE_ROLE && !s->session.role && connect_query_of(s) &&
	    s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_ROLE_UNKNOWN);
}

static void set_role_stale(struct server *s)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	const char *reset = s->peer.world->conf->settings.server_reset_query;

	session_set_stale(s, STALE_ROLE);
	if (c && c->link_facts.keeps_state)
		session_set_dirty(s, FACT_ROLE | PIN_PARAMETERS);
	/* not after a link in session mode: server_reset_query runs first */
	if (!(c && !c->link_facts.shares_server && reset && *reset))
		close_with_stale_role(s);
}

void role_reported(struct server *s, const char *name)
{
	if (strcmp(name, "session_authorization") == 0 || strcmp(name, "is_superuser") == 0)
		set_role_stale(s);
}

void server_note_command(struct server *s, bool discarded, bool for_client)
{
	/* not for pgweir's own commands: connect_query sets start-up values, and values that pgweir
	   sets for a client are known */
	bool may_change = (for_client && (discarded || !server_set_is_local(s))) ||
			  s->task == &task_reset || s->task == &task_check,
	     keeps_role;

	if (discarded || may_change)
		s->session.set_there = 0;
	if (discarded) {
		server_values_to(s, 0);
		session_set_known(s, STALE_ROLE);
		/* DISCARD ALL restores the values of the login, not of connect_query */
		if (s->session.role)
			set_role_stale(s);
		reset_unreported(s);
		if (s->session.search_path)
			session_set_stale(s, STALE_PARAMS);
		/* not for a client's command, because a later message of the client may have
		   changed the session before this answer arrives */
		if (!for_client) {
			s->session.tainted_by = 0;
			session_set_known(s, STALE_SESSION);
		}
		return;
	}
	if (for_client) {
		keeps_role = ledger_is_within_query(&s->ledger)
				     ? s->session.plain_set & SET_KEEPS_ROLE
				     : !s->session.roles_prepared;
		server_note_plain_set(s, 0);
		if (!keeps_role || s->ledger.lost)
			set_role_stale(s);
	}
	if (may_change) {
		session_set_stale(s, STALE_PARAMS);
		if (search_path_stays(s))
			server_close_if_params_stay(s);
	}
}

/* ---- notes ---- */

static bool is_role_note(const char *note, size_t size)
{
	const char *colon = memchr(note, ':', size);
	size_t first = colon ? (size_t)(colon - note) : 0, second = colon ? size - first - 1 : 0;

	return size <= ROLE_NOTE_MOST && first > 0 && first % 2 == 0 && second > 0 &&
	       second % 2 == 0 && strspn(note, HEX_DIGITS) == first &&
	       strspn(colon + 1, HEX_DIGITS) == second;
}

char *role_note_of(const uint8_t *text, size_t size)
{
	char note[ROLE_NOTE_MOST + 1];

	if (size > ROLE_NOTE_MOST)
		return NULL;
	memcpy(note, text, size);
	note[size] = '\0';
	return is_role_note(note, size) ? mem_copy_string(note) : NULL;
}

bool server_restore_notes(struct server *s, const char *role, const char *search_path)
{
	size_t size = search_path ? strlen(search_path) : 0;

	if (role) {
		if (!is_role_note(role, strlen(role)))
			return false;
		mem_free(s->session.role);
		s->session.role = mem_copy_string(role);
		if (!s->session.role)
			return false;
	}
	if (search_path) {
		if (size % 2 != 0 || size > SEARCH_PATH_MOST ||
		    strspn(search_path, HEX_DIGITS) != size)
			return false;
		mem_free(s->session.search_path);
		s->session.search_path = mem_copy_string(search_path);
		if (!s->session.search_path)
			return false;
	}
	return true;
}

static void append_set_config(struct bytes *sql, const char *parameter, const char *hex,
			      size_t size, bool for_transaction)
{
	bytes_append_format(sql, "pg_catalog.set_config('%s',", parameter);
	if (hex)
		bytes_append_format(sql, "pg_catalog.convert_from(pg_catalog.decode('%.*s','hex'),"
				    "pg_catalog.getdatabaseencoding())", (int)size, hex);
	else
		bytes_append_text(sql, "NULL");
	/* the value itself may have characters that the client's encoding does not have */
	bytes_append_text(sql, for_transaction ? ",true) IS NULL" : ",false) IS NULL");
}

bool role_sql(const char *note, bool for_transaction, struct bytes *sql)
{
	const char *colon = note ? strchr(note, ':') : NULL;

	if (note && !is_role_note(note, strlen(note)))
		return false;
	append_set_config(sql, "session_authorization", note, colon ? (size_t)(colon - note) : 0,
			  for_transaction);
	bytes_append_text(sql, ",");
	append_set_config(sql, "role", colon ? colon + 1 : NULL, colon ? strlen(colon + 1) : 0,
			  for_transaction);
	return true;
}

/* The row has the note of the role and, if it was asked for, the note of search_path. An unusable
   value is not stored. */
static void note_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	unsigned columns = pg_read_u16(&row);

	for (unsigned i = 0; i < columns && i < 2; i++) {
		uint32_t size = pg_read_u32(&row);
		const uint8_t *value = pg_read_bytes(&row, row.bad ? 0 : size);
		char *note = !row.bad && size <= SEARCH_PATH_MOST ? mem_try(size + 1) : NULL;

		if (row.bad)
			return;
		if (!note)
			continue;
		memcpy(note, value, size);
		if (strlen(note) == size)
			server_restore_notes(s, i == 0 ? note : NULL, i == 1 ? note : NULL);
		mem_free(note);
	}
}

const struct server_task task_note = {
	.name = "connect_query",
	.description = "noting role and search_path after connect_query",
	.states = TASK_IN(TESTED),
	.reads_rows = true,
	.on_row = note_row,
};

/* ---- without a client ---- */

void server_release(struct server *s)
{
	enum server_state next = server_next_state(s);
	struct world *w = s->peer.world;
	enum close_reason spent;

	ASSERT(!s->pooled.link);
	if (s->pooled.state != next)
		pool_server_become(&s->pooled, next, w->now);
	if (next == SERVER_BEING_CANCELED)
		return;
	spent = pool_server_is_spent(&s->pooled, w->now);
	if (spent != REASON_NONE) {
		server_end(s, spent, NULL);
	} else if (next == SERVER_TESTED && s->needs_reset) {
		server_run(s, &task_reset, w->conf->settings.server_reset_query);
	} else if (next == SERVER_TESTED) {
		/* the listeners have not received all notifications of its clients: see
		   notifiers_continue() */
		w->notify.is_wait_due = true;
		server_task_to(s, &task_hear);
	}
}

/* The session leads to the server that the watcher knows: the server continues. */
static void server_go_on(struct server *s)
{
	const char *query = connect_query_of(s);

	if (!query || s->replication == REPLICATION_PHYSICAL) {
		server_release(s);
		return;
	}
	if (s->pooled.state != SERVER_TESTED)
		pool_server_become(&s->pooled, SERVER_TESTED, s->peer.world->now);
	server_run(s, &task_connect_query, query);
}

void server_begin(struct server *s)
{
	const struct pool *pool = s->pooled.pool;

	if (!pool->host || s->replication != REPLICATION_NONE) {
		server_go_on(s);
		return;
	}
	pool_server_become(&s->pooled, SERVER_TESTED, s->peer.world->now);
	server_run(s, &task_identity, "select " SERVER_IDENTITY);
}

static void identity_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	uint64_t id = 0;
	uint32_t size;
	const uint8_t *digits;

	if (pg_read_u16(&row) != 1)
		return;
	size = pg_read_u32(&row);
	digits = pg_read_bytes(&row, row.bad || size > 18 ? 0 : size);
	for (uint32_t i = 0; !row.bad && size <= 18 && i < size; i++)
		id = digits[i] >= '0' && digits[i] <= '9' ? id * 10 + (digits[i] - '0') : 0;
	s->pooled.server_id = id;
}

/* The server has said which server it is. Services other than PostgreSQL may refuse the question,
   and are then used without this knowledge. */
static enum task_end identity_done(struct server *s, bool failed)
{
	(void)failed;
	if (s->status != 'I')
		server_end(s, REASON_RESET_FAILED, NULL);
	else if (!pool_server_identify(&s->pooled, s->pooled.server_id, s->peer.world->now))
		server_end(s, REASON_OTHER_SERVER, NULL);
	else
		server_go_on(s);
	return TASK_END_NOTHING;
}

const struct server_task task_identity = {
	.name = "identity",
	.description = "asking which server it is",
	.states = TASK_IN(TESTED),
	.reads_rows = true,
	.on_row = identity_row,
	.on_done = identity_done,
};

/* An error of connect_query is only logged. */
static enum task_end connect_query_done(struct server *s, bool failed)
{
	(void)failed;
	if (s->status != 'I') {
		server_end(s, REASON_RESET_FAILED, NULL);
		return TASK_END_NOTHING;
	}
	if (s->pooled.dedicated)
		return TASK_END_RELEASE;
	server_run(s, &task_note,
		   needs_search_path(s) ? "SELECT " ROLE_NOTE "," SEARCH_PATH_NOTE
					: "SELECT " ROLE_NOTE);
	return TASK_END_NOTHING;
}

static enum task_end reset_done(struct server *s, bool failed)
{
	(void)failed;
	server_reset_to(s, false);
	/* if server_reset_query sets a role, the operator wants the servers to have this role
	   between clients */
	if (strcasestr(s->peer.world->conf->settings.server_reset_query, "role") ||
	    strcasestr(s->peer.world->conf->settings.server_reset_query, "authorization"))
		session_set_known(s, STALE_ROLE);
	close_with_stale_role(s);
	return TASK_END_RELEASE;
}

const struct server_task task_connect_query = {
	.name = "connect_query",
	.description = "connect_query",
	.states = TASK_IN(TESTED),
	.on_done = connect_query_done,
};

const struct server_task task_reset = {
	.name = "reset",
	.description = "server_reset_query",
	.states = TASK_IN(TESTED),
	.failure = REASON_RESET_FAILED,
	.on_done = reset_done,
};

const struct server_task task_check = {
	.name = "check",
	.description = "server_check_query",
	.states = TASK_IN(TESTED),
	.failure = REASON_TEST_FAILED,
};

const struct server_task task_hear = {
	.name = "listen",
	.description = "hearing of the listener",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
};
