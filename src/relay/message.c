/*
 * Messages of clients and servers: where each goes, and its effects.
 *
 * A client's message goes one of two ways, with the same effect. relay_take looks at one frame, possibly before it is complete. relay_pass_plain
 * takes most traffic in one short loop: complete messages for a server that is ready, which may pass unread. Both go by the message's row in
 * include/tbl/message.tbl, which names the code that takes a message and the condition under which it may pass without that code.
 *
 * A server's message is crossed off the ledger, which names its receiver: answers for the client are relayed, answers to pgweir's own messages are
 * dropped, and an unexpected answer ends the connection. Only ReadyForQuery, ParameterStatus, some command tags, the process id of a
 * NotificationResponse and the first bytes of an ErrorResponse are read.
 *
 * Invariant: a message that is passed on has been entered in the ledger, or owes nothing.
 */
#include "relay/message.h"

#include "backend/retire.h"
#include "backend/welcome.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/relay.h"
#include "relay/release.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_functions.h"
#include "state/session_restore.h"
#include "state/session_state.h"
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

	c->peer.request_at = w->now_wall;
	lent = pool_want(&c->pooled, w->now);
	if (!lent)
		return VERDICT_WAIT;
	if (!link_begin(server_of(lent), c))
		return wait_for_server(c);
	return VERDICT_PASS;
}

static ALWAYS_INLINE void count_request(struct client *c)
{
	struct world *w = c->peer.world;

	if (c->query_started == 0)
		c->query_started = w->now;
	if (c->transaction_started == 0)
		c->transaction_started = w->now;
}

/* The client is refused until its next Sync or the end of its Query: see cancel_refuse_waiting(). */
static NEVER_INLINE enum verdict refuse_frame(struct client *c, uint8_t type)
{
	struct bytes ready = BYTES_EMPTY;
	bool sent;

	if (type != c->refused_until)
		return VERDICT_SWALLOW;
	c->refused_until = 0;
	pg_build(&ready, 'Z', "I", 1);
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

/* The ledger may be wrong, and a part of the message may have been sent: the server ends, and its client with it. */
static enum verdict no_memory(struct client *c)
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

	/* a ReadyForQuery that is held back precedes them */
	if (s->task == &task_hear)
		return true;
	/* between two messages, and not more than pgweir keeps for a client that does not read */
	while ((s->peer.passing == 0 || s->peer.passing_dropped) && stream_unsent(&c->peer.stream) < READ_BUFFER) {
		for (used = 0; used < sizeof(out) && (size = prepared_local_reply(s, &reply)) > 0; used += size)
			memcpy(out + used, reply, size);
		if (used == 0)
			return true;
		if (!stream_write_bytes(&c->peer.stream, out, used)) {
			client_end(c, REASON_CLIENT_EOF, NULL);
			return false;
		}
		c->pooled.pool->database->stats.total.sent += used;
	}
	return true;
}

bool relay_send_local_replies(struct client *c, struct server *s)
{
	return !ledger_local_reply_is_due(&s->ledger) || send_local_replies(c, s);
}

/*
 * The pipeline has reached RELAY_DEEPEST. Local replies that are due may be sent now. The server may hold its answers in its buffer until a Flush or
 * Sync, and the client's Sync comes later in the pipeline: so pgweir sends a Flush.
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

/* Incomplete SQL that is not sent before its rest arrives, because it is searched for names of parameters. SQL that is too large for the read
   buffer passes. */
static bool text_lacks(const struct client *c, const struct pg_frame *f)
{
	bool is_text = f->type == PGC_QUERY || f->type == PGC_PARSE;

	return is_text && pool_keeps_state(c->pooled.pool) && f->here < f->size && f->size <= READ_BUFFER - PG_HEADER;
}

/* VERDICT_PASS: the client has a server that is ready for the message. */
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
	if (s->task != NULL || (s->ledger.lost && release_may_move(s)))
		return VERDICT_WAIT;
	/* the COPY of this message has failed */
	if (is_of_copy && !ledger_may_copy(&s->ledger))
		return VERDICT_SWALLOW;
	return VERDICT_PASS;
}

