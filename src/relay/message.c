/*
 * Messages of clients and servers: where each goes, and its effects.
 *
 * A client's message goes one of two ways, with the same effect. request_take looks at one frame, possibly before it is complete. request_pass_plain
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
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/relay.h"
#include "relay/release.h"
#include "state/server_session.h"
#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/session_functions.h"
#include "state/session_state.h"
#include "state/task.h"

#include <string.h>

/* ---- messages of clients ---- */

#define PROMISES_AT_ONCE 1024	/* answers that the pooler gives in one write */

/* Answers without a server. */
static NEVER_INLINE enum step say_ready(struct client *c)
{
	struct bytes ready = BYTES_EMPTY;
	bool sent;

	pg_build_ready(&ready, 'I');
	sent = client_send(c, &ready);
	bytes_free(&ready);
	return sent ? STEP_DROP : STEP_GONE;
}

static bool needs_no_server(const struct pg_frame *f)
{
	/* Sync, Flush: nothing to wait for, or to flush */
	if (pg_client_message(f->type, PG_SESSION))
		return f->size == 0;
	return pg_frame_is_whole(f);
}

bool request_take_without_server(struct client *c, const uint8_t *at, size_t n, size_t *used)
{
	uint32_t most = (uint32_t)c->peer.world->conf->settings.max_packet_size;
	struct bytes ready = BYTES_EMPTY;
	struct pg_frame f;
	bool sent;

	for (*used = 0; pg_frame_look(at + *used, n - *used, most, &f) == PG_OK && request_may_need_no_server(f.type) && needs_no_server(&f);
	     *used += PG_HEADER + f.size)
		if (f.type == PGC_SYNC)
			pg_build_ready(&ready, 'I');
	sent = *used == 0 || bytes_size(&ready) == 0 || client_send(c, &ready);
	bytes_free(&ready);
	return sent;
}

/* The server has something to do first, or has ended. */
static NEVER_INLINE enum step wait_for_server(const struct client *c)
{
	return peer_is_stopped(&c->peer) ? STEP_GONE : STEP_WAIT;
}

/* A client that has no server sends this; get one, or say what happens without. */
static ALWAYS_INLINE enum step want_server(struct client *c)
{
	struct world *w = c->peer.world;
	struct pool_server *lent;

	c->peer.request_at = w->now_wall;
	lent = pool_want(&c->pooled, w->now);
	if (!lent)
		return STEP_WAIT;
	if (!link_begin(server_of(lent), c))
		return wait_for_server(c);
	return STEP_PASS;
}

static ALWAYS_INLINE void count_request(struct client *c)
{
	struct world *w = c->peer.world;

	if (c->query_started == 0)
		c->query_started = w->now;
	if (c->transaction_started == 0)
		c->transaction_started = w->now;
}

/* While refusing, the client's request is answered without a server: see cancel_refuse_waiting(). */
static enum step refuse_frame(struct client *c, uint8_t type)
{
	if (type != c->refused_until)
		return STEP_DROP;
	c->refused_until = 0;
	return say_ready(c);
}

/* The client waits for the next answers of its server. */
static enum step wait_for_answers(struct client *c)
{
	flow_block(&c->peer, FLOW_ANSWERS);
	return STEP_WAIT;
}

/* The message is half written down, and may have been half sent: its server, with a ledger that is wrong now, ends with the client, though
   nothing may be owed by them. */
static enum step no_memory(struct client *c)
{
	ASSERT(c->pooled.link);
	server_end(server_of(c->pooled.link), REASON_NO_MEMORY, NULL);
	return STEP_GONE;
}

