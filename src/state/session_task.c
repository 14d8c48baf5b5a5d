/*
 * The answers to queries of the pooler's own (backend/task.c), and what follows each of them on a server without a client.
 */
#include "state/session_task.h"

#include "backend/task.h"
#include "base/assert.h"
#include "base/mem.h"
#include "pg/error.h"
#include "pg/message.h"
#include "state/role.h"
#include "state/session_functions.h"
#include "state/session_params.h"
#include "state/session_question.h"
#include "state/session_state.h"

#include <stdio.h>

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
		return s->said_fatal && s->pooled.link;
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
		if (pool_is_unwanted(s->pooled.pool)) {
			server_end(s, REASON_LOOKUP_OVER, NULL);
			return;
		}
		/* what a function behind auth_query has left in the session belongs to no client */
		s->needs_reset = server_wants_reset(s, pool_mode_of(s->pooled.pool) == MODE_SESSION);
		break;
	case TASK_CONNECT_QUERY:
		if (s->status != 'I') {
			server_end(s, REASON_RESET_FAILED, NULL);
			return;
		}
		if (!s->pooled.dedicated) {
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