static enum verdict note_text(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of);

/* session_state_text() has returned VERDICT_WAIT: the server executes a task first, or DISCARD SEQUENCES precedes the text. */
static NEVER_INLINE enum verdict make_text_wait(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of)
{
	if (wait_for_server(c) == VERDICT_GONE)
		return VERDICT_GONE;
	if (s->session.unknown & UNKNOWN_SEQUENCES && s->ledger.open) {
		/* the session has values of another client, and the text reads values: DISCARD SEQUENCES precedes it */
		if (!g)
			return VERDICT_MORE;
		if (session_values_discard(s, g))
			return note_text(c, s, g, text, size, of);
		server_end(s, REASON_STATE_UNKNOWN, NULL);
		return VERDICT_GONE;
	}
	if (!ledger_is_empty(&s->ledger))
		return wait_for_answers(c);
	if (s->session.unknown & UNKNOWN_SEQUENCES)
		session_values_begin(s, text, size);
	else
		session_restore_channels(s, c);
	return wait_for_server(c);
}

/* Notes the state that the SQL may set on the server. VERDICT_WAIT: the server executes a task first. VERDICT_LATER: the search of the text continues in
   the next turn. VERDICT_MORE: messages of pgweir must precede this one, and there is no `g`. */
static enum verdict note_text(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of)
{
	enum verdict verdict;

	/* pgweir can ask the server before the first message of a link, when the server owes nothing and is in no transaction */
	if (s->session.doubts | c->pooled.pins && ledger_is_empty(&s->ledger) && s->status == 'I' && c->transaction_started == 0 &&
	    session_functions_are_due(c->pooled.pool, s->peer.world->now)) {
		session_functions_ask(s);
		return wait_for_server(c);
	}
	verdict = session_state_text(s, c, text, size, of);
	if (verdict == VERDICT_WAIT)
		return make_text_wait(c, s, g, text, size, of);
	return verdict == VERDICT_PASS && s->session.sets_null && !g ? VERDICT_MORE : verdict;
}

/* The SQL of a Parse comes after the name; an incomplete name is taken for SQL. */
static NEVER_INLINE enum verdict note_parse(struct client *c, struct server *s, struct gather *g, const uint8_t *body, size_t here)
{
	const uint8_t *nul = here > 0 ? memchr(body, 0, here) : NULL;

	size_t at = nul ? (size_t)(nul + 1 - body) : 0;

	return note_text(c, s, g, body + at, here - at, at == 1 ? TEXT_OF_UNNAMED : TEXT_OF_NAMED);
}

/*
 * The functions of the column `taken by` in message.tbl: each enters a message of a client in the ledger of its server, which is ready for the message.
 * The text of the message has been examined.
 */

static enum verdict take_REQUEST(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	(void)g;
	(void)skip;
	return ledger_sent(&s->ledger, f->type, f->here ? f->body[0] : 0, OWED_TO_CLIENT) ? VERDICT_PASS : no_memory(c);
}

static enum verdict take_SYNC(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	enum verdict verdict = take_REQUEST(c, s, f, g, skip);

	s->batch += verdict == VERDICT_PASS;
	return verdict;
}

static enum verdict take_FLUSH(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	enum verdict verdict = take_REQUEST(c, s, f, g, skip);

	return verdict == VERDICT_PASS && !relay_send_local_replies(c, s) ? VERDICT_GONE : verdict;
}

static enum verdict take_QUERY(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	enum verdict verdict;

	(void)skip;
	prepared_note_settings(c, s, f->body, f->here);
	retire_for_text(s, f->body, f->here);
	if (!prepared_query_may_name(c, f->body, f->here)) {
		role_query_sent(s, f->body, f->here);
		return prepared_send_query(c, s) ? VERDICT_PASS : no_memory(c);
	}
	/* the names of prepared statements of the client are replaced */
	if (!pg_frame_is_whole(f) && f->size <= READ_BUFFER - PG_HEADER) {
		count_request(c);
		return VERDICT_MORE;
	}
	verdict = prepared_send_sql(c, s, f, g);
	if (verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW)
		role_query_sent(s, f->body, f->here);
	return verdict == VERDICT_WAIT ? wait_for_answers(c) : verdict == VERDICT_NO_MEMORY ? no_memory(c) : verdict;
}

