/*
 * The way of a byte: from the server to the client (relay_client.c has the other half).
 *
 * Each frame is crossed off the ledger, which says which side's answer it is: the client's is relayed, the pooler's own is swallowed
 * for what it means, and one that nothing asked for ends the connection. Only ReadyForQuery, ParameterStatus
 * and the first bytes of an ErrorResponse are looked at.
 *
 * Here, too, nearly everything goes the short way (pass_plain): answers that are the client's, whole, and said by their type.
 *
 * Invariant: what was received before the end of a connection has gone to the client before it hears of that end.
 */
#include "relay/relay.h"

#include "backend/notifier.h"
#include "backend/role.h"
#include "backend/session_params.h"
#include "backend/welcome.h"
#include "base/inline.h"
#include "base/mem.h"
#include "cancel/cancel.h"
#include "conn/gather.h"
#include "pg/error.h"
#include "pg/message.h"
#include "pg/tag.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/request.h"

#include <string.h>

#define WHOLE_MOST 65536	/* longest message that has to be read as a whole (ParameterStatus) */
#define NOTIFIER 4		/* bytes of a NotificationResponse that name the process which has notified */
#define ERROR_LOOK 128		/* bytes of an ErrorResponse in which its severity is found */

static ALWAYS_INLINE void client_ready(struct server *s, struct client *c)
{
	struct world *w = s->peer.world;
	struct stats *total = &c->policy.pool->database->stats.total;

	total->query_count++;
	w->queries++;
	if (c->query_started != 0)
		total->query_time += (uint64_t)(w->now - c->query_started);
	/* nothing asked for is unanswered: not the same as an empty ledger, which knows doubts after a COPY */
	c->query_started = ledger_depth(&s->ledger) == 0 ? 0 : w->now;
	c->in_transaction = s->status != 'I';
	c->last_active = w->now;
	s->plain_set = false;
	if (s->policy.cancels > 0 && c->query_started == 0)
		cancel_query_over(s);
	if (s->status == 'I') {
		total->xact_count++;
		if (c->transaction_started != 0)
			total->xact_time += (uint64_t)(w->now - c->transaction_started);
		c->transaction_started = c->query_started;
	}
}

static bool is_status(uint8_t byte)
{
	return byte == 'I' || byte == 'T' || byte == 'E';
}

/* A message of a server that looks after itself: ReadyForQuery, ParameterStatus. False: it makes no sense, or there is no memory
   for what it says (then the server's close_reason is that). */
static bool server_whole(struct server *s, const struct pg_frame *f, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);

	if (f->type == PGS_READY) {
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && is_status((uint8_t)s->status);
	}
	if (f->type == PGS_PARAMETER) {
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (body.bad || body.at != body.end)
			return false;
		if (owner == OWED_TO_CLIENT)
			link_parameter(s, name, value);
		else
			server_parameter(s, name, value);
		welcome_reported(s->welcome, name, value);
		return s->policy.close_reason != REASON_NO_MEMORY;
	}
	return true;
}

static void look_at_error(struct server *s, const struct pg_frame *f)
{
	s->said_fatal = pg_error_is_fatal(f->body, f->here < ERROR_LOOK ? f->here : ERROR_LOOK);
}

/* A tag of a telling size, here as a whole. */
static void look_at_tag(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	enum pg_tag tag = pg_tag_read(f->body, f->size);

	if (tag == TAG_DISCARD_ALL || tag == TAG_DEALLOCATE_ALL)
		prepared_all_gone(s, owner == OWED_TO_CLIENT ? c : NULL);
	if (tag == TAG_SET && owner == OWED_TO_CLIENT)
		prepared_set_heard(s);
	if (tag == TAG_DISCARD_ALL || tag == TAG_SET)
		server_parameters_told(s, tag == TAG_DISCARD_ALL, owner == OWED_TO_CLIENT);
	if (tag == TAG_ALTER_TABLE)
		prepared_table_altered(s);
}

enum answer { ANSWER_RELAY, ANSWER_DROP, ANSWER_BROKEN, ANSWER_LAST_WORDS, ANSWER_AGAINST_MODE, ANSWER_ALL_SAID };

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

