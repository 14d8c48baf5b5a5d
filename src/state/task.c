/*
 * Server tasks: how a query of pgweir's own is sent to a server.
 *
 * Invariant: a server executes one task at a time.
 */
#include "state/task.h"

#include "base/assert.h"
#include "pg/build.h"

bool server_run(struct server *s, const struct server_task *task, const char *sql)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (peer_is_stopped(&s->peer))
		return false;
	ASSERT(!s->task && (ledger_is_empty(&s->ledger) || ledger_is_in_doubt(&s->ledger)));
	pg_build_string(&out, 'Q', sql);
	sent = server_send(s, MARK_TASK, &out);
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
