/*
 * Queries of the pooler's own on a server: server_check_query, server_reset_query, connect_query, and those that set or note what the
 * session has. Their answers are swallowed. And where a server goes that has no client: it waits for the cancel requests aimed at it,
 * is reset, is closed, or is idle.
 *
 * Invariant: one such query at a time; server->task says which.
 */
#include "backend/task.h"

#include "backend/hearing.h"
#include "backend/role.h"
#include "backend/session_functions.h"
#include "backend/session_question.h"
#include "backend/session_state.h"
#include "base/assert.h"
#include "base/mem.h"
#include "conn/journal.h"
#include "pg/build.h"
#include "pg/error.h"
#include "pg/message.h"

#include <stdio.h>
#include <string.h>

bool server_run(struct server *s, enum server_task task, const char *sql)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (peer_is_stopped(&s->peer))
		return false;
	ASSERT(s->task == TASK_NONE && (ledger_is_empty(&s->ledger) || ledger_is_in_doubt(&s->ledger)));
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

static void task_error(struct server *s, const struct pg_frame *f)
{
	struct pg_error e;
	char what[80];

	s->task_failed = true;
	/* of one that has not come as a whole nothing is known */
	pg_error_read(f->body, f->here, &e);
	if ((s->task == TASK_PARAMS || s->task == TASK_ENCODING) && *e.message) {
		mem_free(s->task_words);
		s->task_words = mem_copy_string(e.message);
	}
	snprintf(what, sizeof(what), "%s failed", server_task_words(s->task));
	server_log_error(s, what, &e);
}

bool server_task_heard(struct server *s, const struct pg_frame *f)
{
	if (f->type == PGS_ERROR) {
		task_error(s, f);
		return s->said_fatal && s->policy.link;
	}
	if (f->type == PGS_ROW && s->task == TASK_NOTE) {
		role_note(s, f->body, f->here);
		server_note_search_path(s, f->body, f->here);
	}
	/* A row without columns, which is a count alone: the session has statements of SQL's PREPARE (relay/link_params.c). Of a row that
	   is cut only the size is known. */
	if (f->type == PGS_ROW && s->task == TASK_PARAMS)
		s->task_failed |= f->size == sizeof(uint16_t);
	if (f->type == PGS_ROW && s->task == TASK_STATE)
		session_question_row(s, f);
	if (f->type == PGS_ROW && s->task == TASK_FUNCTIONS)
		session_functions_row(s, f);
	if (f->type == PGS_ROW && s->task == TASK_DRAWN)
		session_values_row(s);
	s->task_answered |= f->type == PGS_READY;
	return false;
}

bool server_wants_reset(const struct server *s, bool had_session)
{
	const struct settings *set = &s->peer.world->conf->settings;

	return (had_session || set->server_reset_query_always) && set->server_reset_query && *set->server_reset_query;
}

void server_enter(struct server *s, enum server_state next)
{
	struct world *w = s->peer.world;
	enum close_reason spent;

	ASSERT(!s->policy.link);
	if (s->policy.state != next)
		pool_server_become(&s->policy, next, w->now);
	if (next == SERVER_BEING_CANCELED)
		return;
	spent = pool_server_is_spent(&s->policy, w->now);
	if (spent != REASON_NONE) {
		server_end(s, spent, NULL);
		return;
	}
	if (next == SERVER_TESTED)
		server_run(s, TASK_RESET, w->conf->settings.server_reset_query);
}

void server_release(struct server *s)
{
	server_enter(s, server_next_state(s));
}

void server_task_over(struct server *s)
{
	enum server_task task = s->task;
	bool failed = s->task_failed || s->status != 'I';

	server_task_to(s, TASK_NONE);
	switch (task) {
	case TASK_RESET:
		s->needs_reset = false;
		if (failed) {
			server_end(s, REASON_RESET_FAILED, NULL);
			return;
		}
		role_was_reset(s, s->peer.world->conf->settings.server_reset_query);
		break;
	case TASK_CHECK:
		if (failed) {
			server_end(s, REASON_TEST_FAILED, NULL);
			return;
		}
		break;
	case TASK_LOOKUP:
		if (pool_is_unwanted(s->policy.pool)) {
			server_end(s, REASON_LOOKUP_OVER, NULL);
			return;
		}
		/* what a function behind auth_query has left in the session belongs to no client */
		s->needs_reset = server_wants_reset(s, pool_mode_of(s->policy.pool) == MODE_SESSION);
		break;
	case TASK_CONNECT_QUERY:
		if (s->status != 'I') {
			server_end(s, REASON_RESET_FAILED, NULL);
			return;
		}
		if (!s->policy.dedicated) {
			server_run(s, TASK_NOTE, server_notes_search_path(s) ? "SELECT " ROLE_NOTE "," SEARCH_PATH_NOTE :
				   "SELECT " ROLE_NOTE);
			return;
		}
		break;
	case TASK_STATE:
		session_question_forget(s);
		break;
	case TASK_FUNCTIONS:
		session_functions_forget(s);
		break;
	case TASK_UNLISTEN:
		if (failed) {
			server_end(s, REASON_RESET_FAILED, NULL);
			return;
		}
		break;
	case TASK_NOTE:
	case TASK_BARRIER:
		break;
	case TASK_ENCODING:
	case TASK_PARAMS:
	case TASK_LEAVE:
	case TASK_LISTEN: case TASK_MARK: case TASK_HEAR: case TASK_RELISTEN:
	case TASK_DRAWN: case TASK_DISCARD:
	case TASK_NONE:
	case SERVER_TASKS:
		ASSERT(!"a task that nobody began is over");
	}
	server_release(s);
}
