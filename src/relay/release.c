/*
 * The release of a server. Only release_decide() decides whether the server of a link is free, and
 * this file carries the verdict out.
 *
 * A server is free when it owes nothing, is in no transaction, and both sides are between two
 * messages. With session_state = full it must also have no state of its client that is unknown or
 * cannot move.
 *
 * In the order of time, for a client in transaction mode:
 *
 * 1. The last answer has been forwarded. release_check() collects the facts (struct release_view),
 *    and mostly the verdict is RELEASE_RETURN: give_back() ends the link.
 * 2. The client may have changed its session, for example by SET: RELEASE_ASK. must_continue()
 *    sends a question about the session, and the answer leads back here. If the session then has
 *    state that cannot move, such as a temporary table, the client keeps its server.
 * 3. The ledger does not know whether the server owes an answer, after a failed COPY:
 *    RELEASE_SETTLE sends an empty query, whose answer shows it. If it can never be known, the
 *    client gets another server (RELEASE_MOVE).
 * 4. After the link the server waits in server_release() (state/server_session.c) for cancel
 *    requests that are on their way to it, because they would cancel the next client's query. Then
 *    it executes server_reset_query, or is idle at once.
 *
 * At its end a client leaves its server in the same way: release_ended_client() is called by the
 * reap, and RELEASE_FINISH lets a query end without its client (finish.c).
 *
 * A link ends in the mode in which it began (link_facts.shares_server), even if pool_mode has
 * changed: the session of a link that began in session mode may have state that no other client may
 * see.
 *
 * Invariant: a server without a client owes no client anything, and is in no transaction.
 */
#include "relay/release.h"

#include "base/assert.h"
#include "base/inline.h"
#include "cancel/cancel.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "relay/request.h"
#include "prepared/prepared.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "state/session_values.h"
#include "state/task.h"

#include <string.h>

/* ---- the decision ---- */

static ALWAYS_INLINE bool is_clean(const struct release_view *v)
{
	return !v->owes && !v->in_transaction && !v->has_task && !v->said_fatal && !v->in_answer &&
	       !v->holds_input && !v->has_unsent && !v->in_message;
}

static ALWAYS_INLINE struct release decide_return(const struct release_view *v)
{
	if (v->leaves_state && !v->needs_reset)
		return (struct release){ RELEASE_CLOSE,
					 "the state of the client stays in the session" };
	if (v->is_spent)
		return (struct release){ RELEASE_CLOSE, "the server is to be closed" };
	if (v->needs_reset)
		return (struct release){ RELEASE_RESET, "server_reset_query" };
	return (struct release){ RELEASE_RETURN, "the server is free" };
}

static ALWAYS_INLINE struct release decide_for_ended_client(const struct release_view *v)
{
	bool is_settling = v->has_task ? v->task_ends_alone : v->in_doubt;

	if (v->is_stream)
		return (struct release){ RELEASE_CLOSE,
					 "a replication connection serves one client" };
	if (is_clean(v))
		return decide_return(v);
	/* a cancel request would cancel the query that settles the doubt */
	if (is_settling && !v->in_transaction && !v->is_canceled && !v->said_fatal &&
	    !v->in_answer && !v->has_unsent && !v->in_message)
		return (struct release){ RELEASE_SETTLE, "only the pooler waits for an answer" };
	if (v->may_finish && !v->has_task && !v->is_lost && !v->said_fatal &&
	    (!v->in_message || v->in_copy_data))
		return (struct release){ RELEASE_FINISH, "client_gone" };
	return (struct release){ RELEASE_CLOSE, "a query or transaction has not ended" };
}

/* The server owes something, or a message is incomplete. */
static struct release decide_for_busy(const struct release_view *v)
{
	bool at_boundary = !v->in_transaction && !v->has_task && !v->in_message && !v->holds_first;

	/* not within a batch: answers to the batch may be missing, and no other server has the
	   first messages of the batch */
	if (v->is_lost && at_boundary && !v->in_batch && !(v->has_state && v->is_pinned))
		return v->has_state
			       ? (struct release){ RELEASE_PIN,
						   "the owed answers are unknown, and the session "
						   "has state of the client" }
			       : (struct release){ RELEASE_MOVE, "the owed answers are unknown" };
	if (v->in_doubt && at_boundary)
		return (struct release){ RELEASE_SETTLE, "it is in doubt which answers are owed" };
	return (struct release){ RELEASE_KEEP,
				 "an answer, a transaction or a message is incomplete" };
}