/* What the pooler's own query gives: swallowed, except for what it means. */
static enum answer swallowed(struct server *s, const struct pg_frame *f)
{
	if (f->type == PGS_ERROR) {
		/* of a message put in front of the client's, which the server passes over now */
		if (s->task == TASK_NONE)
			return ANSWER_RELAY;
		task_error(s, f);
		/* the end of the server is the client's business, whatever it was busy with */
		if (s->said_fatal && s->policy.link)
			return ANSWER_RELAY;
	}
	if (f->type == PGS_ROW && s->task == TASK_NOTE)
		role_note(s, f->body, f->here);
	if (f->type != PGS_READY)
		return ANSWER_DROP;
	if (s->task == TASK_NONE)
		return ANSWER_BROKEN;
	s->task_answered = true;
	return ANSWER_DROP;
}

/* While a doubt is being settled: a ReadyForQuery that answers a Sync of the client's, not our query. */
static bool is_surplus(const struct server *s, const struct pg_frame *f)
{
	return s->task == TASK_BARRIER && f->type == PGS_READY && !ledger_is_empty(&s->ledger);
}

/* The rule of statement mode is broken as soon as a statement leaves a transaction open. */
static bool breaks_statement_mode(const struct server *s)
{
	return pool_mode_of(s->policy.pool) == MODE_STATEMENT && s->policy.link && s->status != 'I' && s->task == TASK_NONE &&
	       client_of(s->policy.link)->shares_server;
}

/* Its client has had every answer and would have let it go: what the server says now does not concern the client. */
static bool is_between_transactions(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && s->task == TASK_NONE && c->shares_server &&
	       (c->peer.passing == 0 || c->peer.passing_dropped);
}

/* What an answer that fits means for prepared statements. True: *answer is what becomes of it. */
static bool concerns_prepared(struct server *s, struct client *c, const struct pg_frame *f, enum answer *answer)
{
	if (s->ledger.mark == LEDGER_UNMARKED && s->ledger.marks_skipped == 0)
		return false;
	switch (prepared_answered(s, c, f)) {
	case PREPARED_NORMAL: return false;
	case PREPARED_RELAY: *answer = c ? ANSWER_RELAY : ANSWER_DROP; return true;
	case PREPARED_TOLD: *answer = ANSWER_DROP; return true;
	case PREPARED_BROKEN: break;
	}
	*answer = ANSWER_BROKEN;
	return true;
}

/* The client knows sessions by the process ids that their clients were told. The frame lies in the read buffer of the loop. */
static void name_notifier(struct server *s, const struct pg_frame *f)
{
	uint8_t *pid = s->peer.world->buffer + (f->body - s->peer.world->buffer);

	if (f->here >= NOTIFIER)
		pg_u32_put(pid, notifier_told(s, pg_u32_at(pid)));
}

static enum answer server_frame(struct server *s, const struct pg_frame *f, bool whole)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);
	enum answer answer;

	if (verdict == LEDGER_BROKEN)
		return ANSWER_BROKEN;
	if (f->type == PGS_ERROR) {
		look_at_error(s, f);
		prepared_changes_undone(s);
	}
	/* no other server would take the data that its client is about to send */
	if (f->type == PGS_COPY_IN && s->ledger.lost)
		s->status = 'T';
	if (whole && !server_whole(s, f, owner))
		return ANSWER_BROKEN;
	if (verdict == LEDGER_ANSWER && pg_tag_may_tell(f->type, f->size))
		look_at_tag(s, c, f, owner);
	/* a client may have names that this server has never heard of */
	if ((s->prepared || (c && c->prepared)) && verdict == LEDGER_ANSWER && concerns_prepared(s, c, f, &answer))
		return answer;
	if (verdict == LEDGER_ANSWER && owner == OWED_TO_POOLER && !is_surplus(s, f))
		return swallowed(s, f);
	if (verdict == LEDGER_ASYNC) {
		if (f->type == PGS_ERROR && (!c || is_between_transactions(s, c)))
			return ANSWER_LAST_WORDS;
		if (f->type == PGS_NOTIFICATION && c)
			name_notifier(s, f);
		/* what the pooler's own SET makes the server report is told the client at the end of it; its notices, and what comes before the
		   client's welcome, belong to no client */
		return c && !c->login && (f->type == PGS_NOTIFICATION || owner != OWED_TO_POOLER) ? ANSWER_RELAY : ANSWER_DROP;
	}
	if (!c)
		return is_surplus(s, f) ? ANSWER_DROP : ANSWER_BROKEN;
	if (f->type != PGS_READY)
		return ANSWER_RELAY;
	client_ready(s, c);
	/* the refusal stands in its place, so that it is the answer to the statement that broke the rule, whatever is behind it */
	return breaks_statement_mode(s) ? ANSWER_AGAINST_MODE : ANSWER_RELAY;
}