/* At least one is due. */
static NEVER_INLINE bool send_local_replies(struct client *c, struct server *s)
{
	uint8_t out[PROMISES_AT_ONCE * PG_HEADER];
	const void *reply;
	size_t size, used;

	/* before them comes a ReadyForQuery that is held back */
	if (s->task == &task_hear)
		return true;
	/* not into the middle of a message, nor more than a client that does not read may make us keep */
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

bool request_send_local_replies(struct client *c, struct server *s)
{
	return !ledger_local_reply_is_due(&s->ledger) || send_local_replies(c, s);
}

/*
 * The pipeline has reached RELAY_DEEPEST. Local replies that are due may be sent now. The server may hold its answers in its buffer until a Flush or
 * Sync, and the client's Sync comes later in the pipeline: so pgweir sends a Flush.
 */
static NEVER_INLINE enum step too_deep(struct client *c, struct server *s, struct gather *g)
{
	static const uint8_t flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	if (!request_send_local_replies(c, s))
		return STEP_GONE;
	if (ledger_depth(&s->ledger) < RELAY_DEEPEST)
		return STEP_PASS;
	gather_copy(g, flush, sizeof(flush));
	return wait_for_answers(c);
}

/* A message about a statement that others may share. */
static enum step prepared_frame(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	enum prepared_verdict verdict = prepared_send(c, s, f, g, skip);

	/* the awaited answer may be a local reply */
	if (verdict == PREPARED_WAIT && ledger_local_reply_is_due(&s->ledger)) {
		if (!request_send_local_replies(c, s))
			return STEP_GONE;
		verdict = prepared_send(c, s, f, g, skip);
	}
	switch (verdict) {
	case PREPARED_PASS: return STEP_PASS;
	case PREPARED_SWALLOW: return STEP_DROP;
	case PREPARED_WAIT: return wait_for_answers(c);
	case PREPARED_NO_MEMORY: return no_memory(c);
	case PREPARED_TOO_MUCH:
		client_end(c, REASON_PREPARED_MEMORY, NULL);
		return STEP_GONE;
	case PREPARED_MORE: break;
	}
	if (!prepared_is_incomplete(f))
		count_request(c);	/* its server waits for the rest */
	/* only the text of a named Parse has to be seen as a whole; of all others the names do */
	if (f->type == PGC_PARSE && f->here > 0 && f->body[0] != 0 && f->size + PG_HEADER > READ_BUFFER)
		c->collects = f->size + PG_HEADER;
	return STEP_MORE;
}

/* A Flush with a body is an error for PostgreSQL, which then skips all messages up to the next Sync: with nothing owed, the server would look
   ready, and skip the messages of its next client. */
static NEVER_INLINE enum step refuse_flush(struct client *c)
{
	client_end(c, REASON_BAD_PACKET, "Flush");
	return STEP_GONE;
}

/* Simple queries are allowed; otherwise the client has ended. */
static bool may_query(struct client *c)
{
	if (!c->peer.world->conf->settings.disable_pqexec)
		return true;
	client_end(c, REASON_PQEXEC, NULL);
	return false;
}

/* Incomplete SQL that is not sent before its rest arrives, because it is searched for names of parameters. SQL that is too large for the read
   buffer passes. */
static bool text_lacks(const struct client *c, const struct pg_frame *f)
{
	bool is_text = f->type == PGC_QUERY || f->type == PGC_PARSE;

	return is_text && pool_keeps_state(c->pooled.pool) && f->here < f->size && f->size <= READ_BUFFER - PG_HEADER;
}

/* The client is to have a server that is ready for this message. STEP_PASS: it has. */
static enum step find_server(struct client *c, const struct pg_client_message *row, const struct pg_frame *f)
{
	struct server *s;
	enum step step;

	if (!c->pooled.link) {
		if ((prepared_is_incomplete(f) || text_lacks(c, f)) && link_will_share(c))
			return STEP_MORE;
		step = row->taken_by == TAKEN_BY_COPY ? STEP_DROP : want_server(c);
		if (step != STEP_PASS)
			return step;
	}
	s = server_of(c->pooled.link);
	if (s->task != NULL || (s->ledger.lost && release_may_move(s)))
		return STEP_WAIT;
	/* left over from a COPY that failed */
	if (row->taken_by == TAKEN_BY_COPY && !ledger_may_copy(&s->ledger))
		return STEP_DROP;
	return STEP_PASS;
}

/* Whether the client waits for an answer to a message of this kind. */
static bool is_answered(enum ledger_kind owes)
{
	return owes < LEDGER_COPY_END;
}

/* The server owes nothing, and is in no transaction: it may be asked something before the client's message. */
static bool is_first(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && c->transaction_started == 0;
}

static enum step note_text(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of);

/* The text asks for values of sequences, and the session has values of another client: DISCARD SEQUENCES goes first. */
static NEVER_INLINE enum step discard_values(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of)
{
	if (!g)
		return STEP_MORE;
	if (session_values_discard(s, g))
		return note_text(c, s, g, text, size, of);
	server_end(s, REASON_STATE_UNKNOWN, NULL);
	return STEP_GONE;
}

/* STEP_WAIT: the server has something to do before. STEP_MORE: something is to be gathered before, and there is no `g`. */
static enum step note_text(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of)
{
	/* else the beginning of the link has seen to that */
	if (s->session.doubts | c->pooled.pins && is_first(s, c) && session_functions_are_due(c->pooled.pool, s->peer.world->now))
		session_functions_ask(s);
	else if (session_state_text(s, c, text, size, of))
		return s->session.sets_null && !g ? STEP_MORE : STEP_PASS;
	else if (wait_for_server(c) == STEP_GONE)
		return STEP_GONE;
	else if (s->session.unknown & UNKNOWN_SEQUENCES && s->ledger.open)
		return discard_values(c, s, g, text, size, of);
	else if (!ledger_is_empty(&s->ledger))
		return wait_for_answers(c);
	else if (s->session.unknown & UNKNOWN_SEQUENCES)
		session_values_begin(s, text, size);
	else
		notify_client_relisten(s, c);
	return wait_for_server(c);
}

/* The SQL of a Parse comes after the name; an incomplete name is taken for SQL. */
static NEVER_INLINE enum step note_parse(struct client *c, struct server *s, struct gather *g, const uint8_t *body, size_t here)
{
	const uint8_t *nul = here > 0 ? memchr(body, 0, here) : NULL;

	size_t at = nul ? (size_t)(nul + 1 - body) : 0;

	return note_text(c, s, g, body + at, here - at, at == 1 ? TEXT_OF_UNNAMED : TEXT_OF_NAMED);
}

/* Notes the state that the message may set on the server. */
static NEVER_INLINE enum step note_state(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g)
{
	if (f->type == PGC_PARSE)
		return note_parse(c, s, g, f->body, f->here);
	if (f->type == PGC_QUERY)
		return note_text(c, s, g, f->body, f->here, TEXT_OF_QUERY);
	if (f->type == PGC_CALL)
		session_state_told(s, TAG_CODE, false);
	return STEP_PASS;
}

/* A Query that names prepared statements of its client, or may. */
static NEVER_INLINE enum step enter_sql(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g)
{
	if (!pg_frame_is_whole(f) && f->size <= READ_BUFFER - PG_HEADER) {
		count_request(c);
		return STEP_MORE;
	}
	switch (prepared_send_sql(c, s, f, g)) {
	case PREPARED_PASS:
		role_query_sent(s, f->body, f->here);
		return STEP_PASS;
	case PREPARED_SWALLOW:
		role_query_sent(s, f->body, f->here);
		return STEP_DROP;
	case PREPARED_WAIT:
		return wait_for_answers(c);
	default:
		return no_memory(c);
	}
}

/* Enters a message that goes to the server unchanged. */
static enum step enter(struct client *c, struct server *s, const struct pg_client_message *row, const struct pg_frame *f, struct gather *g)
{
	if (row->taken_by == TAKEN_BY_QUERY) {
		prepared_note_settings(c, s, f->body, f->here);
		retire_for_text(s, f->body, f->here);
	}
	if (row->taken_by == TAKEN_BY_QUERY && prepared_query_may_name(c, f->body, f->here))
		return enter_sql(c, s, f, g);
	if (row->taken_by == TAKEN_BY_QUERY)
		role_query_sent(s, f->body, f->here);
	if (row->taken_by == TAKEN_BY_QUERY ? !prepared_send_query(c, s) :
	    !ledger_sent(&s->ledger, f->type, f->here ? f->body[0] : 0, OWED_TO_CLIENT))
		return no_memory(c);
	if (row->taken_by == TAKEN_BY_SYNC)
		s->batch++;
	else if (row->taken_by == TAKEN_BY_FLUSH && !request_send_local_replies(c, s))
		return STEP_GONE;
	return STEP_PASS;
}

static void retire_for_parse(struct server *s, const struct pg_frame *f)
{
	const uint8_t *nul = f->here > 0 ? memchr(f->body, 0, f->here) : NULL;

	if (nul)
		retire_for_text(s, nul + 1, f->here - (size_t)(nul + 1 - f->body));
}

/* Takes a message after its text has been examined. */
static enum step take(struct client *c, struct server *s, const struct pg_client_message *row, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	if (f->type == PGC_PARSE)
		retire_for_parse(s, f);
	if (c->shares_names && row->taken_by == TAKEN_BY_STATEMENT)
		return prepared_frame(c, s, f, g, skip);
	return enter(c, s, row, f, g);
}

/* The text resets parameters by set_config('name', NULL, ...): the client's own start-up values replace the NULLs. */
static NEVER_INLINE enum step take_filled(struct client *c, struct server *s, const struct pg_client_message *row, const struct pg_frame *f, struct gather *g,
					  size_t *skip)
{
	const uint8_t *nul = f->type == PGC_PARSE ? memchr(f->body, 0, f->here) : NULL, *text = nul ? nul + 1 : f->body;
	struct bytes message = BYTES_EMPTY;
	struct pg_frame filled = *f;
	enum step step;

	s->session.sets_null = false;
	bytes_append_u8(&message, f->type);
	bytes_append_u32(&message, 0);
	bytes_append(&message, f->body, (size_t)(text - f->body));
	if (!pg_frame_is_whole(f) || !session_state_fill(c, text, f->here - (size_t)(text - f->body), &message)) {
		bytes_free(&message);
		return take(c, s, row, f, g, skip);
	}
	if (message.failed) {
		bytes_free(&message);
		return no_memory(c);
	}
	filled.body = bytes_front(&message) + PG_HEADER;
	filled.size = filled.here = (uint32_t)(bytes_size(&message) - PG_HEADER);
	pg_u32_put(bytes_front(&message) + 1, filled.size + PG_LENGTH_WORD);
	step = take(c, s, row, &filled, g, skip);
	if (step == STEP_PASS) {
		gather_add(g, bytes_front(&message) + *skip, bytes_size(&message) - *skip);
		step = STEP_DROP;
	}
	*skip = 0;
	g->to = &s->peer.stream;
	gather_flush(g);
	c->half_sent = false;
	bytes_free(&message);
	return step;
}

enum step request_take(struct client *c, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	const struct pg_client_message *row = &pg_client_messages[f->type];
	struct server *s;
	enum step step;

	if (row->taken_by == TAKEN_BY_TERMINATE)
		return STEP_PASS;
	if (row->taken_by == TAKEN_BY_FLUSH && f->size > 0)
		return refuse_flush(c);
	if (c->refused_until)
		return refuse_frame(c, f->type);
	if (row->taken_by == TAKEN_BY_QUERY && !may_query(c))
		return STEP_GONE;
	step = find_server(c, row, f);
	if (step != STEP_PASS)
		return step;
	s = server_of(c->pooled.link);
	if (ledger_depth(&s->ledger) >= RELAY_DEEPEST && !s->ledger.copy_in) {
		step = too_deep(c, s, g);
		if (step != STEP_PASS)
			return step;
	}
	if (c->keeps_state) {
		if (text_lacks(c, f))
			return STEP_MORE;
		step = note_state(c, s, f, g);
		if (step != STEP_PASS)
			return step;
	}
	step = c->keeps_state && s->session.sets_null ? take_filled(c, s, row, f, g, skip) : take(c, s, row, f, g, skip);
	if ((step == STEP_PASS || step == STEP_DROP) && is_answered((enum ledger_kind)row->owes))
		count_request(c);
	return step;
}

static NEVER_INLINE enum step note_query(struct client *c, struct server *s, const uint8_t *body, uint32_t size)
{
	enum step step = note_text(c, s, NULL, body, size, TEXT_OF_QUERY);

	return step != STEP_PASS || prepared_send_query(c, s) ? step : no_memory(c);
}

/* Enters a complete message for a server that is ready for it; `body` has `size` bytes. STEP_MORE: it must be examined, and nothing has happened. */
static ALWAYS_INLINE enum step enter_unread(struct client *c, struct server *s, uint8_t type, enum pg_unread unread,
					     const uint8_t *body, uint32_t size)
{
	enum step step;

	switch (unread) {
	case UNREAD_NEVER:
		return STEP_MORE;
	case UNREAD_QUERY:
		if (s->ledger.lost || role_query_may_keep(body, size) || prepared_query_may_name(c, body, size))
			return STEP_MORE;
		prepared_note_settings(c, s, body, size);
		retire_for_text(s, body, size);
		if (c->keeps_state)
			return note_query(c, s, body, size);
		return prepared_send_query(c, s) ? STEP_PASS : no_memory(c);
	case UNREAD_UNNAMED_PARSE:
		if (size > 1)
			retire_for_text(s, body + 1, size - 1);
		if (!c->shares_names)
			break;
		if (size < 1 || body[0] != 0 || !ledger_enters(&s->ledger) || prepared_parse_may_name(c, body + 1, size - 1))
			return STEP_MORE;
		if (c->keeps_state && (step = note_parse(c, s, NULL, body, size)) != STEP_PASS)
			return step;
		return prepared_send_unnamed_parse(c, s, body + 1, size - 1) ? STEP_PASS : no_memory(c);
	case UNREAD_UNNAMED_BIND:
		if (c->shares_names && (size < 2 || body[0] != 0 || body[1] != 0 || !prepared_has_unnamed(c, s)))
			return STEP_MORE;
		break;
	case UNREAD_PORTAL:
		if (size < 1 || body[0] != PG_OF_PORTAL)
			return STEP_MORE;
		break;
	case UNREAD_SYNC:
		if (!ledger_sent_plain(&s->ledger, type))
			return STEP_MORE;
		s->batch++;
		return STEP_PASS;
	case UNREAD_COPY_DATA:
		return s->ledger.copy_in ? STEP_PASS : STEP_MORE;
	case UNREAD_ALWAYS:
		break;
	}
	return ledger_sent_plain(&s->ledger, type) ? STEP_PASS : STEP_MORE;
}

static bool may_begin(enum pg_unread unread)
{
	return unread >= UNREAD_ALWAYS && unread <= UNREAD_PORTAL;
}

/* Whatever one read may bring can be entered without a look at how much is owed already. */
static bool is_ready(const struct server *s)
{
	return !s->task && ledger_depth(&s->ledger) < RELAY_DEEPEST - READ_BUFFER / PG_HEADER;
}

struct walk request_pass_plain(struct client *c, const uint8_t *buf, size_t n)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	const uint8_t *at = buf, *end = buf + n;
	const struct settings *set = &c->peer.world->conf->settings;
	enum step step = STEP_PASS;

	while (end - at >= PG_HEADER) {
		enum pg_unread unread;
		uint32_t size;

		if (!pg_frame_is_here(at, (size_t)(end - at), &size) || size + PG_LENGTH_WORD > (size_t)set->max_packet_size)
			break;
		unread = (enum pg_unread)pg_client_unread[*at];
		if (!s) {
			if (!may_begin(unread) || set->disable_pqexec)
				break;
			step = want_server(c);
			if (step != STEP_PASS)
				break;
			s = server_of(c->pooled.link);
		}
		if (at == buf && (!is_ready(s) || set->disable_pqexec))
			break;
		step = enter_unread(c, s, *at, unread, at + PG_HEADER, size);
		if (step != STEP_PASS)
			break;
		at += PG_HEADER + (size_t)size;
	}
	if (at > buf)
		count_request(c);
	/* the messages before it are sent first */
	if (step == STEP_MORE || (step == STEP_WAIT && at > buf))
		step = STEP_PASS;
	return (struct walk){ (size_t)(at - buf), step };
}