/* Parse, Bind, Describe, Close: of a statement that clients may share. */
static enum verdict take_STATEMENT(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	enum verdict verdict;

	if (f->type == PGC_PARSE) {
		const uint8_t *nul = f->here > 0 ? memchr(f->body, 0, f->here) : NULL;

		if (nul)
			retire_for_text(s, nul + 1, f->here - (size_t)(nul + 1 - f->body));
	}
	if (!c->shares_names)
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
		return no_memory(c);
	if (verdict == VERDICT_MORE) {
		/* the server of the client waits for the rest */
		if (!prepared_is_incomplete(f))
			count_request(c);
		/* the text of a named Parse is needed as a whole; of other messages the names suffice */
		if (f->type == PGC_PARSE && f->here > 0 && f->body[0] != 0 && f->size + PG_HEADER > READ_BUFFER)
			c->collects = f->size + PG_HEADER;
	}
	return verdict;
}

/* Terminate ends the client before, and the messages of logins come to other code. */
static enum verdict take_NOTHING(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	(void)c, (void)s, (void)f, (void)g, (void)skip;
	ASSERT(!"a message of a session");
	return VERDICT_INVALID;
}

static ALWAYS_INLINE enum verdict take(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	switch (f->type) {
#define CLIENT_MESSAGE(id, type, name, phases, look, owes, taken_by, unread) case (type): return take_##taken_by(c, s, f, g, skip);
#define SERVER_MESSAGE(id, type, name, phases, whole, taken_by)
#define ANSWER(id, to, at, does)
#include "tbl/message.tbl"
#undef CLIENT_MESSAGE
	}
	return VERDICT_INVALID;
}