/* Looks at the frame at the front. PG_OK: *answer says what becomes of it. */
static enum pg_verdict look_at_server_frame(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f, enum answer *answer)
{
	enum pg_verdict verdict = pg_frame_look(at, n, INT32_MAX, f), said;
	const struct pg_server_message *row;

	if (verdict != PG_OK)
		return verdict;
	said = link_look_for_reply(s, at, n);
	if (said == PG_OK)
		*answer = ANSWER_ALL_SAID;
	if (said != PG_BAD)
		return said;
	row = pg_server_message(f->type, PG_SESSION);
	if (!row || (row->whole && f->size > WHOLE_MOST))
		return PG_BAD;
	if (row->whole && !pg_frame_is_whole(f))
		return PG_MORE;
	if (f->here < f->size) {
		if (f->type == PGS_ERROR && (f->here < ERROR_LOOK || (ledger_head_is_marked(&s->ledger) && f->size <= WHOLE_MOST)))
			return PG_MORE;
		if (f->type == PGS_NOTIFICATION && f->here < NOTIFIER)
			return PG_MORE;
		if (pg_tag_may_tell(f->type, f->size) || (s->task == TASK_NOTE && f->size <= WHOLE_MOST))
			return PG_MORE;
	}
	*answer = server_frame(s, f, row->whole);
	return *answer == ANSWER_BROKEN ? PG_BAD : PG_OK;
}

/* Between two messages of the server stand the local replies of the pooler. */
static void gather_local_replies(struct server *s, struct gather *g)
{
	const void *reply;
	size_t size;

	while (s->prepared && (size = prepared_local_reply(s, &reply)) > 0)
		gather_add(g, reply, size);
}

/* ReadyForQuery, `size` bytes of body. */
static ALWAYS_INLINE bool passes_ready(struct server *s, struct client *c, const uint8_t *body, uint32_t size)
{
	if (size != 1 || !is_status(*body) || pool_mode_of(s->policy.pool) == MODE_STATEMENT || !ledger_passes(&s->ledger, PGS_READY))
		return false;
	s->status = (char)*body;
	client_ready(s, c);
	return true;
}

/* The client's answers at the front that are here as a whole, and of which their types say all, are crossed off. Bytes of them. */
static size_t pass_plain(struct server *s, struct client *c, const uint8_t *buf, size_t n)
{
	const uint8_t *at = buf, *end = buf + n;

	while (end - at >= PG_HEADER) {
		uint8_t type = *at;
		uint32_t size;

		if (!pg_frame_is_here(at, (size_t)(end - at), &size))
			break;
		if (type == PGS_READY) {
			if (!passes_ready(s, c, at + PG_HEADER, size))
				break;
		} else if ((pg_tag_may_tell(type, size) && pg_tag_read(at + PG_HEADER, size) != TAG_NOTHING) || !ledger_passes(&s->ledger, type)) {
			break;
		} else if (s->ledger.mark != LEDGER_UNMARKED) {
			prepared_passed(s, c);
		}
		at += PG_HEADER + (size_t)size;
	}
	return (size_t)(at - buf);
}