/* ---- messages of servers ---- */

#define WHOLE_MOST 65536	/* longest message that has to be read as a whole (ParameterStatus) */
#define NOTIFIER 4		/* bytes of a NotificationResponse that name the process which has notified */
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

/* Processes ReadyForQuery and ParameterStatus. False: the message is malformed, or there is no memory (then server->close_reason says so). */
static bool server_whole(struct server *s, const struct pg_frame *f, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);

	if (f->type == PGS_READY) {
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && pg_is_status((uint8_t)s->status);
	}
	if (f->type == PGS_PARAMETER) {
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (body.bad || body.at != body.end)
			return false;
		if (owner == OWED_TO_CLIENT)
			client_parameter(s, name, value);
		else
			server_parameter(s, name, value);
		welcome_reported(s->welcome, name, value);
		return s->pooled.close_reason != REASON_NO_MEMORY;
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
		prepared_deallocated(s, owner == OWED_TO_CLIENT ? c : NULL, true);
	if (tag == TAG_DEALLOCATE && owner == OWED_TO_CLIENT)
		prepared_deallocated(s, c, false);
	if (tag == TAG_SET && owner == OWED_TO_CLIENT)
		prepared_parameters_changed(s, PARAMETERS_SET);
	if (tag == TAG_DISCARD_ALL || tag == TAG_SET)
		server_parameters_told(s, tag == TAG_DISCARD_ALL, owner == OWED_TO_CLIENT);
	if (tag != TAG_NOTHING && owner == OWED_TO_CLIENT)
		session_state_told(s, tag, tag == TAG_DISCARD_ALL || (tag == TAG_SET && f->size == TAG_RESET_SIZE));
	if (owner == OWED_TO_CLIENT && pg_tag_is_definition(tag))
		s->session.meaning_in_doubt = true;
	if (pg_tag_changes_meaning(tag)) {
		prepared_meaning_changed(s, false);
		/* a connect_query does the same on each server, and changes nothing for what was parsed on another one */
		if (owner == OWED_TO_CLIENT) {
			s->peer.world->meanings++;
			s->session.changes |= CHANGES_MEANING;
		}
		if (tag == TAG_ALTER && pg_tag_changes_sessions(f->body, f->size))
			s->session.changes |= CHANGES_SESSIONS;
	}
}

