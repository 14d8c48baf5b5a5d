/*
 * Messages of clients: where each goes, and its effects.
 *
 * A client's message goes one of two ways, with the same effect. relay_take looks at one frame,
 * possibly before it is complete. relay_pass_plain takes most traffic in one short loop: complete
 * messages for a ready server, which may pass unread. Both go by the message's row in
 * include/tbl/message.tbl, which names the code that takes a message and the condition under which
 * it may pass without that code.
 *
 * Invariant: a message that is passed on has been entered in the ledger, or owes nothing.
 */
#include "relay/client_message.h"

#include "backend/retire.h"
#include "backend/welcome.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/duration.h"
#include "relay/link.h"
#include "relay/relay.h"
#include "relay/release.h"
#include "relay/request.h"
#include "relay/signal.h"
#include "sql/values_text.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_functions.h"
#include "state/session_state.h"
#include "state/session_values.h"
#include "state/task.h"

#include <stdio.h>
#include <string.h>

/* ---- messages of clients ---- */

#define REPLIES_AT_ONCE 1024	/* local replies in one write */

/* The server executes a task first, or the client has ended. */
static NEVER_INLINE enum verdict wait_for_server(const struct client *c)
{
	return peer_is_stopped(&c->peer) ? VERDICT_GONE : VERDICT_WAIT;
}

/* Assigns a server to the client, which has none and sends a request. */
static ALWAYS_INLINE enum verdict want_server(struct client *c)
{
	struct world *w = c->peer.world;
	struct pool_server *lent;

	peer_requested(&c->peer, w->now_wall);
	lent = pool_want(&c->pooled, w->now);
	if (!lent)
		return VERDICT_WAIT;
	if (!link_begin(server_of(lent), c))
		return wait_for_server(c);
	return VERDICT_PASS;
}

/* Counts a request, which begins with the message with this body. */
static ALWAYS_INLINE void count_request(struct client *c, uint8_t type, const uint8_t *body,
					size_t here)
{
	struct world *w = c->peer.world;

	if (c->activity.query_started == 0) {
		client_query_began(c, w->now);
		if (w->queries.durations.texts)
			duration_note_text(c, type, body, here);
	}
	if (c->activity.transaction_started == 0)
		client_transaction_began(c, w->now);
}

/* The client is refused until its next Sync or the end of its Query: see
   cancel_refuse_waiting(). */
static NEVER_INLINE enum verdict refuse_frame(struct client *c, uint8_t type)
{
	struct bytes ready = BYTES_EMPTY;
	bool sent;

	if (type != c->minds.refused_until)
		return VERDICT_SWALLOW;
	c->minds.refused_until = 0;
	pg_build(&ready, 'Z', request_status(c), 1);
	sent = client_send(c, &ready);
	bytes_free(&ready);
	return sent ? VERDICT_SWALLOW : VERDICT_GONE;
}

/* The client waits for the next answers of its server. */
static enum verdict wait_for_answers(struct client *c)
{
	flow_block(&c->peer, FLOW_ANSWERS);
	return VERDICT_WAIT;
}

/* The ledger may be wrong, and a part of the message may have been sent: the server ends, and its
   client with it. */
static enum verdict message_no_memory(struct client *c)
{
	ASSERT(c->pooled.link);
	server_end(server_of(c->pooled.link), REASON_NO_MEMORY, NULL);
	return VERDICT_GONE;
}

/* Sends the local replies that are due. */
static NEVER_INLINE bool send_local_replies(struct client *c, struct server *s)
{
	uint8_t out[REPLIES_AT_ONCE * PG_HEADER];
	const void *reply;
	size_t size, used;

	/* a held ReadyForQuery precedes them */
	if (s->task == &task_hear)
		return true;
	/* between two messages, and not more than pgweir keeps while a client does not read */
	while ((s->peer.passing == 0 || s->peer.passing_dropped) &&
	       stream_unsent(&c->peer.stream) < READ_BUFFER) {
		for (used = 0; used < sizeof(out) && (size = prepared_local_reply(s, &reply)) > 0;
		     used += size)
			memcpy(out + used, reply, size);
		if (used == 0)
			return true;
		if (!stream_write_bytes(&c->peer.stream, out, used)) {
			client_end(c, REASON_CLIENT_EOF, NULL);
			return false;
		}
		c->pooled.pool->database->stats.total.sent += used;
		if (c->request)
			request_replied(c->request);
	}
	return true;
}

