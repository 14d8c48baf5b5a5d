/*
 * Server tasks: how a query of pgweir's own is sent to a server and answered.
 *
 * Invariant: a server executes one task at a time.
 */
#include "state/task.h"

#include "base/assert.h"
#include "base/mem.h"
#include "conn/journal.h"
#include "pg/build.h"
#include "pg/message.h"

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

bool server_task_heard(struct server *s, const struct pg_frame *f)
{
	struct pg_error e;
	char what[80];

	if (f->type == PGS_ERROR) {
		s->task_failed = true;
		/* fields of an incomplete message are empty */
		pg_error_read(f->body, f->here, &e);
		if (s->task->keeps_error && *e.message) {
			mem_free(s->task_words);
			s->task_words = mem_copy_string(e.message);
		}
		snprintf(what, sizeof(what), "%s failed", s->task->words);
		server_log_error(s, what, &e);
		return s->said_fatal && s->pooled.link;
	}
	if (f->type == PGS_ROW && s->task->on_row)
		s->task->on_row(s, f);
	s->task_answered |= f->type == PGS_READY;
	return false;
}