/* An answer to a message of pgweir's own: it is dropped after the feature that marked the message has seen it. */
static enum answer swallowed(struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	switch (mark) {
	case MARK_TASK:
		if (!s->task)
			return ANSWER_BROKEN;
		return server_task_heard(s, f) ? ANSWER_RELAY : ANSWER_DROP;
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
		return ANSWER_RELAY;
	return f->type == PGS_READY && mark != MARK_PREPARED ? ANSWER_BROKEN : ANSWER_DROP;
}

/* While a message of pgweir's own settles a doubt: a ReadyForQuery that answers a Sync of the client, and not this message. */
static bool is_surplus(const struct server *s, const struct pg_frame *f, enum ledger_mark mark)
{
	return mark == MARK_TASK && f->type == PGS_READY && s->ledger.mark == LEDGER_UNMARKED;
}

/* The client has all its answers and is about to release the server: further messages of the server are not for the client. */
static bool is_between_transactions(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && !s->task && c->shares_server && !c->pooled.pins &&
	       (c->peer.passing == 0 || c->peer.passing_dropped);
}

/* Passes an answer to the prepared statements. True: *answer is decided. */
static bool concerns_prepared(struct server *s, struct client *c, const struct pg_frame *f, enum answer *answer)
{
	if (s->ledger.mark != MARK_PREPARED && s->ledger.marks_skipped[MARK_PREPARED] == 0)
		return false;
	switch (prepared_answered(s, c, f)) {
	case PREPARED_NORMAL: return false;
	case PREPARED_RELAY: *answer = c ? ANSWER_RELAY : ANSWER_DROP; return true;
	case PREPARED_DROP: *answer = ANSWER_DROP; return true;
	case PREPARED_BROKEN: break;
	}
	*answer = ANSWER_BROKEN;
	return true;
}

/* Replaces the process id by the number that the client knows for that session. The frame is in the read buffer of the loop or in bytes held for
   the server: both may be changed. */
static void name_notifier(struct server *s, const struct pg_frame *f)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	uint8_t *pid = (uint8_t *)(uintptr_t)f->body;
	uint32_t told;

	if (f->here < NOTIFIER)
		return;
	told = notify_sender(s, pg_u32_at(pid));
	pg_u32_put(pid, c ? notify_sender_for(c, told) : told);
}