bool relay_send_local_replies(struct client *c, struct server *s)
{
	return !ledger_local_reply_is_due(&s->ledger) || send_local_replies(c, s);
}

/*
 * The pipeline has reached RELAY_DEEPEST. Local replies that are due may be sent now. The server
 * may hold its answers in its buffer until a Flush or Sync, and the client's Sync comes later in
 * the pipeline. pgweir therefore sends a Flush, because otherwise both sides would wait for ever.
 */
static NEVER_INLINE enum verdict too_deep(struct client *c, struct server *s, struct gather *g)
{
	static const uint8_t flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	if (!relay_send_local_replies(c, s))
		return VERDICT_GONE;
	if (ledger_depth(&s->ledger) < RELAY_DEEPEST)
		return VERDICT_PASS;
	gather_copy(g, flush, sizeof(flush));
	return wait_for_answers(c);
}

/* Whether the SQL is incomplete and must wait for its rest, because it is searched for names of
   parameters. SQL that is too large for the read buffer passes. */
static bool text_lacks(const struct client *c, const struct pg_frame *f)
{
	bool is_text = f->type == PGC_QUERY || f->type == PGC_PARSE;

	return is_text && pool_keeps_state(c->pooled.pool) && f->here < f->size &&
	       f->size <= READ_BUFFER - PG_HEADER;
}

/* Whether the client may get another server (RELEASE_MOVE), because the ledger is lost. */
static bool message_may_move(const struct server *s)
{
	const struct client *c = client_of(s->pooled.link);

	return s->status == 'I' && !s->ledger.open && c->link_facts.shares_server &&
	       !(s->session.dirty | c->pooled.pins);
}

/* VERDICT_PASS: the client has a server, which is ready for the message. */
static enum verdict find_server(struct client *c, const struct pg_frame *f)
{
	bool is_of_copy = pg_client_messages[f->type].phases == PG_COPY;
	struct server *s;
	enum verdict verdict;