ALWAYS_INLINE struct release release_decide(const struct release_view *v)
{
	if (v->client_ends)
		return decide_for_ended_client(v);
	if (!v->shares_server)
		return (struct release){ RELEASE_KEEP, "session mode" };
	if (v->is_stopped)
		return (struct release){ RELEASE_KEEP, "the connection is ending" };
	if (!is_clean(v))
		return decide_for_busy(v);
	/* The server has been prepared for this request, for example by SETs. If it went to the
	   next client now, which needs other SETs, no request would ever be sent. */
	if (v->is_about_to_send)
		return (struct release){ RELEASE_KEEP, "the client has sent its next request" };
	if (v->has_state)
		return (struct release){ RELEASE_ASK, "the session may have state of the client" };
	return decide_return(v);
}

/* ---- the view ---- */

/* Whether the server has a part of a message of the client. Then it can get no other message before
   the rest, and is not free. */
static ALWAYS_INLINE bool is_within_message(const struct client *c)
{
	return (c->peer.passing > 0 && !c->peer.passing_dropped) || c->half_sent;
}

/* Whether the client holds a request, and the server has not got it. An incomplete request does not
   count, because its rest may never arrive. */
static bool is_about_to_send(const struct client *c)
{
	struct pg_frame f;

	return bytes_size(&c->peer.held) >= PG_HEADER &&
	       (pg_frame_look(bytes_front(&c->peer.held), bytes_size(&c->peer.held),
			      PG_LENGTH_LIMIT, &f) != PG_OK ||
		!prepared_is_incomplete(&f));
}

/* Whether server_reset_query runs after the link. */
static ALWAYS_INLINE bool needs_reset(const struct server *s, const struct client *c,
				      bool leaves_state)
{
	if (leaves_state)
		return !server_has_lasting_query(s) && server_wants_reset(s, true);
	return server_wants_reset(s, !c->link_facts.shares_server ||
					     s->pooled.pool->allowed.mode == MODE_SESSION);
}

static ALWAYS_INLINE struct release_view view_of(const struct server *s, const struct client *c)
{
	struct release_view v = {
		.shares_server = c->link_facts.shares_server,
		.is_stream = c->login_facts.replication,
		.is_stopped = peer_is_stopped(&s->peer),
		.owes = !ledger_is_empty(&s->ledger),
		.in_doubt = ledger_is_in_doubt(&s->ledger),
		.is_lost = s->ledger.lost,
		.in_batch = s->ledger.open,
		.in_transaction = s->status != 'I',
		.has_task = s->task,
		.task_ends_alone = s->task && s->task->ends_alone,
		.said_fatal = s->said_fatal,
		.in_answer = s->peer.passing > 0,
		.holds_input = bytes_size(&s->peer.held) > 0,
		.holds_first = s->peer.held_first,
		.has_unsent = stream_unsent(&s->peer.stream) > 0,
		.in_message = is_within_message(c),
		.is_canceled = s->pooled.cancels > 0,
		.has_state = s->session.dirty | c->pooled.pins,
		.is_pinned = c->pooled.pins & PIN_PARAMETERS,
	};

	/* the remaining facts cost calls, and are needed for a clean server only */
	if (is_clean(&v)) {
		/* after a read on a standby, the next request may need the primary; the first
		   request of a link is for this server */
		v.is_about_to_send = is_about_to_send(c) && !request_step_in(c, REQUEST_IN_READ) &&
				     (c->activity.last <= c->pooled.since ||
				      c->pooled.pool->targets >> c->pooled.target & 1);
		v.needs_reset = needs_reset(s, c, false);
		v.is_spent = pool_server_is_spent(&s->pooled, s->peer.world->now) != REASON_NONE;
	}
	return v;
}