/* Notes the facts about the server that an answer or report contains, also if it is dropped. False: as server_whole. */
static bool take_note(struct server *s, struct client *c, const struct pg_frame *f, bool whole, enum ledger_verdict verdict, enum ledger_owner owner)
{
	if (f->type == PGS_ERROR) {
		s->session.has_failed = true;
		look_at_error(s, f);
		prepared_parameters_changed(s, PARAMETERS_RESET);
	}
	/* no other server would take the data that its client is about to send */
	if (f->type == PGS_COPY_IN && s->ledger.lost)
		s->status = 'T';
	if (whole && !server_whole(s, f, owner))
		return false;
	if (verdict == LEDGER_ANSWER && pg_tag_may_tell(f->type, f->size, c && (c->keeps_state | c->names_sql) ? TAG_ANY_SIZE : TAG_SIZES))
		look_at_tag(s, c, f, owner);
	return true;
}

/* A message that answers none: ParameterStatus, a notice, a notification, or the last words of a server that ends. */
static enum answer unasked(struct server *s, struct client *c, const struct pg_frame *f, enum ledger_owner owner)
{
	if (f->type == PGS_ERROR && (!c || is_between_transactions(s, c)))
		return ANSWER_LAST_WORDS;
	if (f->type == PGS_NOTIFICATION && s->pooled.state == SERVER_LISTENING)
		return notify_clients_deliver(s, f) ? ANSWER_DROP : ANSWER_BROKEN;
	/* messages before the client's welcome are for no client */
	if (!c || c->login)
		return ANSWER_DROP;
	if (f->type == PGS_NOTIFICATION) {
		if (c->hears && !notify_client_passes(c, f))
			return ANSWER_DROP;
		name_notifier(s, f);
		return ANSWER_RELAY;
	}
	/* the client is told the values that pgweir's SET changed at the end of the SET; notices of the SET are for no client */
	return owner == OWED_TO_POOLER ? ANSWER_DROP : ANSWER_RELAY;
}

