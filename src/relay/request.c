/*
 * What becomes of a client's message: where it goes, what the server will owe for it, what has to happen first.
 *
 * There are two ways, and they lead to the same place. request_take looks at one frame, of which only the beginning may be here.
 * request_pass_plain takes, in one short loop, what nearly all traffic is: messages that are here as a whole, for a server that is ready,
 * and that may pass unread. Both go by the message's row in include/tbl/message.tbl, which names the code that takes a message and the
 * condition under which it may pass without that code. So the short way never does what the other would not do, and leaves to it
 * whatever needs a second look: a statement that others share, a COPY, a client that is being refused.
 *
 * Invariant: what is passed on has been entered in the ledger, or owes nothing.
 */
#include "relay/request.h"

#include "backend/retire.h"
#include "state/notify_client.h"
#include "state/role.h"
#include "state/session_functions.h"
#include "state/session_state.h"
#include "base/assert.h"
#include "base/inline.h"
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/release.h"
#include "relay/relay.h"

#include <string.h>

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

/* Its server's next answers decide. */
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
 * A pipeline too deep to be taken on. Local replies that are due may be sent now, whatever the client waits for. What the server has answered
 * may lie in its buffer until it is asked for, and the client's Sync, behind all this, is not taken on: so it is asked here.
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

	/* what it waits for may be the pooler's to give */
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
	if (!prepared_lacks(f))
		count_request(c);	/* its server waits for the rest */
	/* only the text of a named Parse has to be seen as a whole; of all others the names do */
	if (f->type == PGC_PARSE && f->here > 0 && f->body[0] != 0 && f->size + PG_HEADER > READ_BUFFER)
		c->collects = f->size + PG_HEADER;
	return STEP_MORE;
}

/* A Flush that is more than its header is an error for PostgreSQL, behind which it skips to the next Sync: with nothing owed
   it would look ready for the next client, and pass over what that one asks. */
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

/* SQL of which more has to be here before it goes anywhere, because the names of parameters are looked for in it. What is too large for the
   read buffer passes. */
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
		if ((prepared_lacks(f) || text_lacks(c, f)) && link_will_share(c))
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

/* Whether the client waits for an answer to what has this entry. */
static bool is_answered(enum ledger_kind owes)
{
	return owes < LEDGER_COPY_END;
}

/* The server owes nothing, and is in no transaction: it may be asked something before the client's message. */
static bool is_first(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && c->transaction_started == 0;
}

/* Values of sequences that are another client's go before the text. */
static NEVER_INLINE enum step discard_values(struct client *c, struct server *s, struct gather *g, const uint8_t *text, size_t size, enum text_of of)
{
	if (!g)
		return STEP_MORE;
	if (session_values_discard(s, g) && session_state_text(s, c, text, size, of))
		return STEP_PASS;
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

/* The SQL of a Parse comes after the name, of which one that is not here is taken for SQL. */
static NEVER_INLINE enum step note_parse(struct client *c, struct server *s, struct gather *g, const uint8_t *body, size_t here)
{
	const uint8_t *nul = here > 0 ? memchr(body, 0, here) : NULL;

	size_t at = nul ? (size_t)(nul + 1 - body) : 0;

	return note_text(c, s, g, body + at, here - at, at == 1 ? TEXT_OF_UNNAMED : TEXT_OF_NAMED);
}

/* What the message may set on the server. */
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

/* It goes to the server as it is. */
static enum step enter(struct client *c, struct server *s, const struct pg_client_message *row, const struct pg_frame *f, struct gather *g)
{
	if (row->taken_by == TAKEN_BY_QUERY) {
		prepared_look_for_settings(c, s, f->body, f->here);
		retire_for_text(s, f->body, f->here);
	}
	if (row->taken_by == TAKEN_BY_QUERY && prepared_may_be_named(c, f->body, f->here))
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

/* It has been looked at. */
static enum step take(struct client *c, struct server *s, const struct pg_client_message *row, const struct pg_frame *f, struct gather *g, size_t *skip)
{
	if (f->type == PGC_PARSE)
		retire_for_parse(s, f);
	if (c->shares_names && row->taken_by == TAKEN_BY_STATEMENT)
		return prepared_frame(c, s, f, g, skip);
	return enter(c, s, row, f, g);
}

/* The client's text resets parameters in a way in which it gets its own values only if these stand there. */
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

/* One that is here as a whole, to a server that is ready for it, `body` being `size` bytes. STEP_MORE: it has to be looked at more
   closely, and nothing has happened. */
static ALWAYS_INLINE enum step enter_unread(struct client *c, struct server *s, uint8_t type, enum pg_unread unread,
					     const uint8_t *body, uint32_t size)
{
	enum step step;

	switch (unread) {
	case UNREAD_NEVER:
		return STEP_MORE;
	case UNREAD_QUERY:
		if (s->ledger.lost || role_query_may_keep(body, size) || prepared_may_be_named(c, body, size))
			return STEP_MORE;
		prepared_look_for_settings(c, s, body, size);
		retire_for_text(s, body, size);
		if (c->keeps_state)
			return note_query(c, s, body, size);
		return prepared_send_query(c, s) ? STEP_PASS : no_memory(c);
	case UNREAD_UNNAMED_PARSE:
		if (size > 1)
			retire_for_text(s, body + 1, size - 1);
		if (!c->shares_names)
			break;
		if (size < 1 || body[0] != 0 || !ledger_enters(&s->ledger) || prepared_may_name(c, body + 1, size - 1))
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
	/* what was taken before goes on first */
	if (step == STEP_MORE || (step == STEP_WAIT && at > buf))
		step = STEP_PASS;
	return (struct walk){ (size_t)(at - buf), step };
}
