/*
 * A link: a server connection lent to a client, from the parameters it begins with to the state it is left in.
 *
 * Between two links a server has no client, owes nothing and is in no transaction (server_is_clean). What is not
 * clean when its client leaves is closed: it cannot be known what it would say next. What is clean may still
 * have to wait for cancel requests that aim at it, and for the reset query.
 *
 * A link goes on in the mode in which it began (client->shares_server, shares_names): pool_mode may be changed meanwhile, but a client that has been given
 * a session of its own may have filled it with things that no other client may meet, and that it counts on.
 */
#include "relay/link.h"

#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/notifier.h"
#include "state/session_functions.h"
#include "state/session_params.h"
#include "state/session_restore.h"
#include "state/session_state.h"
#include "state/task.h"
#include "base/assert.h"
#include "base/inline.h"
#include "cancel/cancel.h"
#include "login/login.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "prepared/prepared.h"
#include "relay/relay.h"

#include <string.h>

/* Session mode may have come after it prepared statements that others share: a session of its own would not know them. */
bool link_will_share(const struct client *c)
{
	return !c->replication && (pool_mode_of(c->pooled.pool) != MODE_SESSION || (c->prepared && c->prepared->names));
}

void link_state_begin(struct server *s, struct client *c)
{
	session_state_begin(s, c);
	if (c->keeps_state && session_functions_are_due(c->pooled.pool, s->peer.world->now))
		s->unknown |= UNKNOWN_FUNCTIONS;
}

/* The login of the client is over. False: it has ended, or has no server: the pool mode has changed while it waited. */
static bool welcome(struct server *s, struct client *c)
{
	if (!login_link_welcome(s, c))
		return false;
	link_end_if_clean(s);
	return c->pooled.link != NULL;
}

/* The server has the parameters of another client, or unknown ones. As link_begin. */
static bool bring_params(struct server *s, struct client *c)
{
	if (c->login && !login_link_begin(s, c))
		return false;
	/* the client has parameters now, and may have sent its first queries already */
	if (c->login && pool_keeps_state(c->pooled.pool))
		link_state_begin(s, c);
	return session_restore_begin(s, c, false) && (!c->login || welcome(s, c));
}

bool link_begin(struct server *s, struct client *c)
{
	c->shares_server = c->shares_names = link_will_share(c);
	c->keeps_state = false;
	if (pool_keeps_state(c->pooled.pool))
		link_state_begin(s, c);
	else
		s->values_of = VALUES_MIXED;
	/* what it prepares then goes past the books */
	if (!c->shares_names) {
		s->unnamed_of = 0;
		s->roles_prepared = s->meanings_prepared = true;
	}
	s->peer.request_at = s->peer.world->now_wall;
	s->said_fatal = false;
	if (s->doubted_by && s->doubted_by != c->peer.id)
		s->unknown |= UNKNOWN_SESSION | UNKNOWN_ROLE;
	return (s->params == c->params && !s->unknown) || bring_params(s, c);
}

/* ---- the end of a link ---- */

/* The client stands between two messages: another one may be put in front of its next. */
static bool is_between_messages(const struct client *c)
{
	return (c->peer.passing == 0 || c->peer.passing_dropped) && !c->half_sent;
}

/* It has sent a request that has not gone to the server yet, because the server was being prepared for it: the next thing in
   this turn. A server that was given back now would be prepared for the next in the queue, and given back, and so on for ever. Of
   one that has sent the beginning of a request it is not known whether the rest comes. */
static bool is_about_to_send(const struct client *c)
{
	struct pg_frame f;

	return bytes_size(&c->peer.held) >= PG_HEADER &&
	       (pg_frame_look(bytes_front(&c->peer.held), bytes_size(&c->peer.held), PG_LENGTH_LIMIT, &f) != PG_OK || !prepared_lacks(&f));
}

static ALWAYS_INLINE bool is_clean(const struct server *s)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	return ledger_is_empty(&s->ledger) && s->status == 'I' && !s->task && !s->said_fatal && s->peer.passing == 0 &&
	       bytes_size(&s->peer.held) == 0 && stream_unsent(&s->peer.stream) == 0 && (!c || is_between_messages(c));
}

bool server_is_clean(const struct server *s)
{
	return is_clean(s);
}

/* The client has had all its answers, and only the doubt is left that an empty query ends (task_barrier), which the server can do by
   itself. Not with a cancel request at it, which would cancel that. */