	if (!c->pooled.link) {
		if ((prepared_is_incomplete(f) || text_lacks(c, f)) && link_will_share(c))
			return VERDICT_MORE;
		verdict = is_of_copy ? VERDICT_SWALLOW : want_server(c);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	s = server_of(c->pooled.link);
	if (s->task != NULL || (s->ledger.lost && message_may_move(s)))
		return VERDICT_WAIT;
	/* the COPY of this message has failed */
	if (is_of_copy && !ledger_may_copy(&s->ledger))
		return VERDICT_SWALLOW;
	return VERDICT_PASS;
}

static enum verdict note_text(struct client *c, struct server *s, struct gather *g,
			      const uint8_t *text, size_t size, enum text_of of);

/* session_state_text() has returned VERDICT_WAIT: the server executes a task first, or DISCARD
   SEQUENCES precedes the text. */
static NEVER_INLINE enum verdict make_text_wait(struct client *c, struct server *s,
						struct gather *g, const uint8_t *text, size_t size,
						enum text_of of)
{
	if (wait_for_server(c) == VERDICT_GONE)
		return VERDICT_GONE;
	if (s->session.stale & STALE_SEQUENCES && s->ledger.open) {
		/* the session has values of another client, and the text reads values: DISCARD
		   SEQUENCES precedes it */
		if (!g)
			return VERDICT_MORE;
		if (session_values_discard(s, g))
			return note_text(c, s, g, text, size, of);
		server_end(s, REASON_STATE_UNKNOWN, NULL);
		return VERDICT_GONE;
	}
	if (!ledger_is_empty(&s->ledger))
		return wait_for_answers(c);
	session_text_prepare(s, c, text, size);
	return wait_for_server(c);
}

/* Notes the state that the SQL may set on the server. VERDICT_WAIT: the server executes a task
   first. VERDICT_LATER: the search of the text continues in the next turn. VERDICT_MORE: messages
   of pgweir must precede this one, and there is no `g`. */
static enum verdict note_text(struct client *c, struct server *s, struct gather *g,
			      const uint8_t *text, size_t size, enum text_of of)
{
	enum verdict verdict;

	/* pgweir can ask the server before the first message of a link, when the server owes
	   nothing and is in no transaction */
	if (s->session.dirty | c->pooled.pins && ledger_is_empty(&s->ledger) && s->status == 'I' &&
	    c->activity.transaction_started == 0 &&
	    session_functions_are_due(c->pooled.pool, s->peer.world->now)) {
		session_functions_ask(s);
		return wait_for_server(c);
	}
	verdict = session_state_text(s, c, text, size, of);
	if (verdict == VERDICT_WAIT)
		return make_text_wait(c, s, g, text, size, of);
	return verdict == VERDICT_PASS && s->session.is_filled && !g ? VERDICT_MORE : verdict;
}

/* The SQL of a Parse comes after the name; an incomplete name is taken for SQL. */
static NEVER_INLINE enum verdict note_parse(struct client *c, struct server *s, struct gather *g,
					    const uint8_t *body, size_t here)
{
	const uint8_t *after = request_text_after_name(body, here);

	size_t at = after ? (size_t)(after - body) : 0;

	return note_text(c, s, g, body + at, here - at, at == 1 ? TEXT_OF_UNNAMED : TEXT_OF_NAMED);
}

/* The Bind executes a statement with currval or lastval, or a batch begins in which such a
   statement may follow. The server is asked for the values first, because it cannot be asked in the
   middle of a batch. */
static NEVER_INLINE enum verdict note_reader(struct client *c, struct server *s,
					     const struct pg_frame *f)
{
	struct request_text text;
	struct values_text read;

	prepared_request_text(c, f, &text);

	if ((f->type == PGC_CLOSE ||
	     (text.at && values_text_read(text.at, text.size, &read))) &&
	    session_values_ask_first(s, c))
		return wait_for_server(c);
	return VERDICT_PASS;
}

/*
 * The functions of the column `taken by` in message.tbl: each enters a message of a client in the
 * ledger of its server, which is ready for the message. The text of the message has been examined.
 */

static enum verdict take_REQUEST(struct client *c, struct server *s, const struct pg_frame *f,
				 struct gather *g, size_t *skip)
{
	(void)g;
	(void)skip;
	return ledger_sent(&s->ledger, f->type, f->here ? f->body[0] : 0, OWED_TO_CLIENT)
		       ? VERDICT_PASS
		       : message_no_memory(c);
}

static enum verdict take_SYNC(struct client *c, struct server *s, const struct pg_frame *f,
			      struct gather *g, size_t *skip)
{
	enum verdict verdict = take_REQUEST(c, s, f, g, skip);

	if (verdict == VERDICT_PASS)
		server_sync_sent(s);
	return verdict;
}

static enum verdict take_FLUSH(struct client *c, struct server *s, const struct pg_frame *f,
			       struct gather *g, size_t *skip)
{
	enum verdict verdict = take_REQUEST(c, s, f, g, skip);

	if (verdict != VERDICT_PASS || !ledger_local_reply_is_due(&s->ledger))
		return verdict;
	/* after a part of its answer is sent, a request cannot go to another server: the replies
	   wait until the server has answered */
	if (c->request && !ledger_local_reply_is_last(&s->ledger))
		return verdict;
	return send_local_replies(c, s) ? verdict : VERDICT_GONE;
}

static enum verdict take_QUERY(struct client *c, struct server *s, const struct pg_frame *f,
			       struct gather *g, size_t *skip)
{
	enum verdict verdict;

