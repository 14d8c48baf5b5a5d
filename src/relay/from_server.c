/*
 * The path of bytes from servers to clients (from_client.c has the other direction).
 *
 * Most traffic takes the short loop (pass_plain): complete answers for the client that need no look
 * at their bodies. walk_server_frames examines the others frame by frame (answer_look,
 * server_message.c).
 *
 * A server's message is crossed off the ledger, which names its receiver: answers for the client
 * are relayed, answers to pgweir's own messages are dropped, and an unexpected answer ends the
 * connection. Only ReadyForQuery, ParameterStatus, some command tags, the process id of a
 * NotificationResponse and the first bytes of an ErrorResponse are read.
 *
 * Invariant: the client gets everything received before the end of the connection, and learns of
 * the end after that.
 */
#include "relay/relay.h"

#include "backend/retire.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "cancel/cancel.h"
#include "conn/gather.h"
#include "pg/message.h"
#include "pool/read_verdicts.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/duration.h"
#include "relay/client_message.h"
#include "relay/offload.h"
#include "relay/release.h"
#include "relay/retry.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_state.h"

#include <stdio.h>

/* ---- the walk ---- */

/* The transaction is over: its changes are visible to other sessions. */
static NEVER_INLINE void apply_changes(struct server *s)
{
	unsigned changes = server_take_changes(s);

	read_definitions_changed(s->pooled.pool->database);
	if (changes & CHANGES_MEANING) {
		s->peer.world->meanings++;
		prepared_meaning_changed(s, false);
	}
	if (changes & CHANGES_SESSIONS)
		retire_sessions(s);
	if (changes & CHANGES_FUNCTIONS)
		prepared_meaning_changed(s, true);
}

static ALWAYS_INLINE void client_ready(struct server *s, struct client *c)
{
	struct world *w = s->peer.world;
	struct stats *total = &c->pooled.pool->database->stats.total;
	enum latency kind = LATENCY_QUERY;
	usec_t took;

	total->query_count++;
	w->queries.count++;
	if (s->status == 'I' && c->activity.transaction_started == c->activity.query_started)
		kind = LATENCY_SINGLE;
	if (c->activity.query_started != 0) {
		took = w->now - c->activity.query_started;
		total->query_time += (uint64_t)took;
		latency_add_fast(c->pooled.pool, kind, took);
		if (took >= w->queries.durations.query)
			duration_log(c, DURATION_QUERY, took);
	}
	/* all requests are answered; the ledger may still have a doubt after a COPY */
	client_ready_sent(c, s->status != 'I', ledger_depth(&s->ledger) == 0 ? 0 : w->now, w->now);
	server_note_plain_set(s, 0);
	if (s->pooled.cancels > 0 && c->activity.query_started == 0)
		cancel_query_over(s);
	if (s->status == 'I') {
		total->xact_count++;
		if (c->activity.transaction_started != 0) {
			took = w->now - c->activity.transaction_started;
			total->xact_time += (uint64_t)took;
			if (kind != LATENCY_SINGLE)
				latency_add_fast(c->pooled.pool, LATENCY_TRANSACTION, took);
			if (took >= w->queries.durations.transaction)
				duration_log(c, DURATION_TRANSACTION, took);
		}
		client_transaction_began(c, c->activity.query_started);
		if (s->session.changes)
			apply_changes(s);
	}
}

/* Whether a statement has left a transaction open in statement mode. */
static bool breaks_statement_mode(const struct server *s)
{
	return s->pooled.pool->allowed.mode == MODE_STATEMENT && s->pooled.link &&
	       s->status != 'I' && !s->task && client_of(s->pooled.link)->link_facts.shares_server;
}

/* Gathers the local replies of pgweir that are due between two messages of the server. */
static void gather_local_replies(struct server *s, struct gather *g)
{
	const void *reply;
	size_t size;

	while (s->prepared && (size = prepared_local_reply(s, &reply)) > 0)
		if (g->to)
			gather_add(g, reply, size);
}

/* ReadyForQuery, `size` bytes of body. */
static ALWAYS_INLINE bool passes_ready(struct server *s, struct client *c, const uint8_t *body,
				       uint32_t size)
{
	if (size != 1 || !pg_is_status(*body) || c->pooled.listens ||
	    s->pooled.pool->allowed.mode == MODE_STATEMENT || !ledger_passes(&s->ledger, PGS_READY))
		return false;
	server_status_received(s, (char)*body);
	client_ready(s, c);
	return true;
}

