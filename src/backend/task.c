/*
 * Queries of the pooler's own on a server: server_check_query, server_reset_query, connect_query, and those that set or note what the
 * session has. Their answers are swallowed. And where a server goes that has no client: it waits for the cancel requests aimed at it,
 * is reset, is closed, or is idle.
 *
 * Invariant: one such query at a time; server->task says which.
 */
#include "backend/task.h"

#include "base/assert.h"
#include "conn/journal.h"
#include "pg/build.h"

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