static bool may_finish_alone(const struct server *s)
{
	bool is_settling = s->task ? s->task->ends_alone : ledger_is_in_doubt(&s->ledger);

	return is_settling && s->status == 'I' && s->pooled.cancels == 0 && !s->said_fatal && s->peer.passing == 0 &&
	       stream_unsent(&s->peer.stream) == 0 && is_between_messages(client_of(s->pooled.link));
}

static bool server_may_part(const struct server *s)
{
	return is_clean(s) || may_finish_alone(s);
}

/* What the client has made there is nothing to another one. */
static NEVER_INLINE void state_is_left(struct server *s)
{
	s->state_doubts = 0;
	s->needs_reset = !server_close_if_reset(s) && server_wants_reset(s, true);
	if (!s->needs_reset && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_STATE_STAYS;
}

/* The server has nothing more to do for its client; its traces are removed. */
static ALWAYS_INLINE void leave_client(struct server *s)
{
	struct client *c = client_of(s->pooled.link);

	flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS);
	flow_unblock(&s->peer, FLOW_ROOM);
	/* requests that nothing carries yet have nothing left to cancel */
	cancel_query_over(s);
	s->told_pid = c->cancel_pid;
	s->needs_reset = server_wants_reset(s, !c->shares_server || pool_mode_of(s->pooled.pool) == MODE_SESSION);
	if (s->state_doubts | c->pooled.pins)
		state_is_left(s);
	if (s->notifies)
		notifier_leaves(s);
	if (c->prepared) {
		c->prepared->meaning.doubted |= s->meaning_in_doubt;
		prepared_client_rests(c);
	}
	s->meaning_in_doubt = false;
}

/* The server is clean. */
static ALWAYS_INLINE void give_back(struct server *s, bool client_dies)
{
	enum server_state next;

	leave_client(s);
	next = server_next_state(s);
	pool_unlink(&s->pooled, next, client_dies, s->peer.world->now);
	/* mostly it is idle and of use: there is nothing to begin */
	if (next != SERVER_IDLE || pool_server_is_spent(&s->pooled, s->peer.world->now) != REASON_NONE)
		server_enter(s, next);
}

bool link_yield(struct server *s)
{
	struct client *c = client_of(s->pooled.link);

	if (peer_is_stopped(&s->peer) || peer_is_stopped(&c->peer) || !is_clean(s) || s->state_doubts || is_about_to_send(c) || s->ledger.lost ||
	    ledger_is_in_doubt(&s->ledger))
		return false;
	pool_client_pin(&c->pooled, 0);
	give_back(s, false);
	flow_unblock(&c->peer, FLOW_HELD);
	return true;
}

/* The server is clean, and has nothing of its client but the channels: it becomes SERVER_LISTENING, without a client. */
static void link_leave_to_listener(struct server *s)
{
	pool_client_pin(s->pooled.link, 0);
	s->state_doubts = 0;
	flow_unblock(&client_of(s->pooled.link)->peer, FLOW_HELD);
	leave_client(s);
	pool_unlink(&s->pooled, SERVER_LISTENING, false, s->peer.world->now);
	pool_mark(s->pooled.pool);
}

/* The server goes on without its client, until server_task_over. */
static NEVER_INLINE void finish_alone(struct server *s)
{
	leave_client(s);
	pool_unlink(&s->pooled, SERVER_TESTED, true, s->peer.world->now);
	if (!s->task)
		server_run(s, &task_barrier, "");
}

/* Why link_break ends a server that may not be kept: the word for a transaction or query that has not ended, or that for one more
   request which was sent together with it. */
static enum close_reason link_reason_unclean(const struct server *s)
{
	const struct client *c = client_of(s->pooled.link);

	/* client_ready() sets both to the same time when more is owed behind a ReadyForQuery */
	if (s->status == 'I' && c->query_started != 0 && c->query_started == c->last_active)
		return REASON_CLIENT_IN_QUERY;
	return REASON_CLIENT_NOT_READY;
}