/* Crosses off the complete answers for the client at the front that pass unread. Returns the number
   of their bytes. */
static size_t pass_plain(struct server *s, struct client *c, const uint8_t *buf, size_t n)
{
	const uint8_t *at = buf, *end = buf + n;
	uint64_t tags = (c->link_facts.keeps_state | c->names_sql) ? TAG_ANY_SIZE : TAG_SIZES;

	while (end - at >= PG_HEADER) {
		uint8_t type = *at;
		uint32_t size;

		if (!pg_frame_is_here(at, (size_t)(end - at), &size))
			break;
		if (type == PGS_READY) {
			if (!passes_ready(s, c, at + PG_HEADER, size))
				break;
		} else if ((pg_tag_may_tell(type, size, tags) &&
			    pg_tag_tells(at + PG_HEADER, size) &&
			    pg_tag_read(at + PG_HEADER, size) != TAG_NOTHING) ||
			   !ledger_passes(&s->ledger, type)) {
			break;
		} else if (s->ledger.mark != LEDGER_UNMARKED) {
			prepared_passed(s, c);
		}
		at += PG_HEADER + (size_t)size;
	}
	return (size_t)(at - buf);
}

/* Ends a server after a message of this type that could not be accepted. */
static void end_bad(struct server *s, uint8_t type)
{
	static const char *const states[] = {
#define SERVER_STATE(id, name, next) "SV_" #id,
#include "tbl/server_state.tbl"
#undef SERVER_STATE
	};
	char who[256], packet[8];

	if (s->pooled.close_reason == REASON_NO_MEMORY ||
	    s->pooled.close_reason == REASON_OUTCOME_UNKNOWN) {
		server_end(s, s->pooled.close_reason, NULL);
	} else if (s->pooled.link) {
		server_end(s, REASON_SERVER_BROKEN, NULL);
	} else {
		/* PgBouncer's words */
		log_warning("%s got packet '%s' from server when not linked",
			    server_text(s, who, sizeof(who)),
			    printable_text((char[]){ (char)type, '\0' }, packet, sizeof(packet)));
		server_end(s, REASON_IDLE_DIRTY, states[s->pooled.state]);
	}
}

/* Ends a server after an unexpected fatal error. Its client, if any, continues with another
   server. */
static void end_fatal(struct server *s, const struct gather *g, const struct pg_frame *f)
{
	struct client *spared = s->pooled.link ? client_of(s->pooled.link) : NULL;
	char who[256], text[PRINTABLE_TEXT];
	struct pg_error e;

	if (pg_error_read(f->body, f->here, &e) == PG_OK) {
		s->was_ended = text_starts(e.sqlstate, "57P0");
		if (s->pooled.state == SERVER_IDLE || s->pooled.state == SERVER_USED)
			log_warning("%s got packet 'E' from server when not linked (%.20s %s)",
				    server_text(s, who, sizeof(who)),
				    *e.severity ? e.severity : "ERROR",
				    printable_text(e.message, text, sizeof(text)));
		else
			answer_log_error(s, "server said", &e);
	}
	if (!spared) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	server_end_leaving(s, REASON_SERVER_CRASHED, false);
	if (g->broken)
		client_end(spared, REASON_CLIENT_EOF, NULL);
	else
		client_resume(spared);
}

/* The client listens. Its ReadyForQuery has arrived, and everything before it was sent.
   Notifications come before it. True: it is withheld until the listener has answered (task_hear);
   the client gets POST_READY then. */
static NEVER_INLINE bool holds_ready(struct server *s, struct client *c)
{
	struct notify_client *h = c->session->notify_client;
	struct notify_server *l = h->notify_server;

	if (s->status != 'I')
		return false;
	if (s->task || !l->server) {
		notify_client_flush(c);
		return false;
	}
	h->barrier = l->sent + 1;
	list_append(&l->barriers, &h->waiting);
	notify_server_work(l);
	server_task_to(s, &task_hear);
	/* answers to later messages of the client come after the ReadyForQuery */
	if (!ledger_is_empty(&s->ledger)) {
		flow_block(&s->peer, FLOW_READY);
		peer_forget_again(&s->peer);
	}
	return true;
}

