/*
 * A server whose client has left in a query or a transaction (client_gone): SERVER_FINISHING.
 *
 * pgweir reads and drops the answers to the client, rolls the transaction back, and returns the
 * server to its pool. With client_gone = cancel the tick cancels the query if it does not end by
 * itself, unless the client has sent Terminate: PostgreSQL executes all messages before a
 * Terminate. finish_continue() takes the next step after each answer:
 *
 *	COPY FROM STDIN			CopyFail, with the rest of an incomplete CopyData before it
 *	batch without a Sync		ROLLBACK as a part of the batch, and Sync: a Sync alone
 *					would commit the batch
 *	... that has failed		Sync
 *	transaction			ROLLBACK, after all cancel requests: they would cancel the
 *					ROLLBACK
 *	Syncs of a failed COPY		an empty query, which separates their answers from later
 *					ones
 *
 * Nothing is kept of the answers. Facts about the session that command tags tell are in doubt, and
 * the server is reset or closed for them, because no client can be asked. The server is closed if
 * it does not become free in client_gone_timeout.
 *
 * Invariant: a server in FINISHING has no client, and owes answers, is in a transaction, or
 * executes one of the tasks below.
 */
#include "relay/release.h"

#include "base/assert.h"
#include "base/log.h"
#include "cancel/cancel.h"
#include "pg/build.h"
#include "state/server_session.h"
#include "state/session_state.h"
#include "state/task.h"

/* server->canceled_at of a query that is not to be cancelled */
#define NEVER INT64_MAX
/* a cancel request that arrives between two queries has no effect */
#define CANCEL_AGAIN USEC

static enum task_end finish_done(struct server *s, bool failed)
{
	(void)s, (void)failed;
	/* finish_continue() follows */
	return TASK_END_NOTHING;
}

static const struct server_task task_end_batch = {
	.name = "end batch",
	.description = "ending a batch without a client",
	.states = TASK_IN(FINISHING),
	.on_done = finish_done,
};

static const struct server_task task_rollback = {
	.name = "rollback",
	.description = "ROLLBACK without a client",
	.states = TASK_IN(FINISHING),
	.failure = REASON_CLIENT_NOT_READY,
	.on_done = finish_done,
};

/* Completes the message of the client that is incomplete, which must be CopyData of a COPY FROM
   STDIN: the COPY fails in any case. */
static bool complete_copy_data(struct server *s, uint32_t lacks)
{
	static const uint8_t zeros[4096];
	bool sent = true;

	for (uint32_t n; lacks > 0 && sent; lacks -= n) {
		n = lacks < sizeof(zeros) ? lacks : sizeof(zeros);
		sent = stream_write_bytes(&s->peer.stream, zeros, n);
	}
	return sent;
}

void finish_begin(struct server *s, uint32_t lacks, bool has_terminated)
{
	peer_drop_rest(&s->peer);
	server_note_plain_set(s, 0);
	server_trust_meaning(s);
	s->canceled_at = has_terminated ? NEVER : 0;
	session_set_clean(s, UINT16_MAX);
	flow_unblock(&s->peer, FLOW_ROOM | FLOW_READY);
	if (complete_copy_data(s, lacks))
		finish_continue(s);
	else
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

/* Sends CopyFail. False: the connection is broken, or no memory. */
static bool fail_copy(struct server *s)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	pg_build_string(&out, PGC_COPY_FAIL, "client has disconnected");
	sent = !out.failed && ledger_sent(&s->ledger, PGC_COPY_FAIL, 0, OWED_TO_POOLER) &&
	       stream_write_bytes(&s->peer.stream, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return sent;
}

/* Ends the batch with an error or a ROLLBACK. `has_failed`: the batch fails without the
   ROLLBACK. */
static bool end_batch(struct server *s, bool has_failed)
{
	static const uint8_t rollback[] = {
		PGC_PARSE, 0, 0, 0, 16, 0, 'R', 'O', 'L', 'L', 'B', 'A', 'C', 'K', 0, 0, 0,
		PGC_BIND, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0,
		PGC_EXECUTE, 0, 0, 0, 9, 0, 0, 0, 0, 0,
		PGC_SYNC, 0, 0, 0, 4,
	};
	static const uint8_t sync[] = { PGC_SYNC, 0, 0, 0, 4 };
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (has_failed) {
		server_sync_sent(s);
		sent = ledger_sent_marked(&s->ledger, PGC_SYNC, 0, OWED_TO_POOLER, MARK_TASK) &&
		       stream_write_bytes(&s->peer.stream, sync, sizeof(sync));
	} else {
		bytes_append(&out, rollback, sizeof(rollback));
		sent = server_send(s, MARK_TASK, &out);
		bytes_free(&out);
	}
	if (sent)
		server_task_to(s, &task_end_batch);
	return sent;
}

/* The server is free: it is reset, closed, or goes to its pool. */
static void finish(struct server *s)
{
	if (s->session.dirty && !server_has_lasting_query(s) && server_wants_reset(s, true))
		server_reset_to(s, true);
	if (s->session.dirty && !s->needs_reset && s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_STATE_STAYS);
	session_set_clean(s, UINT16_MAX);
	server_trust_meaning(s);
	if (s->notifies)
		s->notified = ++s->peer.world->notify.releases;
	s->pooled.pool->gone_kept++;
	server_release(s);
}

void finish_continue(struct server *s)
{
	struct ledger *l = &s->ledger;
	bool sent = true, fails_copy;

	/* the end of a server without a client makes it SERVER_DEAD at once */
	if (s->pooled.state != SERVER_FINISHING)
		return;
	/* also after the messages of a task, which a COPY of the batch has swallowed */
	if (l->lost) {
		server_end(s, REASON_CLIENT_NOT_READY, NULL);
		return;
	}
	if (s->task)
		return;
	fails_copy = l->copy_in;
	if (fails_copy)
		sent = fail_copy(s);
	if (sent && (l->open || l->skipping))
		sent = end_batch(s, fails_copy || l->skipping);
	if (!sent) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	/* returns if answers are still owed, because this function is called again after each of
	   them */
	if (s->task || !(ledger_is_empty(l) || ledger_is_in_doubt(l)) || s->peer.passing > 0 ||
	    bytes_size(&s->peer.held) > 0 || stream_unsent(&s->peer.stream) > 0)
		return;
	cancel_query_over(s);
	if (s->pooled.cancels > 0)
		return;
	if (s->status != 'I' || ledger_is_in_doubt(l))
		server_run(s, &task_rollback, s->status == 'I' ? "" : "ROLLBACK");
	else
		finish(s);
}

void finish_tick(struct server *s)
{
	const struct settings *set = &s->peer.world->conf->settings;
	usec_t now = s->peer.world->now, since = s->pooled.since;
	char who[256];

	if (set->client_gone_timeout > 0 && now - since >= set->client_gone_timeout) {
		server_end(s, REASON_CLIENT_GONE, NULL);
		return;
	}
	/* the socket may have taken the last bytes */
	finish_continue(s);
	if (s->pooled.state != SERVER_FINISHING || s->task == &task_rollback ||
	    set->client_gone != CLIENT_GONE_CANCEL || now - since < set->client_gone_delay ||
	    (s->canceled_at > 0 && now - s->canceled_at < CANCEL_AGAIN) ||
	    ledger_depth(&s->ledger) == 0 || !cancel_abandoned(s))
		return;
	if (s->canceled_at == 0) {
		s->pooled.pool->gone_cancels++;
		if (set->log_disconnections)
			log_info("%s canceling the query of a client that has left",
				 server_text(s, who, sizeof(who)));
	}
	s->canceled_at = now;
}