bool server_is_clean(const struct server *s)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && !s->task && !s->said_fatal &&
	       s->peer.passing == 0 && bytes_size(&s->peer.held) == 0 &&
	       stream_unsent(&s->peer.stream) == 0 &&
	       (!s->pooled.link || !is_within_message(client_of(s->pooled.link)));
}

/* ---- the verdicts ---- */

/* The server has nothing more to do for its client: removes the client's traces. */
static ALWAYS_INLINE void release_part(struct server *s, struct client *c, bool is_reset)
{
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS);
	flow_unblock(&s->peer, FLOW_ROOM);
	/* cancel requests that nothing carries yet have nothing left to cancel */
	cancel_query_over(s);
	s->last_client_pid = c->cancel_key.pid;
	server_reset_to(s, is_reset);
	session_set_clean(s, UINT16_MAX);
	if (s->notifies)
		s->notified = ++s->peer.world->notify.releases;
	if (c->prepared) {
		c->prepared->unnamed_types.in_doubt |= s->session.meaning_in_doubt;
		prepared_client_trim(c);
	}
	server_trust_meaning(s);
}

/* RELEASE_RETURN, RELEASE_RESET, RELEASE_CLOSE: the server is clean. After RELEASE_CLOSE it is idle
   until server_release() ends it, because pool_server_is_spent() has a reason. */
static ALWAYS_INLINE void give_back(struct server *s, struct client *c, enum release_what what,
				    bool client_ends)
{
	enum server_state next;

	/* the reason, such as PAUSE, may be over before the cancel requests are, and the session is
	   not reset */
	if (what == RELEASE_CLOSE && s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled,
					pool_server_is_spent(&s->pooled, s->peer.world->now));
	release_part(s, c, what == RELEASE_RESET);
	next = server_next_state(s);
	pool_unlink(&s->pooled, next, client_ends, s->peer.world->now);
	if (next != SERVER_IDLE || what == RELEASE_CLOSE)
		server_release(s);
}

/* The server is clean, and has nothing of its client but the channels: it becomes SERVER_LISTENING,
   without a client. */
static void become_listening(struct server *s, struct client *c)
{
	pool_client_pin(&c->pooled, 0);
	flow_unblock(&c->peer, FLOW_HELD);
	release_part(s, c, server_wants_reset(s, s->pooled.pool->allowed.mode == MODE_SESSION));
	pool_unlink(&s->pooled, SERVER_LISTENING, false, s->peer.world->now);
	pool_mark(s->pooled.pool);
}

/*
 * After all other messages the server gets a query of pgweir's own: the parameters of an empty
 * statement are described, and the server returns their types as they were given. It answers this
 * in any state of a transaction, executes nothing, and logs nothing. All messages before that
 * answer are the client's. The end of the connection would not prove this: it looks the same if the
 * server has crashed or was killed while it worked. pgweir must not close its half of the
 * connection either, because with client_connection_check_interval PostgreSQL cancels the query
 * then.
 *
 * Terminate follows, so that the server ends even if it does not reach the query. In the middle of
 * a COPY it ends the COPY.
 *
 * A client that imitates the answer deceives only itself.
 */
/* four types */
#define MARK 'p', 'g', 'w', 'e', 'i', 'r', ':', ' ', 'a', 'l', 'l', ' ', 's', 'a', 'i', 'd'

static const uint8_t question[] = {
	PGC_PARSE, 0, 0, 0, 24, 0, 0, 0, 4, MARK,
	PGC_DESCRIBE, 0, 0, 0, 6, PG_OF_STATEMENT, 0,
	PGC_SYNC, 0, 0, 0, 4,
	PGC_TERMINATE, 0, 0, 0, 4,
};
/* this part of the answer is unlike any other message */
static const uint8_t reply[] = {
	PGS_PARSE_COMPLETE, 0, 0, 0, 4,
	PGS_PARAMETER_TYPES, 0, 0, 0, 22, 0, 4, MARK,
};