/* The answer to task_leave has arrived, and the client has all earlier messages. The server
   ends. */
static void end_left(struct server *s)
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

/* In statement mode an error replaces a ReadyForQuery that leaves a transaction open, for example
   after a BEGIN. The error answers the statement that broke the rule, even if more statements
   follow. */
static enum verdict take_ready(struct server *s, struct client *c)
{
	client_ready(s, c);
	if (breaks_statement_mode(s))
		return VERDICT_REFUSE;
	return c->pooled.listens && holds_ready(s, c) ? VERDICT_WAIT : VERDICT_PASS;
}

/* Continues a walk: the first `at` bytes are forwarded without a further look. Returns as
   walk_server(). */
static NEVER_INLINE struct walk walk_server_frames(struct server *s, const uint8_t *buf, size_t at,
						   size_t n)
{
	struct gather g;
	enum verdict verdict = VERDICT_PASS;
	struct walk walk;
	struct pg_frame f = { 0, 0, NULL, 0 };
	/* a server without a client is read in small pieces instead */
	uint32_t looks = 0,
		 looks_most = s->pooled.link ? s->peer.world->share.looks_each : UINT32_MAX;
	bool is_cut = false, listens = s->pooled.state == SERVER_LISTENING;

	gather_begin(&g, s->pooled.link ? &client_of(s->pooled.link)->peer.stream : NULL);
	if (at > 0)
		gather_first(&g, buf, at);
	for (; at < n; at += gather_pass(&g, &s->peer, buf + at, n - at)) {
		size_t plain;

		if (s->peer.passing > 0)
			continue;
		plain = g.to ? pass_plain(s, client_of(s->pooled.link), buf + at, n - at) : 0;
		if (plain > 0) {
			gather_add(&g, buf + at, plain);
			at += plain;
			if (at == n)
				break;
		}
		is_cut = looks++ == looks_most ||
			 (listens && !notify_clients_have_share(s->peer.world));
		if (is_cut)
			break;
		gather_local_replies(s, &g);
		/* the client may get the error in other words, at once */
		if (buf[at] == PGS_ERROR && answer_may_be_told(s))
			gather_flush(&g);
		verdict = answer_look(s, buf + at, n - at, &f);
		if (verdict == VERDICT_MORE || verdict == VERDICT_INVALID)
			break;
		if (verdict == VERDICT_READY) {
			/* notifications may precede it */
			if (s->pooled.link->listens)
				gather_flush(&g);
			verdict = take_ready(s, client_of(s->pooled.link));
		}
		peer_begin_frame(&s->peer, &f, verdict != VERDICT_PASS);
		if (verdict == VERDICT_WAIT) {
			at += gather_pass(&g, &s->peer, buf + at, n - at);
			break;
		}
		if (verdict == VERDICT_FATAL || verdict == VERDICT_REFUSE ||
		    verdict == VERDICT_LAST)
			break;
	}
	if (s->peer.passing == 0 && verdict != VERDICT_WAIT)
		gather_local_replies(s, &g);
	/* the client gets these messages before it learns of the end of the connection */
	gather_flush(&g);
	s->pooled.pool->database->stats.total.sent += g.bytes;
	relay_looked(s->peer.world, looks, is_cut);
	walk = (struct walk){ at, is_cut		    ? VERDICT_LATER
				  : verdict == VERDICT_WAIT ? VERDICT_WAIT
							    : VERDICT_PASS };
	if (verdict == VERDICT_INVALID) {
		end_bad(s, buf[at]);
	} else if (verdict == VERDICT_FATAL) {
		end_fatal(s, &g, &f);
	} else if (g.broken && s->pooled.link) {
		client_end(client_of(s->pooled.link), REASON_CLIENT_EOF, NULL);
		return walk;
	} else if (verdict == VERDICT_LAST) {
		end_left(s);
	} else {
		return walk;
	}
	return (struct walk){ 0, VERDICT_GONE };
}

static ALWAYS_INLINE struct walk walk_answer(struct server *s, struct client *c, const uint8_t *buf,
					     size_t n)
{
	size_t at = c && s->peer.passing == 0 ? pass_plain(s, c, buf, n) : 0;

	if (at < n || (s->prepared && ledger_local_reply_is_due(&s->ledger)))
		return walk_server_frames(s, buf, at, n);
	/* usually every answer passes unread */
	s->pooled.pool->database->stats.total.sent += n;
	if (!stream_write_bytes(&c->peer.stream, buf, n))
		client_end(c, REASON_CLIENT_EOF, NULL);
	return (struct walk){ n, VERDICT_PASS };
}