/* The server's message of this type could not be accepted. */
static void end_bad(struct server *s, uint8_t type)
{
	if (s->policy.close_reason == REASON_NO_MEMORY)
		server_end(s, REASON_NO_MEMORY, NULL);
	else if (s->policy.link)
		server_end(s, REASON_SERVER_BROKEN, NULL);
	else
		server_end_dirty(s, type);
}

/* It says why it ends; its client, if it has one, goes on with another. */
static void last_words(struct server *s, const struct gather *g, const struct pg_frame *f)
{
	struct client *spared = s->policy.link ? client_of(s->policy.link) : NULL;

	server_end_with_words(s, f->body, f->here);
	if (spared && g->broken)
		client_end(spared, REASON_CLIENT_EOF, NULL);
	else if (spared)
		client_goes_on(spared);
}

/* What was gathered has been sent; the walk has ended, with this answer if it has one. As walk_server. */
static struct walk end_walk(struct server *s, const struct gather *g, enum pg_verdict verdict, enum answer answer, const struct pg_frame *f,
			    const uint8_t *buf, struct walk walk)
{
	if (verdict == PG_BAD) {
		end_bad(s, buf[walk.used]);
	} else if (answer == ANSWER_LAST_WORDS) {
		last_words(s, g, f);
	} else if (g->broken && s->policy.link) {
		client_end(client_of(s->policy.link), REASON_CLIENT_EOF, NULL);
		return walk;
	} else if (answer == ANSWER_ALL_SAID) {
		link_all_said(s);
	} else {
		return walk;
	}
	return (struct walk){ 0, STEP_GONE };
}

/* The first `at` bytes have been dealt with, and are to be sent. As walk_server. */
static NEVER_INLINE struct walk walk_on(struct server *s, const uint8_t *buf, size_t at, size_t n)
{
	struct gather g;
	enum pg_verdict verdict = PG_OK;
	enum answer answer = ANSWER_RELAY;
	struct pg_frame f = { 0, 0, NULL, 0 };
	/* without a client it is read in small pieces instead */
	uint32_t looks = 0, looks_most = s->policy.link ? s->peer.world->looks_each : UINT32_MAX;
	bool is_cut = false;

	gather_begin(&g, s->policy.link ? &client_of(s->policy.link)->peer.stream : NULL);
	if (at > 0)
		gather_first(&g, buf, at);
	for (; at < n; at += gather_pass(&g, &s->peer, buf + at, n - at)) {
		size_t plain;

		if (s->peer.passing > 0)
			continue;
		plain = g.to ? pass_plain(s, client_of(s->policy.link), buf + at, n - at) : 0;
		if (plain > 0) {
			gather_add(&g, buf + at, plain);
			at += plain;
			if (at == n)
				break;
		}
		is_cut = looks++ == looks_most;
		if (is_cut)
			break;
		gather_local_replies(s, &g);
		/* its error may be told in other words, at once */
		if (buf[at] == PGS_ERROR && ledger_head_is_marked(&s->ledger))
			gather_flush(&g);
		verdict = look_at_server_frame(s, buf + at, n - at, &f, &answer);
		if (verdict != PG_OK)
			break;
		peer_begin_frame(&s->peer, &f, answer != ANSWER_RELAY);
		if (answer == ANSWER_LAST_WORDS || answer == ANSWER_AGAINST_MODE || answer == ANSWER_ALL_SAID)
			break;
	}
	if (s->peer.passing == 0)
		gather_local_replies(s, &g);
	/* whatever ends the connection now comes behind what was received before */
	gather_flush(&g);
	s->policy.pool->database->stats.total.sent += g.bytes;
	relay_looked(s->peer.world, looks, is_cut);
	return end_walk(s, &g, verdict, answer, &f, buf, (struct walk){ at, is_cut ? STEP_LATER : STEP_PASS });
}