/* RELEASE_MOVE. */
static NEVER_INLINE void move_client(struct server *s)
{
	prepared_lose(s, client_of(s->pooled.link));
	if (stream_write_bytes(&s->peer.stream, question, sizeof(question)))
		server_task_to(s, &task_leave);
	else
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

enum pg_verdict release_look_for_reply(const struct server *s, const uint8_t *at, size_t n)
{
	size_t look = n < sizeof(reply) ? n : sizeof(reply);

	if (s->task != &task_leave || memcmp(at, reply, look) != 0)
		return PG_BAD;
	return look < sizeof(reply) ? PG_MORE : PG_OK;
}

/* RELEASE_ASK: the transaction is over, and the client has state there, or may have. Takes the next
   step: a question, or a move of channels. False: the client has no state that needs this
   server. */
static NEVER_INLINE bool must_continue(struct server *s, struct client *c)
{
	if (session_state_ask(s))
		return true;
	switch (c->pooled.listens ? notify_client_move(s, c) : NOTIFY_MOVE_NONE) {
	case NOTIFY_MOVE_NONE:
		break;
	case NOTIFY_MOVE_SERVER:
		become_listening(s, c);
		notify_server_begin(c->session->notify_client->notify_server, s,
				    c->session->notify_client);
		return true;
	case NOTIFY_MOVE_CHANNELS:
		return true;
	}
	return session_state_keeps_server(c);
}

static enum task_end barrier_done(struct server *s, bool failed)
{
	(void)failed;
	return s->pooled.link ? TASK_END_RESUME : TASK_END_RELEASE;
}

const struct server_task task_barrier = {
	.name = "settle",
	.description = "an empty query",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.ends_alone = true,
	.on_done = barrier_done,
};

const struct server_task task_leave = {
	.name = "leave",
	.description = "a last question",
	.states = TASK_IN(ACTIVE),
	.serves_client = true,
};

/* ---- when ---- */

/* The client has the server for its session, and has set application_name without the address. A
   failure has no effect: pgweir tries again after the next query. */
static NEVER_INLINE void release_add_host(struct server *s, const struct client *c)
{
	struct world *w = s->peer.world;
	const char *has = params_get(s->params, PARAM_APPLICATION_NAME),
		   *wants = params_get(c->params, PARAM_APPLICATION_NAME);
	const struct params *set;
	struct bytes sql = BYTES_EMPTY;

	if (c->login_facts.replication || !server_is_clean(s) || !has || !wants ||
	    strcmp(has, wants) == 0)
		return;
	set = params_with(w->params, s->params, PARAM_APPLICATION_NAME, wants);
	if (!set) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return;
	}
	params_sql(w->params, s->params, set, 0, NULL, &sql);
	params_drop(w->params, &set);
	server_run_and_free(s, &task_barrier, &sql);
}

/* Carries out each verdict on the server; its client stays. */
static NEVER_INLINE void release_in_steps(struct server *s, struct client *c)
{
	struct release_view view = view_of(s, c);
	struct release release = release_decide(&view);

	if (release.what == RELEASE_PIN) {
		/* the ledger is lost, and the session has state of the client */
		session_keep_server(c, PIN_PARAMETERS, "it has sent a request into a COPY");
		session_state_keeps_server(c);
		view = view_of(s, c);
		release = release_decide(&view);
	}
	if (release.what == RELEASE_ASK) {
		if (must_continue(s, c))
			return;
		view.has_state = false;
		release = release_decide(&view);
	}
	switch (release.what) {
	case RELEASE_KEEP:
	case RELEASE_PIN:
	case RELEASE_ASK:
		return;
	case RELEASE_SETTLE:
		server_run(s, &task_barrier, "");
		return;
	case RELEASE_FINISH:
		break;
	case RELEASE_MOVE:
		move_client(s);
		return;
	case RELEASE_RESET:
	case RELEASE_RETURN:
	case RELEASE_CLOSE:
		give_back(s, c, release.what, false);
		flow_unblock(&c->peer, FLOW_HELD);
	}
}

void release_check(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct release_view view;

	if (!c)
		return;
	if (!c->link_facts.shares_server) {
		if (s->params != c->params &&
		    s->peer.world->conf->settings.application_name_add_host)
			release_add_host(s, c);
		return;
	}
	/* mostly a transaction is open */
	if (s->status != 'I' || s->task)
		return;
	view = view_of(s, c);
	/* nearly all links end so */
	if (is_clean(&view) && release_decide(&view).what == RELEASE_RETURN) {
		give_back(s, c, RELEASE_RETURN, false);
		flow_unblock(&c->peer, FLOW_HELD);
		return;
	}
	release_in_steps(s, c);
}