/* Walks the answer of a client with a request; pass_plain() has taken its first `at` bytes;
   `is_owed`: these bytes complete no answer, so another server may still give the answer. Before
   these bytes, the pool had served `ended` transactions. */
static NEVER_INLINE struct walk walk_looking(struct server *s, struct client *c, const uint8_t *buf,
					     size_t at, size_t n, uint64_t ended, bool is_owed)
{
	const struct stats *total = &s->pooled.pool->database->stats.total;
	uint64_t sent = total->sent;
	enum retry_verdict verdict = RETRY_PASS;
	struct walk walk;

	if (s->peer.passing == 0 && offload_is_away(s))
		verdict = offload_look(s, buf, n);
	else if (s->peer.passing == 0 && is_owed && !retry_passes(s, c, buf, n))
		verdict = retry_look(s, buf, n);
	c->request->sent_in = 0;
	if (verdict != RETRY_PASS)
		return (struct walk){ 0, verdict == RETRY_MORE ? VERDICT_PASS : VERDICT_GONE };
	walk = at > 0 ? walk_server_frames(s, buf, at, n) : walk_answer(s, c, buf, n);
	if (total->xact_count != ended)
		pool_client_note_end(&c->pooled, s->peer.world->now);
	if (walk.verdict == VERDICT_GONE || peer_is_stopped(&c->peer))
		return walk;
	if (total->sent != sent)
		request_forwarded(c->request);
	if (ledger_depth(&s->ledger) > 0 || s->ledger.open || offload_is_incomplete(c))
		return walk;
	if (c->request->step == REQUEST_OFFLOADED)
		offload_over(s, walk.used == n && s->peer.passing == 0);
	request_answered(c);
	return walk;
}

/*
 * walk_answer() for a client whose request may be sent to another server.
 *
 * The answer to a Query passes pass_plain() before retry_look() sees it. Only an answer before the
 * end of its first statement may be held back, and pass_plain() removes nothing from the ledger
 * until then, so the same bytes can pass again later.
 */
static ALWAYS_INLINE struct walk walk_of_retry(struct server *s, struct client *c,
					       const uint8_t *buf, size_t n)
{
	struct stats *total = &s->pooled.pool->database->stats.total;
	uint64_t ended = total->xact_count;
	size_t at = 0, depth = ledger_depth(&s->ledger);
	bool is_sent;

	if (s->peer.passing == 0 && c->request->step != REQUEST_OFFLOADED &&
	    (ledger_answers_query(&s->ledger) || retry_passes(s, c, buf, n)))
		at = pass_plain(s, c, buf, n);
	if (at < n || !ledger_is_empty(&s->ledger) || s->ledger.open)
		return walk_looking(s, c, buf, at, n, ended, ledger_depth(&s->ledger) == depth);
	/* usually the answer is complete, and has no error */
	total->sent += n;
	is_sent = stream_write_bytes(&c->peer.stream, buf, n);
	if (total->xact_count != ended)
		pool_client_note_end(&c->pooled, s->peer.world->now);
	if (!is_sent)
		client_end(c, REASON_CLIENT_EOF, NULL);
	else
		request_answered(c);
	return (struct walk){ n, VERDICT_PASS };
}

/* Walks n bytes. VERDICT_PASS, VERDICT_LATER, VERDICT_WAIT (a ReadyForQuery is held back) or
   VERDICT_GONE. */
static ALWAYS_INLINE struct walk walk_server(struct server *s, const uint8_t *buf, size_t n)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	return c && c->request ? walk_of_retry(s, c, buf, n) : walk_answer(s, c, buf, n);
}