	(void)skip;
	prepared_note_settings(c, s, f->body, f->here);
	retire_for_text(s, f->body, f->here);
	if (!prepared_query_may_name(c, f->body, f->here)) {
		role_query_sent(s, f->body, f->here);
		return prepared_send_query(c, s) ? VERDICT_PASS : message_no_memory(c);
	}
	/* the message must be complete, because pgweir replaces the names of the client's
	   statements in it */
	if (!pg_frame_is_whole(f) && f->size <= READ_BUFFER - PG_HEADER) {
		count_request(c, f->type, f->body, f->here);
		return VERDICT_MORE;
	}
	verdict = prepared_send_sql(c, s, f, g);
	if (verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW)
		role_query_sent(s, f->body, f->here);
	return verdict == VERDICT_WAIT	      ? wait_for_answers(c)
	       : verdict == VERDICT_NO_MEMORY ? message_no_memory(c)
					      : verdict;
}

/* Parse, Bind, Describe, Close: clients may share the statement. */
static enum verdict take_STATEMENT(struct client *c, struct server *s, const struct pg_frame *f,
				   struct gather *g, size_t *skip)
{
	enum verdict verdict;

	if (f->type == PGC_PARSE) {
		const uint8_t *text = request_text_after_name(f->body, f->here);

		if (text)
			retire_for_text(s, text, f->here - (size_t)(text - f->body));
	}
	if (!c->link_facts.shares_names)
		return take_REQUEST(c, s, f, g, skip);
	verdict = prepared_send(c, s, f, g, skip);
	/* the awaited answer may be a local reply */
	if (verdict == VERDICT_WAIT && ledger_local_reply_is_due(&s->ledger)) {
		if (!relay_send_local_replies(c, s))
			return VERDICT_GONE;
		verdict = prepared_send(c, s, f, g, skip);
	}
	if (verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW)
		return verdict;
	if (verdict == VERDICT_WAIT)
		return wait_for_answers(c);
	if (verdict == VERDICT_NO_MEMORY)
		return message_no_memory(c);
	if (verdict == VERDICT_MORE) {
		/* the server of the client waits for the rest */
		if (!prepared_is_incomplete(f))
			count_request(c, f->type, f->body, f->here);
		/* the text of a named Parse is needed as a whole; of other messages the names
		   suffice */
		if (f->type == PGC_PARSE && f->here > 0 && f->body[0] != 0 &&
		    f->size + PG_HEADER > READ_BUFFER)
			client_collect(c, f->size + PG_HEADER);
	}
	return verdict;
}

/* Terminate ends the client before, and the messages of logins come to other code. */
static enum verdict take_NOTHING(struct client *c, struct server *s, const struct pg_frame *f,
				 struct gather *g, size_t *skip)
{
	(void)c, (void)s, (void)f, (void)g, (void)skip;
	ASSERT(!"a message of a session");
	return VERDICT_INVALID;
}

static ALWAYS_INLINE enum verdict message_take(struct client *c, struct server *s,
					       const struct pg_frame *f, struct gather *g,
					       size_t *skip)
{
	switch (f->type) {
#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) \
	case (type): \
		return take_##taken_by(c, s, f, g, skip);
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
#include "tbl/message.tbl"
#undef CLIENT_MESSAGE
	}
	return VERDICT_INVALID;
}

/* Appends the body with values of the client in place of a part of the text: see
   session_state_fill(). False: there are none. */
static bool message_fill_values(struct client *c, struct server *s, const struct pg_frame *f,
				struct bytes *message)
{
	const uint8_t *after =
		f->type == PGC_PARSE ? request_text_after_name(f->body, f->here) : NULL;
	const uint8_t *text = after ? after : f->body;