bool release_yielded(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	struct release_view view = view_of(s, c);
	struct release release;

	/* its pins may be given up */
	view.has_state = s->session.dirty;
	release = release_decide(&view);
	if (release.what != RELEASE_RETURN && release.what != RELEASE_RESET &&
	    release.what != RELEASE_CLOSE)
		return false;
	/* task_values ends the link */
	if (session_values_ask(s, c))
		return true;
	session_values_lost(c);
	pool_client_pin(&c->pooled, 0);
	give_back(s, c, release.what, false);
	flow_unblock(&c->peer, FLOW_HELD);
	return true;
}

/* A walsender within a stream accepts a Terminate; without it, its log tells of a lost standby. */
static void part_from_stream(struct server *s, const struct client *c)
{
	struct bytes out = BYTES_EMPTY;

	if (s->peer.stream.phase != STREAM_OPEN || c->peer.passing > 0 ||
	    stream_unsent(&s->peer.stream) > 0)
		return;
	pg_build(&out, 'X', NULL, 0);
	if (!out.failed)
		stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
}

/* The server of an ended client cannot be kept: a query or transaction has not ended, or the client
   has sent another request together with the last one. */
static void end_server(struct server *s, const struct client *c)
{
	enum close_reason why = REASON_CLIENT_NOT_READY;

	if (c->login_facts.replication && server_is_clean(s))
		why = REASON_REPLICATION_OVER;
	/* client_ready() sets both to the same time if further answers are owed after a
	   ReadyForQuery */
	else if (s->status == 'I' && c->activity.query_started != 0 &&
		 c->activity.query_started == c->activity.last)
		why = REASON_CLIENT_IN_QUERY;
	/* if it owes nothing, the reap sends Terminate */
	if (c->login_facts.replication && !ledger_is_empty(&s->ledger))
		part_from_stream(s, c);
	server_end_leaving(s, why, true);
}

void release_ended_client(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	struct world *w = s->peer.world;
	struct release_view view;
	struct release release;
	bool was_clean;

	if (s->task == &task_hear)
		server_task_to(s, NULL);
	view = view_of(s, c);
	view.client_ends = true;
	view.leaves_state = view.has_state;
	view.may_finish = w->conf->settings.client_gone != CLIENT_GONE_CLOSE &&
			  w->drain.step != DRAIN_NOW;
	/* while the server reads COPY data, an incomplete message is CopyData */
	view.in_copy_data = s->ledger.copy_in && !c->half_sent && c->peer.passing <= READ_BUFFER;
	view.needs_reset = needs_reset(s, c, view.leaves_state);
	was_clean = is_clean(&view);
	release = release_decide(&view);
	if (view.is_stream || (release.what == RELEASE_CLOSE && !was_clean)) {
		end_server(s, c);
		return;
	}
	peer_become(&s->peer, PEER_STAYS);
	if (view.leaves_state && !view.needs_reset && s->pooled.close_reason == REASON_NONE)
		pool_server_close_later(&s->pooled, REASON_STATE_STAYS);
	if (release.what == RELEASE_SETTLE) {
		release_part(s, c, view.needs_reset);
		pool_unlink(&s->pooled, SERVER_TESTED, true, s->peer.world->now);
		if (!s->task)
			server_run(s, &task_barrier, "");
	} else if (release.what == RELEASE_FINISH) {
		s->last_client_pid = c->cancel_key.pid;
		server_reset_to(s, view.needs_reset);
		pool_unlink(&s->pooled, SERVER_FINISHING, true, w->now);
		finish_begin(s, view.in_message ? c->peer.passing : 0,
			     c->peer.end_reason == REASON_CLIENT_CLOSE);
	} else {
		give_back(s, c, release.what, true);
	}
	/* an event of the server may have been ignored */
	if (release.what == RELEASE_FINISH && bytes_size(&s->peer.held) > 0)
		peer_hold_first(&s->peer);
	if (bytes_size(&s->peer.held) > 0 || stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}