/* The client has named statements in SQL: the server knows them by other names. */
static enum answer sql_failed(struct server *s, struct client *c, const struct pg_frame *f)
{
	enum prepared_answer answer = prepared_sql_failed(s, c, f);

	return answer == PREPARED_BROKEN ? ANSWER_BROKEN : answer == PREPARED_DROP ? ANSWER_DROP : ANSWER_RELAY;
}

static bool is_description(uint8_t type)
{
	return type == PGS_PARAMETER_TYPES || type == PGS_ROW_DESCRIPTION || type == PGS_NO_DATA;
}

static enum answer server_frame(struct server *s, const struct pg_frame *f, bool whole)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_mark mark = ledger_next_mark(&s->ledger);
	enum ledger_kind kind = ledger_next_kind(&s->ledger);
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);
	enum answer answer;

	if (verdict == LEDGER_BROKEN || !take_note(s, c, f, whole, verdict, owner))
		return ANSWER_BROKEN;
	if (verdict == LEDGER_ASYNC)
		return unasked(s, c, f, owner);
	if (mark == MARK_PREPARED && kind == LEDGER_DESCRIBE_STATEMENT && is_description(f->type))
		prepared_described(s, f);
	/* a client may have names that this server has never heard of */
	if ((s->prepared || (c && c->prepared)) && concerns_prepared(s, c, f, &answer))
		return answer;
	if (owner == OWED_TO_POOLER && !is_surplus(s, f, mark))
		return swallowed(s, f, mark);
	if (!c)
		return is_surplus(s, f, mark) ? ANSWER_DROP : ANSWER_BROKEN;
	if (f->type == PGS_ERROR && c->names_sql)
		return sql_failed(s, c, f);
	return f->type == PGS_READY ? ANSWER_READY : ANSWER_RELAY;
}