/* The text resets parameters by set_config('name', NULL, ...): the client's own start-up values replace the NULLs. */
static NEVER_INLINE enum verdict take_filled(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	const uint8_t *nul = f->type == PGC_PARSE ? memchr(f->body, 0, f->here) : NULL, *text = nul ? nul + 1 : f->body;
	struct bytes message = BYTES_EMPTY;
	struct pg_frame filled = *f;
	enum verdict verdict;

	s->session.sets_null = false;
	bytes_append_u8(&message, f->type);
	bytes_append_u32(&message, 0);
	bytes_append(&message, f->body, (size_t)(text - f->body));
	if (!pg_frame_is_whole(f) || !session_state_fill(c, text, f->here - (size_t)(text - f->body), &message)) {
		bytes_free(&message);
		return take(c, s, f, g, skip);
	}
	if (message.failed) {
		bytes_free(&message);
		return no_memory(c);
	}
	filled.body = bytes_front(&message) + PG_HEADER;
	filled.size = filled.here = (uint32_t)(bytes_size(&message) - PG_HEADER);
	pg_u32_put(bytes_front(&message) + 1, filled.size + PG_LENGTH_WORD);
	verdict = take(c, s, &filled, g, skip);
	if (verdict == VERDICT_PASS) {
		gather_add(g, bytes_front(&message) + *skip, bytes_size(&message) - *skip);
		verdict = VERDICT_SWALLOW;
	}
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
	/* PostgreSQL fails on a Flush with a body, and skips all messages up to the next Sync. Nothing would be owed, the server would look free, and it
	   would skip the messages of its next client. */
	if (f->type == PGC_FLUSH && f->size > 0) {
		client_end(c, REASON_BAD_PACKET, "Flush");
		return VERDICT_GONE;
	}
	if (c->refused_until)
		return refuse_frame(c, f->type);
	if (f->type == PGC_QUERY && c->peer.world->conf->settings.disable_pqexec) {
		client_end(c, REASON_PQEXEC, NULL);
		return VERDICT_GONE;
	}
	verdict = find_server(c, f);
	if (verdict != VERDICT_PASS)
		return verdict;
	s = server_of(c->pooled.link);
	if (ledger_depth(&s->ledger) >= RELAY_DEEPEST && !s->ledger.copy_in) {
		verdict = too_deep(c, s, g);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	if (c->keeps_state) {
		if (text_lacks(c, f))
			return VERDICT_MORE;
		if (f->type == PGC_CALL)
			session_state_told(s, TAG_CODE, false);
		else if (f->type == PGC_PARSE)
			verdict = note_parse(c, s, g, f->body, f->here);
		else if (f->type == PGC_QUERY)
			verdict = note_text(c, s, g, f->body, f->here, TEXT_OF_QUERY);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	verdict = c->keeps_state && s->session.sets_null ? take_filled(c, s, f, g, skip) : take(c, s, f, g, skip);
	/* the client waits for an answer */
	if ((verdict == VERDICT_PASS || verdict == VERDICT_SWALLOW) && row->owes < LEDGER_COPY_END)
		count_request(c);
	return verdict;
}

/*
 * The functions of the column `may pass unread` in message.tbl: each enters a complete message with a body of `size` bytes, if the message needs no
 * further examination. VERDICT_MORE: relay_take() must take it, and nothing has happened.
 */

static ALWAYS_INLINE enum verdict pass_NEVER(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	(void)c, (void)s, (void)type, (void)body, (void)size;
	return VERDICT_MORE;
}

static ALWAYS_INLINE enum verdict pass_ALWAYS(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	(void)c, (void)body, (void)size;
	return ledger_sent_plain(&s->ledger, type) ? VERDICT_PASS : VERDICT_MORE;
}

static NEVER_INLINE enum verdict note_query(struct client *c, struct server *s, const uint8_t *body, uint32_t size)
{
	enum verdict verdict = note_text(c, s, NULL, body, size, TEXT_OF_QUERY);

	return verdict != VERDICT_PASS || prepared_send_query(c, s) ? verdict : no_memory(c);
}

static ALWAYS_INLINE enum verdict pass_QUERY(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	(void)type;
	if (s->ledger.lost || (size > 3 && role_begins(body, "set")) || prepared_query_may_name(c, body, size))
		return VERDICT_MORE;
	prepared_note_settings(c, s, body, size);
	retire_for_text(s, body, size);
	if (c->keeps_state)
		return note_query(c, s, body, size);
	return prepared_send_query(c, s) ? VERDICT_PASS : no_memory(c);
}

static ALWAYS_INLINE enum verdict pass_UNNAMED_PARSE(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	enum verdict verdict;

	if (size > 1)
		retire_for_text(s, body + 1, size - 1);
	if (!c->shares_names)
		return pass_ALWAYS(c, s, type, body, size);
	if (size < 1 || body[0] != 0 || !ledger_enters(&s->ledger) || prepared_parse_may_name(c, body + 1, size - 1))
		return VERDICT_MORE;
	if (c->keeps_state && (verdict = note_parse(c, s, NULL, body, size)) != VERDICT_PASS)
		return verdict;
	return prepared_send_unnamed_parse(c, s, body + 1, size - 1) ? VERDICT_PASS : no_memory(c);
}

static ALWAYS_INLINE enum verdict pass_UNNAMED_BIND(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	if (c->shares_names && (size < 2 || body[0] != 0 || body[1] != 0 || !prepared_has_unnamed(c, s)))
		return VERDICT_MORE;
	return pass_ALWAYS(c, s, type, body, size);
}

static ALWAYS_INLINE enum verdict pass_PORTAL(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	return size < 1 || body[0] != PG_OF_PORTAL ? VERDICT_MORE : pass_ALWAYS(c, s, type, body, size);
}

static ALWAYS_INLINE enum verdict pass_SYNC(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	(void)c, (void)body, (void)size;
	if (!ledger_sent_plain(&s->ledger, type))
		return VERDICT_MORE;
	s->batch++;
	return VERDICT_PASS;
}

static ALWAYS_INLINE enum verdict pass_COPY_DATA(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	(void)c, (void)type, (void)body, (void)size;
	return s->ledger.copy_in ? VERDICT_PASS : VERDICT_MORE;
}

static ALWAYS_INLINE enum verdict pass_unread(struct client *c, struct server *s, uint8_t type, const uint8_t *body, uint32_t size)
{
	switch (type) {
#define CLIENT_MESSAGE(id, byte, name, phases, look, owes, taken_by, unread) case (byte): return pass_##unread(c, s, type, body, size);
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

		if (!pg_frame_is_here(at, (size_t)(end - at), &size) || size + PG_LENGTH_WORD > (size_t)set->max_packet_size)
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
		if (at == buf && (s->task || ledger_depth(&s->ledger) >= RELAY_DEEPEST - READ_BUFFER / PG_HEADER || set->disable_pqexec))
			break;
		verdict = pass_unread(c, s, *at, at + PG_HEADER, size);
		if (verdict != VERDICT_PASS)
			break;
		at += PG_HEADER + (size_t)size;
	}
	if (at > buf)
		count_request(c);
	/* the messages before this one are sent first */
	if (verdict == VERDICT_MORE || verdict == VERDICT_LATER || (verdict == VERDICT_WAIT && at > buf))
		verdict = VERDICT_PASS;
	return (struct walk){ (size_t)(at - buf), verdict };
}

/* ---- messages of servers ---- */

#define WHOLE_MOST 65536	/* longest message that has to be read as a whole (ParameterStatus) */
#define NOTIFIER 4		/* bytes of the process ID in a NotificationResponse */
#define ERROR_LOOK 128		/* bytes of an ErrorResponse in which its severity is found */

/* ParameterStatus for the server's client, which has that value from now on. */
static void client_parameter(struct server *s, const char *name, const char *value)
{
	struct world *w = s->peer.world;
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	int index = params_index(w->params, name);
	const struct params *set;
	char named[NAME_WITH_HOST];

	role_reported(s, name);
	if (c && index >= 0 && index != PARAM_APPLICATION_NAME)
		prepared_parameters_changed(s, PARAMETERS_REPORTED);
	server_parameter(s, name, value);
	if (!c || index < 0)
		return;
	/* the client's server, or its next one, gets the name with the address */
	if (index == PARAM_APPLICATION_NAME && w->conf->settings.application_name_add_host && !c->replication)
		value = client_name_with_host(c, value, named);
	set = params_with(w->params, c->params, index, value);
	if (set)
		params_replace(w->params, &c->params, set);
	else
		s->pooled.close_reason = REASON_NO_MEMORY;
}

/* A complete CommandComplete with a tag that may concern pgweir. */
static void look_at_tag(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	enum pg_tag tag = pg_tag_read(f->body, f->size);
	bool is_local = tag == TAG_SET && owner == OWED_TO_CLIENT && server_set_is_local(s);

	if (tag == TAG_DISCARD_ALL || tag == TAG_DEALLOCATE_ALL)
		prepared_deallocated(s, owner == OWED_TO_CLIENT ? c : NULL, true);
	if (tag == TAG_DEALLOCATE && owner == OWED_TO_CLIENT)
		prepared_deallocated(s, c, false);
	if (tag == TAG_SET && owner == OWED_TO_CLIENT)
		prepared_parameters_changed(s, PARAMETERS_SET);
	if (tag == TAG_DISCARD_ALL || tag == TAG_SET)
		server_parameters_told(s, tag == TAG_DISCARD_ALL, owner == OWED_TO_CLIENT);
	if (tag != TAG_NOTHING && owner == OWED_TO_CLIENT && !is_local)
		session_state_told(s, tag, tag == TAG_DISCARD_ALL || (tag == TAG_SET && f->size == TAG_RESET_SIZE));
	/* texts may have another meaning until the transaction ends: the tables may be temporary */
	if (owner == OWED_TO_CLIENT &&
	    (pg_tag_changes_meaning(tag) || tag == TAG_CREATE || tag == TAG_CODE || tag == TAG_DISCARD || tag == TAG_DISCARD_ALL))
		s->session.meaning_in_doubt = true;
	if (pg_tag_changes_meaning(tag)) {
		prepared_meaning_changed(s, false);
		/* a connect_query does the same on each server, and affects no text that another server has parsed */
		if (owner == OWED_TO_CLIENT) {
			s->peer.world->meanings++;
			s->session.changes |= CHANGES_MEANING;
		}
		if (tag == TAG_ALTER_SESSIONS)
			s->session.changes |= CHANGES_SESSIONS;
	}
}

/* A message that answers the query of server->task. True: the client gets this error, because the server ends. */
static bool take_task_answer(struct server *s, const struct pg_frame *f)
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

/* An answer to a message of pgweir's own: it is dropped after the feature that marked the message has seen it. */
static enum verdict swallowed(struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	switch (mark) {
	case MARK_TASK:
		if (!s->task)
			return VERDICT_INVALID;
		return take_task_answer(s, f) ? VERDICT_PASS : VERDICT_SWALLOW;
	case MARK_DISCARD:
		if (f->type == PGS_COMPLETE)
			session_values_discarded(s);
		break;
	case LEDGER_UNMARKED:
	case MARK_PREPARED:
	case LEDGER_MARKS:
		break;
	}
	/* the error of a message that pgweir put before the client's message, which the server skips now */
	if (f->type == PGS_ERROR)
		return VERDICT_PASS;
	return f->type == PGS_READY && mark != MARK_PREPARED ? VERDICT_INVALID : VERDICT_SWALLOW;
}

/* While a message of pgweir's own settles a doubt: a ReadyForQuery that answers a Sync of the client, and not this message. */
static bool is_surplus(const struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	return mark == MARK_TASK && f->type == PGS_READY && s->ledger.mark == LEDGER_UNMARKED;
}

/* Notes the facts about the server that a message contains, also of a message that is not forwarded. False: the message is malformed, or there is no
   memory (pooled.close_reason). */
static bool take_note(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_verdict verdict, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->here);
	const char *name, *value;

	switch (f->type) {
	case PGS_ERROR:
		s->session.has_failed = true;
		s->said_fatal = pg_error_is_fatal(f->body, f->here < ERROR_LOOK ? f->here : ERROR_LOOK);
		prepared_parameters_changed(s, PARAMETERS_RESET);
		break;
	case PGS_COPY_IN:
		/* no other server can take the data that the client is about to send */
		if (s->ledger.lost)
			s->status = 'T';
		break;
	case PGS_READY:
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && pg_is_status((uint8_t)s->status);
	case PGS_PARAMETER:
		name = pg_read_string(&body);
		value = pg_read_string(&body);
		if (body.bad || body.at != body.end)
			return false;
		if (owner == OWED_TO_CLIENT)
			client_parameter(s, name, value);
		else
			server_parameter(s, name, value);
		welcome_reported(s->welcome, name, value);
		return s->pooled.close_reason != REASON_NO_MEMORY;
	case PGS_COMPLETE:
		if (verdict == LEDGER_ANSWER && pg_tag_may_tell(f->type, f->size, c && (c->keeps_state | c->names_sql) ? TAG_ANY_SIZE : TAG_SIZES))
			look_at_tag(s, c, f, owner);
		break;
	}
	return true;
}

/* A message that answers nothing: ParameterStatus, a notice, a notification, or the error of a server that ends. */
static enum verdict unasked(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	/* the client has all its answers and is about to release the server: further messages of the server are not for the client */
	bool is_between_transactions = c && ledger_is_empty(&s->ledger) && s->status == 'I' && !s->task && c->shares_server && !c->pooled.pins &&
				       (c->peer.passing == 0 || c->peer.passing_dropped);

	if (f->type == PGS_ERROR && (!c || is_between_transactions))
		return VERDICT_FATAL;
	if (f->type == PGS_NOTIFICATION && s->pooled.state == SERVER_LISTENING)
		return notify_clients_deliver(s, f) ? VERDICT_SWALLOW : VERDICT_INVALID;
	/* messages before the client's welcome are for no client */
	if (!c || c->login)
		return VERDICT_SWALLOW;
	if (f->type == PGS_NOTIFICATION) {
		if (c->hears && !notify_client_passes(c, f))
			return VERDICT_SWALLOW;
		if (f->here >= NOTIFIER) {
			/* The client knows another process ID for that session. The frame is in the read buffer or in the held bytes: both may be changed. */
			uint8_t *pid = (uint8_t *)(uintptr_t)f->body;
			uint32_t told = notify_sender(s, pg_u32_at(pid));

			pg_u32_put(pid, notify_sender_for(c, told));
		}
		return VERDICT_PASS;
	}
	/* After its own SET pgweir reports the new values to the client itself. Notices of that SET are for no client. */
	return owner == OWED_TO_POOLER ? VERDICT_SWALLOW : VERDICT_PASS;
}

static bool is_description(uint8_t type)
{
	return type == PGS_PARAMETER_TYPES || type == PGS_ROW_DESCRIPTION || type == PGS_NO_DATA;
}

static enum verdict server_frame(struct server *s, const struct pg_frame *f)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_mark mark = ledger_next_mark(&s->ledger);
	enum ledger_kind kind = ledger_next_kind(&s->ledger);
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	/* Only a task changes parameters for pgweir. During other messages of pgweir the client's values are reported: the error of a Parse before a Query
	   rolls back the client's SET. */
	if (f->type == PGS_PARAMETER && mark != MARK_TASK)
		owner = OWED_TO_CLIENT;
	if (verdict == LEDGER_BROKEN || !take_note(s, c, f, verdict, owner))
		return VERDICT_INVALID;
	if (verdict == LEDGER_ASYNC)
		return unasked(s, c, f, owner);
	if (mark == MARK_PREPARED && kind == LEDGER_DESCRIBE_STATEMENT && is_description(f->type))
		prepared_described(s, f);
	/* the answer may concern prepared statements; a client may have names that this server does not know */
	if ((s->prepared || (c && c->prepared)) && (s->ledger.mark == MARK_PREPARED || s->ledger.marks_skipped[MARK_PREPARED] > 0)) {
		enum verdict answer = prepared_answered(s, c, f);

		if (answer != VERDICT_MORE)
			return answer == VERDICT_PASS && !c ? VERDICT_SWALLOW : answer;
	}
	if (owner == OWED_TO_POOLER && !is_surplus(s, f, mark))
		return swallowed(s, f, mark);
	if (!c)
		return is_surplus(s, f, mark) ? VERDICT_SWALLOW : VERDICT_INVALID;
	/* the client has named statements in SQL, which have other names on the server */
	if (f->type == PGS_ERROR && c->names_sql)
		return prepared_sql_failed(s, c, f);
	return f->type == PGS_READY ? VERDICT_READY : VERDICT_PASS;
}