	s->session.is_filled = s->session.values_are_own = false;
	bytes_append(message, f->body, (size_t)(text - f->body));
	return pg_frame_is_whole(f) &&
	       session_state_fill(s, c, text, f->here - (size_t)(text - f->body),
				  f->type == PGC_QUERY, message);
}

/* Takes the message that `replace` makes from this message, or this message if nothing replaces
   it. */
static NEVER_INLINE enum verdict take_replaced(struct client *c, struct server *s,
					       const struct pg_frame *f, struct gather *g,
					       size_t *skip,
					       bool (*replace)(struct client *c, struct server *s,
							       const struct pg_frame *f,
							       struct bytes *message))
{
	struct bytes message = BYTES_EMPTY;
	struct pg_frame filled = *f;
	enum verdict verdict;

	bytes_append_u8(&message, f->type);
	bytes_append_u32(&message, 0);
	if (!replace(c, s, f, &message)) {
		bytes_free(&message);
		return message_take(c, s, f, g, skip);
	}
	if (message.failed) {
		bytes_free(&message);
		return message_no_memory(c);
	}
	filled.body = bytes_front(&message) + PG_HEADER;
	filled.size = filled.here = (uint32_t)(bytes_size(&message) - PG_HEADER);
	pg_u32_put(bytes_front(&message) + 1, filled.size + PG_LENGTH_WORD);
	verdict = message_take(c, s, &filled, g, skip);
	if (verdict == VERDICT_PASS) {
		gather_add(g, bytes_front(&message) + *skip, bytes_size(&message) - *skip);
		verdict = VERDICT_SWALLOW;
	}
	if (c->prepared && (verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW))
		c->prepared->signal_done = 0;
	*skip = 0;
	g->to = &s->peer.stream;
	gather_flush(g);
	c->half_sent = false;
	bytes_free(&message);
	return verdict;
}

enum verdict relay_take(struct client *c, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	const struct pg_client_message *row = &pg_client_messages[f->type];
	enum verdict verdict;
	struct server *s;

	if (f->type == PGC_TERMINATE) {
		gather_flush(g);
		client_end(c, REASON_CLIENT_CLOSE, NULL);
		return VERDICT_GONE;
	}
	/* PostgreSQL fails on a Flush with a body, and skips all messages up to the next Sync. The
	   ledger would owe nothing, so the server would look free, and it would skip the messages
	   of its next client. */
	if (f->type == PGC_FLUSH && f->size > 0) {
		client_end(c, REASON_BAD_PACKET, "Flush");
		return VERDICT_GONE;
	}
	if (c->minds.refused_until)
		return refuse_frame(c, f->type);
	if (f->type == PGC_QUERY && c->peer.world->conf->settings.disable_pqexec) {
		client_end(c, REASON_PQEXEC, NULL);
		return VERDICT_GONE;
	}
	verdict = find_server(c, f);
	if (verdict != VERDICT_PASS)
		return verdict;
	s = server_of(c->pooled.link);
	if (request_step_in(c, REQUEST_IN_TRANSACTION)) {
		verdict = request_before(c, s, f, g);
		if (verdict == VERDICT_SWALLOW)
			count_request(c, f->type, f->body, f->here);
		if (verdict != VERDICT_PASS)
			return verdict == VERDICT_WAIT	      ? wait_for_answers(c)
			       : verdict == VERDICT_NO_MEMORY ? message_no_memory(c)
							      : verdict;
	}
	if (ledger_depth(&s->ledger) >= RELAY_DEEPEST && !s->ledger.copy_in) {
		verdict = too_deep(c, s, g);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	if (c->link_facts.keeps_state) {
		if (text_lacks(c, f))
			return VERDICT_MORE;
		if (f->type == PGC_CALL)
			session_note_command(s, TAG_CODE, false);
		else if (f->type == PGC_PARSE)
			verdict = note_parse(c, s, g, f->body, f->here);
		else if (f->type == PGC_QUERY)
			verdict = note_text(c, s, g, f->body, f->here, TEXT_OF_QUERY);
		else if ((f->type == PGC_BIND || f->type == PGC_CLOSE) && c->session->values &&
			 c->session->prepared_reads)
			verdict = note_reader(c, s, f);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	if (c->link_facts.keeps_state && s->session.is_filled)
		verdict = take_replaced(c, s, f, g, skip, message_fill_values);
	else if (signal_may_be_meant(c, f))
		verdict = take_replaced(c, s, f, g, skip, signal_replace);
	else
		verdict = message_take(c, s, f, g, skip);
	/* the client waits for an answer */
	if ((verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW) && row->owes < LEDGER_COPY_END)
		count_request(c, f->type, f->body, f->here);
	return verdict;
}

/*
 * The functions of the column `may pass unread` in message.tbl: each enters a complete message with
 * a body of `size` bytes, if the message needs no further examination. VERDICT_MORE: relay_take()
 * must take it, and nothing has happened.
 */

static ALWAYS_INLINE enum verdict pass_NEVER(struct client *c, struct server *s, uint8_t type,
					     const uint8_t *body, uint32_t size)
{
	(void)c, (void)s, (void)type, (void)body, (void)size;
	return VERDICT_MORE;
}

static ALWAYS_INLINE enum verdict pass_ALWAYS(struct client *c, struct server *s, uint8_t type,
					      const uint8_t *body, uint32_t size)
{
	(void)c, (void)body, (void)size;
	return ledger_sent_plain(&s->ledger, type) ? VERDICT_PASS : VERDICT_MORE;
}

static NEVER_INLINE enum verdict note_query(struct client *c, struct server *s, const uint8_t *body,
					    uint32_t size)
{
	enum verdict verdict = note_text(c, s, NULL, body, size, TEXT_OF_QUERY);

	return verdict != VERDICT_PASS || prepared_send_query(c, s) ? verdict
								    : message_no_memory(c);
}

/* Whether the text of a Query may set a role, deallocate a statement or end a session. Only its
   first letter is tested: an INSERT or UPDATE cannot, a text that begins with S or D may. Texts
   that name the client's own statements are not found here. */
static ALWAYS_INLINE bool query_begins_specially(const struct client *c, const uint8_t *body,
						 uint32_t size)
{
	/* one test for the four letters, and for some other bytes */
	const uint32_t letters = 1u << ('s' & 31) | 1u << ('d' & 31);

	if (size <= 3 || !(letters >> (body[0] & 31) & 1))
		return false;
	if ((body[0] | 0x20) == 's')
		return role_begins(body, "set") || signal_text_may_be(body, size);
	return c->link_facts.shares_names && deallocate_begins(body, size);
}

static ALWAYS_INLINE enum verdict pass_QUERY(struct client *c, struct server *s, uint8_t type,
					     const uint8_t *body, uint32_t size)
{
	(void)type;
	if (s->ledger.lost || query_begins_specially(c, body, size) ||
	    prepared_query_has_names(c, body, size))
		return VERDICT_MORE;
	prepared_note_settings(c, s, body, size);
	retire_for_text(s, body, size);
	if (c->link_facts.keeps_state)
		return note_query(c, s, body, size);
	return prepared_send_query(c, s) ? VERDICT_PASS : message_no_memory(c);
}

static ALWAYS_INLINE enum verdict pass_UNNAMED_PARSE(struct client *c, struct server *s,
						     uint8_t type, const uint8_t *body,
						     uint32_t size)
{
	enum verdict verdict;

	if (size > 1)
		retire_for_text(s, body + 1, size - 1);
	if (!c->link_facts.shares_names)
		return pass_ALWAYS(c, s, type, body, size);
	if (size < 1 || body[0] != 0 || !ledger_enters(&s->ledger) ||
	    prepared_parse_has_names(c, body + 1, size - 1) ||
	    (size > SIGNAL_SHORTEST &&
	     (signal_text_may_be(body + 1, size - 1) || deallocate_begins(body + 1, size - 1))))
		return VERDICT_MORE;
	if (c->link_facts.keeps_state &&
	    (verdict = note_parse(c, s, NULL, body, size)) != VERDICT_PASS)
		return verdict;
	return prepared_send_unnamed_parse(c, s, body + 1, size - 1) ? VERDICT_PASS
								     : message_no_memory(c);
}

static ALWAYS_INLINE enum verdict pass_UNNAMED_BIND(struct client *c, struct server *s,
						    uint8_t type, const uint8_t *body,
						    uint32_t size)
{
	if (c->link_facts.shares_names &&
	    (size < 2 || body[0] != 0 || body[1] != 0 || !prepared_has_unnamed(c, s)))
		return VERDICT_MORE;
	return pass_ALWAYS(c, s, type, body, size);
}

static ALWAYS_INLINE enum verdict pass_PORTAL(struct client *c, struct server *s, uint8_t type,
					      const uint8_t *body, uint32_t size)
{
	return size < 1 || body[0] != PG_OF_PORTAL ? VERDICT_MORE
						   : pass_ALWAYS(c, s, type, body, size);
}

static ALWAYS_INLINE enum verdict pass_SYNC(struct client *c, struct server *s, uint8_t type,
					    const uint8_t *body, uint32_t size)
{
	(void)c, (void)body, (void)size;
	if (!ledger_sent_plain(&s->ledger, type))
		return VERDICT_MORE;
	server_sync_sent(s);
	return VERDICT_PASS;
}

static ALWAYS_INLINE enum verdict pass_COPY_DATA(struct client *c, struct server *s, uint8_t type,
						 const uint8_t *body, uint32_t size)
{
	(void)c, (void)type, (void)body, (void)size;
	return s->ledger.copy_in ? VERDICT_PASS : VERDICT_MORE;
}

static ALWAYS_INLINE enum verdict pass_unread(struct client *c, struct server *s, uint8_t type,
					      const uint8_t *body, uint32_t size)
{
	switch (type) {
#define CLIENT_MESSAGE(id, byte, name, phases, look, owes, taken_by, unread) \
	case (byte): \
		return pass_##unread(c, s, type, body, size);
#include "tbl/message.tbl"
#undef CLIENT_MESSAGE
#undef SERVER_MESSAGE
#undef ANSWER
	}
	return VERDICT_MORE;
}

struct walk relay_pass_plain(struct client *c, const uint8_t *buf, size_t n)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	const uint8_t *at = buf, *end = buf + n;
	const struct settings *set = &c->peer.world->conf->settings;
	enum verdict verdict = VERDICT_PASS;

	while (end - at >= PG_HEADER) {
		uint32_t size;

		if (!pg_frame_is_here(at, (size_t)(end - at), &size) ||
		    size + PG_LENGTH_WORD > (size_t)set->max_packet_size)
			break;
		if (!s) {
			if (!pg_client_begins[*at] || set->disable_pqexec)
				break;
			verdict = want_server(c);
			if (verdict != VERDICT_PASS)
				break;
			s = server_of(c->pooled.link);
		}
		/* the messages of one read do not exceed the limit of pending answers */
		if (at == buf &&
		    (s->task ||
		     ledger_depth(&s->ledger) >= RELAY_DEEPEST - READ_BUFFER / PG_HEADER ||
		     set->disable_pqexec))
			break;
		verdict = pass_unread(c, s, *at, at + PG_HEADER, size);
		if (verdict != VERDICT_PASS)
			break;
		at += PG_HEADER + (size_t)size;
	}
	if (at > buf)
		count_request(c, *buf, buf + PG_HEADER, pg_u32_at(buf + 1) - PG_LENGTH_WORD);
	/* the messages before this one are sent first */
	if (verdict == VERDICT_MORE || verdict == VERDICT_LATER ||
	    (verdict == VERDICT_WAIT && at > buf))
		verdict = VERDICT_PASS;
	return (struct walk){ (size_t)(at - buf), verdict };
}
