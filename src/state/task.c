/*
 * Server tasks: how a query of pgweir's own is sent and answered, and the tasks of a server without a client: connect_query,
 * server_reset_query, server_check_query.
 *
 * A server whose link has ended waits for the cancel requests that are on their way to it, then it is reset, closed or idle.
 *
 * Invariant: a server executes one task at a time.
 */
#include "state/task.h"

#include "base/assert.h"
#include "base/mem.h"
#include "conn/journal.h"
#include "pg/build.h"
#include "pg/message.h"
#include "pg/startup.h"
#include "state/notifier.h"
#include "state/role.h"
#include "state/session_params.h"

#include <stdio.h>

bool server_run(struct server *s, const struct server_task *task, const char *sql)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (peer_is_stopped(&s->peer))
		return false;
	ASSERT(!s->task && (ledger_is_empty(&s->ledger) || ledger_is_in_doubt(&s->ledger)));
	pg_build_query(&out, sql);
	sent = journal_send(s, MARK_TASK, &out);
	bytes_free(&out);
	if (!sent) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return false;
	}
	server_task_to(s, task);
	return true;
}

bool server_run_and_free(struct server *s, const struct server_task *task, struct bytes *sql)
{
	bool sent = false;

	bytes_append_u8(sql, 0);
	if (sql->failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else
		sent = server_run(s, task, (const char *)bytes_front(sql));
	bytes_free(sql);
	return sent;
}

static void task_error(struct server *s, const struct pg_frame *f)
{
	struct pg_error e;
	char what[80];

	s->task_failed = true;
	/* fields of an incomplete message are empty */
	pg_error_read(f->body, f->here, &e);
	if (s->task->keeps_error && *e.message) {
		mem_free(s->task_words);
		s->task_words = mem_copy_string(e.message);
	}
	snprintf(what, sizeof(what), "%s failed", s->task->words);
	server_log_error(s, what, &e);
}

bool server_task_heard(struct server *s, const struct pg_frame *f)
{
	if (f->type == PGS_ERROR) {
		task_error(s, f);
		return s->said_fatal && s->pooled.link;
	}
	if (f->type == PGS_ROW && s->task->on_row)
		s->task->on_row(s, f);
	s->task_answered |= f->type == PGS_READY;
	return false;
}

/* ---- the states of a server without a client ---- */

bool server_wants_reset(const struct server *s, bool had_session)
{
	const struct settings *set = &s->peer.world->conf->settings;

	return (had_session || set->server_reset_query_always) && set->server_reset_query && *set->server_reset_query;
}

void server_enter(struct server *s, enum server_state next)
{
	struct world *w = s->peer.world;
	enum close_reason spent;

	ASSERT(!s->pooled.link);
	if (s->pooled.state != next)
		pool_server_become(&s->pooled, next, w->now);
	if (next == SERVER_BEING_CANCELED)
		return;
	spent = pool_server_is_spent(&s->pooled, w->now);
	if (spent != REASON_NONE)
		server_end(s, spent, NULL);
	else if (next == SERVER_TESTED && s->needs_reset)
		server_run(s, &task_reset, w->conf->settings.server_reset_query);
	else if (next == SERVER_TESTED)
		notifier_wait(s);
}

void server_release(struct server *s)
{
	server_enter(s, server_next_state(s));
}

void server_begin(struct server *s)
{
	const char *query = s->pooled.pool->database->conf->connect_query;

	if (!query || !*query || s->replication == REPLICATION_PHYSICAL) {
		server_release(s);
		return;
	}
	pool_server_become(&s->pooled, SERVER_TESTED, s->peer.world->now);
	server_run(s, &task_connect_query, query);
}

/* ---- tasks ---- */

static enum task_end connect_query_done(struct server *s, bool failed)
{
	(void)failed;	/* an error of connect_query is only logged */
	if (s->status != 'I') {
		server_end(s, REASON_RESET_FAILED, NULL);
		return TASK_END_NOTHING;
	}
	if (s->pooled.dedicated)
		return TASK_END_RELEASE;
	server_run(s, &task_note, server_notes_search_path(s) ? "SELECT " ROLE_NOTE "," SEARCH_PATH_NOTE : "SELECT " ROLE_NOTE);
	return TASK_END_NOTHING;
}

static void note_row(struct server *s, const struct pg_frame *row)
{
	role_note(s, row->body, row->here);
	server_note_search_path(s, row->body, row->here);
}

static enum task_end reset_done(struct server *s, bool failed)
{
	(void)failed;
	s->needs_reset = false;
	role_was_reset(s, s->peer.world->conf->settings.server_reset_query);
	return TASK_END_RELEASE;
}

const struct server_task task_connect_query = {
	.name = "connect_query", .words = "connect_query", .states = TASK_IN(TESTED), .on_done = connect_query_done,
};

const struct server_task task_note = {
	.name = "connect_query", .words = "noting role and search_path behind connect_query", .states = TASK_IN(TESTED), .reads_rows = true,
	.on_row = note_row,
};

const struct server_task task_reset = {
	.name = "reset", .words = "server_reset_query", .states = TASK_IN(TESTED), .failure = REASON_RESET_FAILED, .on_done = reset_done,
};

const struct server_task task_check = {
	.name = "check", .words = "server_check_query", .states = TASK_IN(TESTED), .failure = REASON_TEST_FAILED,
};