/* Walks n bytes. STEP_PASS, STEP_LATER or STEP_GONE. */
static ALWAYS_INLINE struct walk walk_server(struct server *s, const uint8_t *buf, size_t n)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;
	size_t at = c && s->peer.passing == 0 ? pass_plain(s, c, buf, n) : 0;

	if (at < n || (s->prepared && ledger_local_reply_is_due(&s->ledger)))
		return walk_on(s, buf, at, n);
	/* mostly the reply is plain from its first byte to its last */
	s->policy.pool->database->stats.total.sent += n;
	if (!stream_write_bytes(&c->peer.stream, buf, n))
		client_end(c, REASON_CLIENT_EOF, NULL);
	return (struct walk){ n, STEP_PASS };
}

/* After a walk: what the bytes meant. False: no more now. */
static bool server_may_go_on(struct server *s)
{
	struct client *c;

	if (peer_is_stopped(&s->peer))
		return false;
	if (s->task_answered) {
		s->task_answered = false;
		link_task_over(s);
		if (peer_is_stopped(&s->peer))
			return false;
	}
	if (!s->policy.link)
		return true;
	c = client_of(s->policy.link);
	if (breaks_statement_mode(s)) {
		server_end(s, REASON_STATEMENT_MODE, NULL);
		return false;
	}
	if (c->peer.waits_for_room && stream_unsent(&s->peer.stream) == 0 && ledger_depth(&s->ledger) < RELAY_DEEPEST / 2)
		client_goes_on(c);
	if (stream_unsent(&c->peer.stream) > 0) {
		s->peer.waits_for_room = true;
		stream_set_reading(&s->peer.stream, false);
		link_end_if_over(s);
		return false;
	}
	link_end_if_over(s);
	return !peer_is_stopped(&s->peer);
}

/* Takes what it holds, and what one read gives. True: there may be more. */
static ALWAYS_INLINE bool round_of(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	size_t held = peer_unhold(&s->peer), n = held;
	size_t room = READ_BUFFER - held;
	struct walk walk;
	ssize_t r = 0;

	if (room > w->piece)
		room = w->piece;
	/* without a client all that it says is looked at, before there is one */
	if (!s->policy.link && room > (size_t)w->looks_each * PG_HEADER)
		room = (size_t)w->looks_each * PG_HEADER;
	if (from_socket) {
		r = stream_read(&s->peer.stream, w->buffer + held, room);
		if (r < 0) {
			server_end(s, REASON_SERVER_CRASHED, NULL);
			return false;
		}
		n += (size_t)r;
	}
	if (n == 0)
		return false;
	walk = walk_server(s, w->buffer, n);
	if (walk.step == STEP_GONE)
		return false;
	if (!peer_hold(&s->peer, w->buffer + walk.used, n - walk.used)) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	s->peer.held_first = walk.step == STEP_LATER;
	if (!server_may_go_on(s))
		return false;
	if (s->peer.held_first)
		peer_come_again(&s->peer);
	return !s->peer.held_first && from_socket && ((size_t)r == room || stream_has_buffered(&s->peer.stream));
}

static NEVER_INLINE void more_rounds(struct server *s)
{
	for (int64_t rounds = 1; relay_one_more(s->peer.world, rounds); rounds++)
		if (!round_of(s, true))
			return;
	if (stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}

/* What it holds is walked where it lies, as that of a client. */
static NEVER_INLINE void pass_held(struct server *s)
{
	struct bytes all = s->peer.held;
	struct walk walk;

	s->peer.held = (struct bytes)BYTES_EMPTY;
	walk = walk_server(s, bytes_front(&all), bytes_size(&all));
	if (walk.step == STEP_GONE)
		bytes_free(&all);
	else if (!peer_hold_rest_of(&s->peer, &all, walk.used, walk.step == STEP_LATER))
		server_end(s, REASON_NO_MEMORY, NULL);
	else if (server_may_go_on(s) && (s->peer.held_first || stream_has_buffered(&s->peer.stream)))
		peer_come_again(&s->peer);
}

void relay_from_server(struct server *s, bool from_socket)
{
	if (s->peer.held_first) {
		/* an event of a server that the turn comes to anyway, once */
		if (!from_socket || list_is_empty(&s->peer.again))
			pass_held(s);
	} else if (round_of(s, from_socket)) {
		more_rounds(s);
	}
}