/* The whole notification is needed: its channel decides whether it is dropped. */
static bool is_for_listener(const struct server *s, const struct pg_frame *f)
{
	const struct client *c = s->pooled.link && !s->pooled.link->is_internal ? client_of(s->pooled.link) : NULL;

	return f->size <= WHOLE_MOST && (c ? c->hears : s->pooled.state == SERVER_LISTENING);
}

enum pg_verdict answer_look(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f, enum answer *answer)
{
	enum pg_verdict verdict = pg_frame_look(at, n, INT32_MAX, f), said;
	const struct pg_server_message *row;

	if (verdict != PG_OK)
		return verdict;
	said = release_look_for_reply(s, at, n);
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
		if (is_description(f->type) && f->size <= WHOLE_MOST && ledger_next_mark(&s->ledger) == MARK_PREPARED)
			return PG_MORE;
		if (f->type == PGS_ERROR && (f->here < ERROR_LOOK || (answer_may_be_told(s) && f->size <= WHOLE_MOST)))
			return PG_MORE;
		if (f->type == PGS_NOTIFICATION && (f->here < NOTIFIER || is_for_listener(s, f)))
			return PG_MORE;
		if (pg_tag_may_tell(f->type, f->size, TAG_ANY_SIZE) || (s->task && s->task->reads_rows && f->size <= WHOLE_MOST))
			return PG_MORE;
	}
	*answer = server_frame(s, f, row->whole);
	return *answer == ANSWER_BROKEN ? PG_BAD : PG_OK;
}