enum verdict answer_look(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f)
{
	enum pg_verdict read = pg_frame_look(at, n, INT32_MAX, f), is_last;
	const struct client *c = s->pooled.link && !s->pooled.link->is_internal ? client_of(s->pooled.link) : NULL;
	const struct pg_server_message *row;

	if (read != PG_OK)
		return read == PG_MORE ? VERDICT_MORE : VERDICT_INVALID;
	is_last = release_look_for_reply(s, at, n);
	if (is_last != PG_BAD)
		return is_last == PG_MORE ? VERDICT_MORE : VERDICT_LAST;
	row = pg_server_message(f->type, PG_SESSION);
	if (!row || (row->whole && f->size > WHOLE_MOST))
		return VERDICT_INVALID;
	if (f->here < f->size) {
		bool fits = f->size <= WHOLE_MOST;

		if (row->whole)
			return VERDICT_MORE;
		if (is_description(f->type) && fits && ledger_next_mark(&s->ledger) == MARK_PREPARED)
			return VERDICT_MORE;
		if (f->type == PGS_ERROR && (f->here < ERROR_LOOK || (answer_may_be_told(s) && fits)))
			return VERDICT_MORE;
		/* the channel of a notification may decide whether the notification is forwarded */
		if (f->type == PGS_NOTIFICATION && (f->here < NOTIFIER || (fits && (c ? c->hears : s->pooled.state == SERVER_LISTENING))))
			return VERDICT_MORE;
		if (pg_tag_may_tell(f->type, f->size, TAG_ANY_SIZE) || (s->task && s->task->reads_rows && fits))
			return VERDICT_MORE;
	}
	return server_frame(s, f);
}