/* A walsender in the middle of a stream reads on, and understands a Terminate; without one its log tells of a standby lost. */
static void part_from_stream(struct server *s, const struct client *c)
{
	struct bytes out = BYTES_EMPTY;

	if (s->peer.stream.phase != STREAM_OPEN || c->peer.passing > 0 || stream_unsent(&s->peer.stream) > 0)
		return;
	pg_build_terminate(&out);
	if (!out.failed)
		stream_write_bytes(&s->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
}

static void end_replication(struct server *s)
{
	bool is_over = server_is_clean(s);

	/* one that owes nothing is told by server_end_leaving, as any other */
	if (!ledger_is_empty(&s->ledger))
		part_from_stream(s, client_of(s->pooled.link));
	server_end_leaving(s, is_over ? REASON_REPLICATION_OVER : link_reason_unclean(s), true);
}

void link_break(struct server *s)
{
	if (s->task == &task_hear)
		server_task_to(s, NULL);
	if (client_of(s->pooled.link)->replication) {
		end_replication(s);
		return;
	}
	if (!server_may_part(s)) {
		server_end_leaving(s, link_reason_unclean(s), true);
		return;
	}
	peer_become(&s->peer, PEER_STAYS);
	if (server_is_clean(s))
		give_back(s, true);
	else
		finish_alone(s);
	/* an event of it may have been ignored */
	if (bytes_size(&s->peer.held) > 0 || stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}

/* ---- a server with a lost account ---- */

/* Not in the middle of a batch: its answers may not have been sent yet, and no other server would know what its rest is about. */
static bool may_part(const struct server *s)
{
	return !s->task && s->status == 'I' && !s->ledger.open && client_of(s->pooled.link)->shares_server;
}

/* No other server would have what the client has made there. */
static bool has_state(const struct server *s)
{
	return s->state_doubts | client_of(s->pooled.link)->pooled.pins;
}

bool link_may_leave(const struct server *s)
{
	return may_part(s) && !has_state(s);
}

/*
 * Behind all that the server has been asked goes a question of the pooler's own, which is answered in any state of a transaction, runs
 * nothing and is in no log: an empty statement's parameters are described, and their types come back as they were given. What comes
 * before that answer is the client's, and it is all. The end of the connection would not say so: it looks the same when the server has
 * died, or has been killed, in the middle of its work. Nor may our half of the connection be closed before, because with
 * client_connection_check_interval PostgreSQL takes that for the end of its client, and of the query.
 *
 * Terminate follows, so that a server that does not come to the question ends all the same. In the middle of a COPY it is that.
 *
 * A client that imitates the answer deceives only itself.
 */
#define MARK 'p', 'g', 'w', 'e', 'i', 'r', ':', ' ', 'a', 'l', 'l', ' ', 's', 'a', 'i', 'd'	/* four types */

static const uint8_t question[] = {
	PGC_PARSE, 0, 0, 0, 24, 0, 0, 0, 4, MARK,
	PGC_DESCRIBE, 0, 0, 0, 6, PG_OF_STATEMENT, 0,
	PGC_SYNC, 0, 0, 0, 4,
	PGC_TERMINATE, 0, 0, 0, 4,
};
/* so much of the answer is unlike any other */
static const uint8_t reply[] = {
	PGS_PARSE_COMPLETE, 0, 0, 0, 4,
	PGS_PARAMETER_TYPES, 0, 0, 0, 22, 0, 4, MARK,
};

static NEVER_INLINE void leave(struct server *s)
{
	prepared_lose(s, client_of(s->pooled.link));
	if (!stream_write_bytes(&s->peer.stream, question, sizeof(question))) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	server_task_to(s, &task_leave);
}

enum pg_verdict link_look_for_reply(const struct server *s, const uint8_t *at, size_t n)
{
	size_t look = n < sizeof(reply) ? n : sizeof(reply);

	if (s->task != &task_leave || memcmp(at, reply, look) != 0)
		return PG_BAD;
	return look < sizeof(reply) ? PG_MORE : PG_OK;
}

void link_all_said(struct server *s)
{
	struct client *c = client_of(s->pooled.link);

	/* no other server would know its transaction */
	if (s->status != 'I' || s->ledger.answered || s->said_fatal) {
		server_end(s, REASON_ACCOUNT_LOST, NULL);
		return;
	}
	server_end_leaving(s, REASON_ACCOUNT_LOST, false);
	client_resume(c);
}

/* The transaction is over, and the client has made something there, or may have. False: it has nothing there any more. */
static NEVER_INLINE bool link_must_continue(struct server *s, struct client *c)
{
	session_state_leave_channels(s, c);
	if (session_state_is_in_doubt(s)) {
		session_state_ask(s);
		return true;
	}
	switch (c->hears ? notify_client_move(s, c) : NOTIFY_MOVE_NONE) {
	case NOTIFY_MOVE_NONE:
		break;
	case NOTIFY_MOVE_SERVER:
		link_leave_to_listener(s);
		notify_server_begin(c->session->notify_client->notify_server, s, c->session->notify_client);
		return true;
	case NOTIFY_MOVE_CHANNELS:
		return true;
	}
	return session_state_keeps_server(c);
}

/* The client has the server for its session, and has set application_name without the address. A failure has no effect: pgweir tries again after the
   next query. */
static NEVER_INLINE void add_host(struct server *s, const struct client *c)
{
	struct world *w = s->peer.world;
	const char *has = params_get(s->params, PARAM_APPLICATION_NAME), *wants = params_get(c->params, PARAM_APPLICATION_NAME);
	const struct params *set;
	struct bytes sql = BYTES_EMPTY;

	if (c->replication || peer_is_stopped(&s->peer) || !is_clean(s) || !has || !wants || strcmp(has, wants) == 0)
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

void link_end_if_clean(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (!c)
		return;
	if (!c->shares_server) {
		if (s->params != c->params && s->peer.world->conf->settings.application_name_add_host)
			add_host(s, c);
		return;
	}
	/* what it has said already goes to the client first: a query of the pooler's own may find its end */
	if (s->ledger.lost && !s->peer.held_first && may_part(s) && is_between_messages(c)) {
		/* it cannot be asked what that is: such a client stays, as one whose parameters are not known */
		if (!has_state(s))
			leave(s);
		else
			session_state_is_lost(c);
	}
	if (ledger_is_in_doubt(&s->ledger) && !s->peer.held_first && s->status == 'I' && !s->task && is_between_messages(c))
		server_run(s, &task_barrier, "");
	if (peer_is_stopped(&s->peer) || !is_clean(s) || is_about_to_send(c))
		return;
	if (s->state_doubts | c->pooled.pins && link_must_continue(s, c))
		return;
	give_back(s, false);
	flow_unblock(&c->peer, FLOW_HELD);
}

/* ---- the pooler's own queries ---- */

void link_resume(struct server *s, struct client *c)
{
	link_end_if_clean(s);
	if (peer_is_stopped(&c->peer))
		return;
	/* on its way to the listener of the pool */
	if (c->pooled.link && s->task != NULL)
		return;
	if (c->pooled.link) {
		if (!c->pooled.pins)
			link_state_begin(s, c);
		if ((s->params != c->params || s->unknown & (UNKNOWN_FUNCTIONS | UNKNOWN_CHANNELS)) && !session_restore_begin(s, c, false))
			return;
	}
	client_resume(c);
}

static enum task_end barrier_done(struct server *s, bool failed)
{
	(void)failed;
	return s->pooled.link ? TASK_END_RESUME : TASK_END_RELEASE;
}

const struct server_task task_barrier = {
	.name = "settle", .words = "an empty query", .states = TASK_IN(ACTIVE) | TASK_IN(TESTED), .ends_alone = true, .on_done = barrier_done,
};

const struct server_task task_leave = {
	.name = "leave", .words = "a last question", .states = TASK_IN(ACTIVE), .serves_client = true,
};

void link_task_over(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum task_end end = server_task_end(s);

	if (end == TASK_END_RESTORE)
		end = session_restore_begin(s, c, false) ? session_restored(s, false) : TASK_END_NOTHING;
	switch (end) {
	case TASK_END_NOTHING:
	case TASK_END_RESTORE:
		return;
	case TASK_END_RELEASE:
		server_release(s);
		return;
	case TASK_END_LINK:
		link_resume(s, c);
		return;
	case TASK_END_RESTORED:
		if (c->login && !welcome(s, c))
			return;
		client_resume(c);
		cancel_release_waiting(c);
		return;
	case TASK_END_PARTED:
		if (c->login) {
			login_link_again(c);
			return;
		}
		break;
	case TASK_END_RESUME:
		break;
	}
	client_resume(c);
}

void link_posted(struct client *c, unsigned posted)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (posted & POST_READY && s) {
		notify_client_send_ready(s, c);
		link_end_if_over(s);
		c->peer.held_first = bytes_size(&c->peer.held) > 0;
		flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS | FLOW_HELD);
	} else if (posted & POST_LINK && s && c->hears && server_is_clean(s)) {
		link_end_if_over(s);
	}
}