/* Acts on the messages of a walk. False: the server is not read further now. */
static bool server_may_go_on(struct server *s)
{
	struct client *c;

	if (peer_is_stopped(&s->peer))
		return false;
	if (s->task_answered) {
		s->task_answered = false;
		link_task_over(s);
	}
	if (!s->pooled.link) {
		if (s->pooled.state == SERVER_FINISHING && s->status == 'I' && s->session.changes)
			apply_changes(s);
		finish_continue(s);
		return s->pooled.state != SERVER_DEAD;
	}
	c = client_of(s->pooled.link);
	if (breaks_statement_mode(s)) {
		server_end(s, REASON_STATEMENT_MODE, NULL);
		return false;
	}
	if (c->peer.blocked & (FLOW_ROOM | FLOW_ANSWERS) && stream_unsent(&s->peer.stream) == 0 &&
	    ledger_depth(&s->ledger) < RELAY_DEEPEST / 2)
		client_resume(c);
	if (stream_unsent(&c->peer.stream) > 0) {
		flow_block(&s->peer, FLOW_ROOM);
		release_if_over(s);
		return false;
	}
	release_if_over(s);
	return !peer_is_stopped(&s->peer);
}

/* A walk has ended, and bytes are held. */
static NEVER_INLINE void stop_at(struct server *s, enum verdict verdict)
{
	/* a ReadyForQuery is held back, and precedes these bytes: POST_READY continues */
	if (verdict == VERDICT_WAIT)
		return;
	peer_hold_first(&s->peer);
	if (server_may_go_on(s))
		peer_come_again(&s->peer);
}

/* The connection is lost, after `held` bytes in the read buffer that were held. */
static NEVER_INLINE void end_lost(struct server *s, size_t held)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (c && c->request && (offload_lost(s) || retry_lost(s)))
		return;
	/* the beginning of an answer, whose rest will never come */
	if (held > 0 && c && c->request) {
		request_forwarded(c->request);
		if (walk_server(s, s->peer.world->buffer, held).verdict == VERDICT_GONE)
			return;
	}
	if (!retry_lost(s))
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

/* Takes the held bytes and one read. True: there may be more. */
static ALWAYS_INLINE bool from_server_round_of(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t held = peer_unhold(&s->peer), n = held;
	size_t room = READ_BUFFER - held;
	struct walk walk;
	ssize_t r = 0;

	if (room > w->share.piece)
		room = w->share.piece;
	/* a server gets a client only after all of its messages have been examined */
	if (!s->pooled.link && room > (size_t)w->share.looks_each * PG_HEADER)
		room = (size_t)w->share.looks_each * PG_HEADER;
	if (from_socket) {
		r = stream_read(&s->peer.stream, w->buffer + held, room);
		if (r < 0) {
			end_lost(s, held);
			return false;
		}
		n += (size_t)r;
	}
	if (n == 0)
		return false;
	walk = walk_server(s, w->buffer, n);
	if (walk.verdict == VERDICT_GONE)
		return false;
	if (!peer_hold(&s->peer, w->buffer + walk.used, n - walk.used)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	if (walk.verdict != VERDICT_PASS) {
		stop_at(s, walk.verdict);
		return false;
	}
	peer_hold_last(&s->peer);
	return server_may_go_on(s) && from_socket &&
	       ((size_t)r == room || stream_has_buffered(&s->peer.stream));
}

static NEVER_INLINE void from_server_more_rounds(struct server *s)
{
	for (int64_t rounds = 1; relay_one_more(s->peer.world, rounds); rounds++)
		if (!from_server_round_of(s, true))
			return;
	if (stream_has_buffered(&s->peer.stream) && s->task != &task_hear)
		peer_come_again(&s->peer);
}

/* Walks the held bytes in place. */
static NEVER_INLINE void from_server_pass_held(struct server *s)
{
	struct bytes all = peer_take_held(&s->peer);
	struct walk walk;

	walk = walk_server(s, bytes_front(&all), bytes_size(&all));
	if (walk.verdict == VERDICT_GONE)
		bytes_free(&all);
	else if (!peer_hold_rest_of(&s->peer, &all, walk.used, walk.verdict == VERDICT_LATER))
		server_end(s, REASON_NO_MEMORY, NULL);
	else if (walk.verdict != VERDICT_WAIT && server_may_go_on(s) &&
		 (s->peer.held_first || stream_has_buffered(&s->peer.stream)))
		peer_come_again(&s->peer);
}

void relay_from_server(struct server *s, bool from_socket)
{
	s->peer.world->loop.has_traffic = true;
	if (s->peer.held_first) {
		/* otherwise the server is on the list `again`, and the turn reads it from there */
		if (!from_socket || list_is_empty(&s->peer.again))
			from_server_pass_held(s);
	} else if (from_server_round_of(s, from_socket)) {
		from_server_more_rounds(s);
	}
}
