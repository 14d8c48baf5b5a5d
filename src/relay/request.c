/*
 * The request of a client with a role: which host executes it.
 *
 * A client asks for a role: most for the primary, some for standbys (pool/role.h). With the setting
 * reads, standbys also execute reads of clients of the primary: read-only transactions
 * (transaction), and single statements, too (auto). This file decides which host gets a request,
 * and has the transactions; offload.c has the single statements, and retry.c the requests that
 * another server gets after a failure. tbl/request_step.tbl has the steps.
 *
 * A read-only transaction, in the order of time:
 *
 * 1. BEGIN READ ONLY arrives (or START TRANSACTION, or a BEGIN while default_transaction_read_only
 *    is on in the session). The client has no server. pgweir answers BEGIN, and holds the message:
 *    step BEGIN_HELD. No host knows of the transaction yet. If COMMIT or ROLLBACK is next, pgweir
 *    answers it, too, and no server was needed.
 * 2. The first request arrives, and decides. If all of its texts are statements for standbys
 *    (sql/read_transaction.h) that leave nothing in the session (text_may_pin), the client asks for
 *    any host that is fresh enough for it: TO_READ. Otherwise it asks for the primary: TO_PRIMARY.
 *    Both last until a server has the request, whatever arrives meanwhile. A session with
 *    default_transaction_read_only needs no BEGIN, and a batch may have its BEGIN in itself.
 * 3. The client is linked to a server, which gets the BEGIN that was held, and the request after
 *    it in the same write. The server's answer to BEGIN is dropped. The role of the host at this
 *    time is the next step: READ_ON_STANDBY or READ_ON_PRIMARY. (After TO_PRIMARY it is DIRECT:
 *    nothing distinguishes the transaction from others any more.) The bytes of the request are
 *    kept.
 * 4. The answer arrives. Nothing of it is forwarded before the first statement has ended, or has
 *    sent rows. Then the client has a part of the answer, and the server is its only one.
 * 5. Further requests of the transaction are sent one at a time: the request after the end of the
 *    transaction may be a write, which must not go to this server. A standby would execute some
 *    statements that are meant for the primary, such as advisory locks, or would keep the client
 *    for its session: it gets a failing text instead, and the client gets the error 25001. A Query
 *    like "COMMIT; INSERT ..." goes to the primary, after the BEGIN: leave_standby(). On the
 *    primary such a text makes MAY_WRITE of the step, so that later reads wait for it.
 * 6. The transaction ends. The link ends, even if the next request has arrived. The step stays
 *    until that request is decided, as in 1 or 2.
 *
 * The effect of a failure:
 *
 *	BEGIN_HELD
 *		there is no server; a cancel request does nothing
 *	TO_READ, TO_PRIMARY
 *		nothing was sent: another server gets the request. A cancel request aborts the
 *		transaction (is_aborted): COMMIT or ROLLBACK is answered by ROLLBACK. For any other
 *		request the primary gets BEGIN and a ROLLBACK TO that fails, in one Query, and
 *		answers as to a client without a pooler
 *	READ_ON_STANDBY
 *		in the first request: whatever the error is, and if the connection is lost, the
 *		primary gets BEGIN and the request (TO_PRIMARY), and its answer counts. If the host
 *		becomes silent or is closed, the request is decided again. In a later request the
 *		client gets the error
 *	READ_ON_PRIMARY, MAY_WRITE, DIRECT
 *		as retry.c says: the host may not be the primary any more, and the client waits for
 *		the verdict (AWAITS_VERDICT)
 *
 * The facts that may be trusted:
 *
 *	in each step
 *		pooled.target is what the table says, unless a RELOAD has changed the setting:
 *		request_to() writes both
 *	BEGIN_HELD, TO_READ, TO_PRIMARY
 *		no server has a byte of the request. begin_is says if one is to get a BEGIN
 *	READ_ON_STANDBY, READ_ON_PRIMARY, MAY_WRITE
 *		with a link: the server is in a read-only transaction, or will be with its next
 *		answer. The role of the host may have changed since: its evidence tells. Without a
 *		link: nothing
 *	`kept`
 *		is the request, byte for byte, if request_is_whole()
 *
 * The walk of such a read, with the functions of each file:
 *
 *	from_client.c	walk_client, walk_client_minding, walk_client_frames
 *	request.h	request_minds, request_keep, request_answered
 *	request.c	request_take, request_view_of, request_decide, hold_begin, request_to,
 *			request_before, send_begin
 *	client_message.c	relay_take
 *	from_server.c	walk_of_retry, walk_looking
 *	retry.h		retry_passes
 *	retry.c		retry_look, look_at_error, ask_primary, retry_lost, retry_take_back
 *
 * Invariant: a BEGIN is held only while no server has the request, and the client was told that a
 * transaction is open. Only request_to() writes the step.
 */
#include "relay/request.h"

#include "base/inline.h"
#include "base/mem.h"
#include "base/state.h"
#include "pg/build.h"
#include "sql/read_transaction.h"
#include "sql/sql_lex.h"
#include "sql/state_functions.h"
#include "pool/host.h"
#include "pool/role.h"
#include "prepared/prepared.h"
#include "relay/link.h"
#include "relay/offload.h"
#include "relay/retry.h"
#include "state/session_functions.h"

#include <string.h>

#define BEGIN_MOST 512			/* bytes of a held BEGIN */
#define SEARCHED_MOST (READ_BUFFER / 2)	/* bytes of a later statement that are searched for words */

/* ---- the step ---- */

enum request_host { HOST_OF_ROLE, HOST_OF_READ, HOST_OF_SAME };

#define ROLE HOST_OF_ROLE
#define READ HOST_OF_READ
#define SAME HOST_OF_SAME
#define R(id) (1u << REQUEST_##id)
static const struct state_row request_steps[REQUEST_STEPS] = {
#define REQUEST_STEP(id, host, moves) [REQUEST_##id] = { moves, #id },
#include "tbl/request_step.tbl"
#undef REQUEST_STEP
};
static const uint8_t request_hosts[REQUEST_STEPS] = {
#define REQUEST_STEP(id, host, moves) [REQUEST_##id] = (host),
#include "tbl/request_step.tbl"
#undef REQUEST_STEP
};
#undef R
#undef ROLE
#undef READ
#undef SAME

void request_to(struct client *c, enum request_step step)
{
	struct request *r = c->request;

	r->step = state_move(request_steps, REQUEST_STEPS, r->step, step);
	c->pooled.is_held = step == REQUEST_AWAITS_VERDICT;
	if (request_hosts[step] != HOST_OF_SAME)
		pool_client_seek(&c->pooled, request_hosts[step] == HOST_OF_READ);
}

enum request_step request_step_again(const struct request *r)
{
	if (r->step == REQUEST_TO_PRIMARY || r->step == REQUEST_DOUBTED)
		return (enum request_step)r->step;
	return r->begin_is == BEGIN_HELD || r->begin_is == BEGIN_SENT ? REQUEST_BEGIN_HELD :
									REQUEST_DIRECT;
}

/* ---- the decision ---- */

static enum request_decision request_decide_statement(const struct request_view *v)
{
	switch (v->verdict) {
	case STANDBY_SUITS:
		if (v->is_due)
			return DECIDE_ASK_ALL;
		return v->is_recent ? DECIDE_OFFLOAD : DECIDE_DIRECT;
	case STANDBY_UNKNOWN:
		return DECIDE_NOTE;
	case STANDBY_SEEN:
		if (!v->may_ask)
			return DECIDE_DIRECT;
		return v->only_reads ? DECIDE_ASK : DECIDE_NEVER;
	case STANDBY_ASKED:
	case STANDBY_NOT_NOW:
	case STANDBY_NEVER:
		break;
	}
	return DECIDE_DIRECT;
}

enum request_decision request_decide(const struct request_view *v)
{
	bool may_read = v->reads != READS_OFF && v->is_shared;

	/* decided before: the client waits for a server */
	if (v->step == REQUEST_DOUBTED)
		return DECIDE_ASK_AGAIN;
	if (v->step == REQUEST_TO_PRIMARY)
		return DECIDE_PRIMARY;
	if (v->step == REQUEST_TO_READ)
		return DECIDE_READ;
	if (may_read && v->is_transaction && v->arrived == ARRIVED_IN_PART)
		return DECIDE_MORE;
	if (may_read && v->is_transaction && v->arrived != ARRIVED_LARGE) {
		switch (v->says) {
		case SAYS_BEGIN:
			return DECIDE_HOLD_BEGIN;
		case SAYS_END:
			return DECIDE_ANSWER_END;
		case SAYS_READ:
			if (v->is_aborted)
				break;
			return DECIDE_READ;
		case SAYS_OTHER:
			break;
		}
	}
	if (v->holds_begin)
		return DECIDE_PRIMARY;
	return may_read && v->is_statement ? request_decide_statement(v) : DECIDE_DIRECT;
}

/* ---- texts ---- */

/* Returns the tag of COMMIT, END, ROLLBACK or ABORT as the only statement of the text, or, if
   `has_more`, as the first of several; or NULL. */
static const char *end_of_transaction(const uint8_t *text, size_t size, bool has_more)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token t = lex_next(&l);
	bool commits = lex_is(&t, "commit") || lex_is(&t, "end");

	if (!commits && !lex_is(&t, "rollback") && !lex_is(&t, "abort"))
		return NULL;
	t = lex_next(&l);
	if (lex_is(&t, "work") || lex_is(&t, "transaction"))
		t = lex_next(&l);
	/* ROLLBACK TO ends nothing */
	if (t.kind != LEX_END && !lex_is_mark(&t, ';'))
		return NULL;
	while (lex_is_mark(&t, ';'))
		t = lex_next(&l);
	return (t.kind != LEX_END) != has_more || l.is_cut || l.is_uncertain ? NULL :
	       commits							     ? "COMMIT" :
									       "ROLLBACK";
}

/* Whether a read-only transaction begins, by the text or by the session
   (default_transaction_read_only). */
static bool text_begins_read(const struct client *c, const uint8_t *text, size_t size)
{
	enum read_begin kind = read_transaction_begin(text, size);

	return kind == READ_BEGIN_ONLY || (kind == READ_BEGIN_PLAIN && c->reads_only);
}

/* Receives names of parameters that a text sets: they are restored on the next server. */
static void pass_name(void *context, const char *name)
{
	(void)context;
	(void)name;
}

/*
 * With session_state = full: the text may leave state that no other server can get, so that the
 * client would keep the standby, where it cannot write: SELECT setseed(0.5), or a function with
 * set_config(name, value, false). Until the functions of the database are known, each may.
 */
static bool text_may_pin(const struct client *c, const uint8_t *text, size_t size)
{
	const unsigned pinning = TEXT_SETS_UNNAMED | TEXT_STAYS | TEXT_TEMPORARY | TEXT_HOLDS |
				 TEXT_LOCKS | TEXT_PREPARES | TEXT_MAKES_STATEMENTS;
	const struct pool *pool = c->pooled.pool;
	const struct state_functions *functions = session_functions_of(pool);
	struct text_reading words = { .search = { .words_left = INT32_MAX } };
	struct text_calls calls = { .search = words.search };
	struct text_search found = words.search;
	struct state_names told = { { 0 } };
	unsigned said;

	if (!pool_keeps_state(pool))
		return false;
	if (!session_functions_are_known(pool) &&
	    !state_text_calls_known(&calls, text, size, NULL, NULL))
		return true;
	if (!functions && !state_text_tells_words(text, size))
		return false;
	state_text_read(&words, text, size, pass_name, NULL);
	said = words.said;
	if (functions)
		said |= state_functions_read(functions, &found, text, size, &told, pass_name, NULL);
	world_looked(c->peer.world, (uint32_t)(2 * (INT32_MAX - words.search.words_left)));
	return said & pinning;
}

/* Whether the statement may run on a standby. */
static bool text_suits_standby(const struct client *c, const uint8_t *text, size_t size)
{
	return read_transaction_suits_standby(text, size) && !text_may_pin(c, text, size);
}

/* Whether all statements of the batch at the front of n bytes are for standbys. The batch must be
   complete; its first statement may begin the transaction. */
static bool batch_suits_standby(const struct client *c, const uint8_t *at, size_t n)
{
	bool may_begin = !request_holds_begin(c), has_begun = !may_begin || c->reads_only;
	bool has_statement = false, is_parsed = false;
	struct pg_frames all = { at, n };
	struct request_text text;
	struct pg_frame f;

	while (pg_frames_next(&all, READ_BUFFER, &f) == PG_OK) {
		if (prepared_request_text(c, &f, &text) && !text.at &&
		    (f.type == PGC_PARSE || !is_parsed))
			return false;
		switch (f.type) {
		case PGC_PARSE:
			is_parsed = true;
			if (may_begin && text_begins_read(c, text.at, text.size))
				has_begun = true;
			else if (!has_begun || !text_suits_standby(c, text.at, text.size))
				return false;
			else
				has_statement = true;
			may_begin = false;
			break;
		case PGC_BIND:
			if (!has_begun ||
			    (!is_parsed && !text_suits_standby(c, text.at, text.size)))
				return false;
			has_statement |= !is_parsed;
			is_parsed = may_begin = false;
			break;
		case PGC_DESCRIBE: case PGC_EXECUTE: case PGC_CLOSE:
			break;
		case PGC_SYNC:
			return has_statement;
		default:
			return false;
		}
	}
	return false;
}

/* ---- the view ---- */

static enum request_says query_says(const struct client *c, const struct pg_frame *f)
{
	bool has_begun = request_holds_begin(c);

	if (!has_begun && f->size <= BEGIN_MOST && text_begins_read(c, f->body, f->size))
		return SAYS_BEGIN;
	if (has_begun && end_of_transaction(f->body, f->size, false))
		return SAYS_END;
	if (!has_begun && !c->reads_only)
		return SAYS_OTHER;
	return read_transaction_begin(f->body, f->size) == READ_BEGIN_NOT &&
			       text_suits_standby(c, f->body, f->size) ?
		       SAYS_READ :
		       SAYS_OTHER;
}

static struct request_view request_view_of(struct client *c, const uint8_t *at, size_t n,
					   bool is_all)
{
	struct request_view v = {
		.step = (enum request_step)c->request->step,
		.reads = (enum reads)c->pooled.reads,
		.is_shared = link_will_share(c),
		.is_transaction = c->pooled.pool->allowed.mode == MODE_TRANSACTION,
		.holds_begin = request_holds_begin(c),
		.is_aborted = request_is_aborted(c),
	};
	enum pg_verdict read;
	struct pg_frame f = { 0 };

	/* the meaning of the text costs more, and is not needed if these facts decide */
	if (v.reads == READS_OFF || !v.is_shared ||
	    (v.step != REQUEST_DIRECT && v.step != REQUEST_BEGIN_HELD))
		return v;
	read = pg_frame_look(at, n, READ_BUFFER / 2, &f);
	if (read == PG_BAD)
		v.arrived = ARRIVED_LARGE;
	else if (read == PG_OK && pg_frame_is_whole(&f))
		v.arrived = f.type == PGC_QUERY ? ARRIVED_QUERY : ARRIVED_BATCH;
	if (v.is_transaction && n > PG_HEADER + 1 &&
	    (v.holds_begin || c->reads_only || request_may_begin(at, n))) {
		if (v.arrived == ARRIVED_QUERY)
			v.says = query_says(c, &f);
		else if (v.arrived == ARRIVED_BATCH && batch_suits_standby(c, at, n))
			v.says = SAYS_READ;
	}
	if (v.reads == READS_AUTO && is_all && v.says == SAYS_OTHER && !v.holds_begin &&
	    !c->reads_only)
		offload_view(c, at, n, &v);
	return v;
}

/* ---- a client without a server ---- */

/* Answers a statement without a server. */
static enum verdict answer_statement(struct client *c, const char *tag, char status)
{
	struct bytes out = BYTES_EMPTY;
	struct world *w = c->peer.world;
	bool sent;

	pg_build_string(&out, PGS_COMPLETE, tag);
	pg_build(&out, PGS_READY, &status, 1);
	sent = client_send(c, &out);
	bytes_free(&out);
	c->activity.in_transaction = status != 'I';
	c->activity.transaction_started = status != 'I' ? w->now : 0;
	c->activity.query_started = 0;
	c->activity.last = w->now;
	return sent ? VERDICT_PASS : VERDICT_GONE;
}

/* Answers a BEGIN of `size` bytes, and holds it. */
static enum verdict hold_begin(struct client *c, const uint8_t *at, size_t size)
{
	const uint8_t *text = at + PG_HEADER;
	struct sql_lexer l = lex_begin(text, size - PG_HEADER);
	struct lex_token t = lex_next(&l);
	struct request *r = c->request;
	uint8_t *held = mem_try(size);

	if (!held) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return VERDICT_GONE;
	}
	memcpy(held, at, size);
	mem_free(r->begin);
	r->begin = held;
	r->begin_is = BEGIN_HELD;
	r->is_aborted = false;
	request_to(c, REQUEST_BEGIN_HELD);
	return answer_statement(c, lex_is(&t, "start") ? "START TRANSACTION" : "BEGIN", 'T');
}

/* Answers the message of `size` bytes, which ends a transaction before any server has got it. */
static enum verdict answer_end(struct client *c, const uint8_t *at, size_t size)
{
	const char *tag = end_of_transaction(at + PG_HEADER, size - PG_HEADER, false);
	struct request *r = c->request;

	if (r->is_aborted)
		tag = "ROLLBACK";
	r->begin_is = BEGIN_NONE;
	r->is_aborted = false;
	request_to(c, REQUEST_DIRECT);
	return answer_statement(c, tag, 'I');
}

enum verdict request_take(struct client *c, const uint8_t *at, size_t n, bool is_all, size_t *used)
{
	enum request_decision decision;
	struct request_view view;

	*used = 0;
	/* of its last request */
	if (request_step_in(c, REQUEST_IN_READ))
		request_to(c, REQUEST_DIRECT);
	else if (request_step_in(c, REQUEST_IN(ASKING) | REQUEST_IN(ASKING_ALL) |
					    REQUEST_IN(OFFLOADED)))
		offload_end(c);
	view = request_view_of(c, at, n, is_all);
	decision = request_decide(&view);
	switch (decision) {
	case DECIDE_DIRECT:
		return VERDICT_PASS;
	case DECIDE_MORE:
		return VERDICT_MORE;
	case DECIDE_HOLD_BEGIN:
		*used = PG_HEADER + pg_u32_at(at + 1) - PG_LENGTH_WORD;
		return hold_begin(c, at, *used);
	case DECIDE_ANSWER_END:
		*used = PG_HEADER + pg_u32_at(at + 1) - PG_LENGTH_WORD;
		return answer_end(c, at, *used);
	case DECIDE_READ:
		if (view.step != REQUEST_TO_READ)
			request_to(c, REQUEST_TO_READ);
		return VERDICT_PASS;
	case DECIDE_PRIMARY:
		request_to(c, REQUEST_TO_PRIMARY);
		return VERDICT_PASS;
	default:
		return offload_take(c, decision, at, n);
	}
}

void request_refused(struct client *c)
{
	struct request *r = c->request;

	if (!r)
		return;
	retry_forget_host(r);
	r->is_aborted = r->begin_is == BEGIN_HELD;
	request_to(c, r->is_aborted ? REQUEST_BEGIN_HELD : REQUEST_DIRECT);
}

/* ---- its server ---- */

/* Whether the message, which follows in a transaction on the primary, may end it and write, as
   COMMIT; INSERT INTO t VALUES (1) does. */
static bool message_may_write(const struct client *c, const struct pg_frame *f)
{
	struct request_text text;
	bool has_text = prepared_request_text(c, f, &text);

	if (!pg_frame_is_whole(f))
		return true;
	if (!text.at)
		return has_text || f->type == PGC_CALL;
	return !read_transaction_suits_standby(text.at, text.size) &&
	       (f->type == PGC_BIND || !end_of_transaction(text.at, text.size, false));
}

/* The client leaves its transaction on the standby, so that the primary executes the next text.
   False: it must stay, because the session may have state of the client. */
static bool leave_standby(struct client *c, struct server *s)
{
	struct request *r = c->request;

	if ((r->begin_is != BEGIN_SENT && r->begin_is != BEGIN_ANSWERED) || s->task ||
	    s->session.dirty || !retry_may_leave(c, s))
		return false;
	pool_client_note_end(&c->pooled, c->peer.world->now);
	/* the next server gets the BEGIN again, so that it executes the text in the same state */
	r->begin_is = BEGIN_HELD;
	request_to(c, REQUEST_BEGIN_HELD);
	if (c->prepared) {
		prepared_lose(s, c);
		prepared_client_trim(c);
	}
	s->was_ended = true;
	server_end_leaving(s, REASON_READ_FAILED, false);
	return true;
}

/* The server gets a failing message instead of the client's: the transaction is aborted, and the
   client gets the error of request_tell_refused(). */
static enum verdict refuse_message(struct server *s, uint8_t type, struct gather *g)
{
	static const char text[] = "\0this statement belongs on the primary\0\0";
	bool is_query = type == PGC_QUERY || type == PGC_CALL;
	struct bytes message = BYTES_EMPTY;

	if (is_query)
		pg_build_string(&message, PGC_QUERY, text + 1);
	else
		pg_build(&message, PGC_PARSE, text, sizeof(text));
	if (message.failed)
		return VERDICT_NO_MEMORY;
	g->to = &s->peer.stream;
	gather_copy(g, bytes_front(&message), bytes_size(&message));
	bytes_free(&message);
	s->unnamed_of = 0;
	return ledger_sent_marked(&s->ledger, is_query ? PGC_QUERY : PGC_PARSE, 0, OWED_TO_CLIENT,
				  MARK_REFUSED) ?
		       VERDICT_SWALLOW :
		       VERDICT_NO_MEMORY;
}

/* Examines a message within a transaction on a standby. VERDICT_LATER: the client has left the
   standby. */
static enum verdict examine_on_standby(struct client *c, struct server *s, const struct pg_frame *f,
				       struct gather *g)
{
	struct request_text text;
	const char *tag;
	bool is_refused;

	if (!prepared_request_text(c, f, &text) && f->type != PGC_CALL)
		return VERDICT_PASS;
	if (!pg_frame_is_whole(f) && f->here < SEARCHED_MOST)
		return VERDICT_MORE;
	tag = f->type == PGC_QUERY ? end_of_transaction(text.at, text.size, true) : NULL;
	if (tag && (s->status == 'T' || *tag == 'R') && leave_standby(c, s))
		return VERDICT_LATER;
	/* the transaction is aborted: the standby executes nothing, as the primary would */
	if (s->status != 'T')
		return VERDICT_PASS;
	is_refused = text.at ? read_transaction_affects_standby(text.at, text.size) ||
				       text_may_pin(c, text.at, text.size) :
			       f->type == PGC_CALL;
	return is_refused ? refuse_message(s, f->type, g) : VERDICT_PASS;
}

enum verdict request_tell_refused(struct client *c)
{
	struct bytes out = BYTES_EMPTY;
	bool failed;

	pg_build_report(&out, PGS_ERROR, "ERROR", "25001",
			"this statement belongs on the primary, but its read-only transaction runs "
			"on a standby",
			"Locks, settings and statistics of a standby are not those of the primary.",
			"Begin the transaction with this statement, or write " READ_HINT
			" in front of BEGIN.");
	failed = out.failed;
	/* a write error is found with the next write */
	if (!failed)
		stream_write_bytes(&c->peer.stream, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	return failed ? VERDICT_INVALID : VERDICT_SWALLOW;
}

/* The server gets the first message of the request now. */
static void begin_on_server(struct client *c, const struct host *host)
{
	switch (c->request->step) {
	case REQUEST_TO_READ:
		request_to(c, host && host->evidence.claim == CLAIM_STANDBY ?
				      REQUEST_READ_ON_STANDBY :
				      REQUEST_READ_ON_PRIMARY);
		break;
	case REQUEST_TO_PRIMARY:
	case REQUEST_BEGIN_HELD:
		request_to(c, REQUEST_DIRECT);
	}
}

/* Gathers the BEGIN of an aborted transaction, with a statement that fails. False: no memory. */
static bool gather_failed_begin(const struct client *c, struct gather *g)
{
	struct bytes message = BYTES_EMPTY;
	size_t mark = pg_begin(&message, PGC_QUERY);
	bool has_memory;

	/* the text may end with a comment */
	bytes_append_text(&message, (const char *)c->request->begin + PG_HEADER);
	bytes_append_string(&message, "\n; ROLLBACK TO \"canceled by pgweir's client\"");
	pg_end(&message, mark);
	has_memory = !message.failed;
	if (has_memory)
		gather_copy(g, bytes_front(&message), bytes_size(&message));
	bytes_free(&message);
	return has_memory;
}

/* Gathers the BEGIN that is held. */
static enum verdict send_begin(struct client *c, struct server *s, struct gather *g)
{
	struct request *r = c->request;

	g->to = &s->peer.stream;
	if (!r->is_aborted)
		gather_copy(g, r->begin, 1 + pg_u32_at(r->begin + 1));
	else if (!gather_failed_begin(c, g))
		return VERDICT_NO_MEMORY;
	r->begin_is = BEGIN_SENT;
	/* the Query ends the unnamed statement */
	s->unnamed_of = 0;
	return ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_POOLER, MARK_BEGIN)
		       ? VERDICT_PASS
		       : VERDICT_NO_MEMORY;
}

/* A message within a transaction of REQUEST_IN_READ. */
static enum verdict examine_in_read(struct client *c, struct server *s, const struct pg_frame *f,
				    struct gather *g)
{
	const struct host *host = s->pooled.host;
	enum host_claim claim = host ? host->evidence.claim : CLAIM_UNKNOWN;

	/* then the end of the transaction counts as a write: pool_client_note_end() */
	if (host && claim != CLAIM_STANDBY && c->request->step != REQUEST_MAY_WRITE &&
	    message_may_write(c, f))
		request_to(c, REQUEST_MAY_WRITE);
	if (!ledger_is_empty(&s->ledger) && !s->ledger.open) {
		bool is_of_copy = pg_client_messages[f->type].phases & PG_COPY;

		/* CopyData, and a Sync or Flush among it, belongs to the present request */
		return is_of_copy && ledger_may_copy(&s->ledger) ? VERDICT_PASS : VERDICT_WAIT;
	}
	if (s->status == 'I' || !host || claim == CLAIM_PRIMARY)
		return VERDICT_PASS;
	return examine_on_standby(c, s, f, g);
}

enum verdict request_before(struct client *c, struct server *s, const struct pg_frame *f,
			    struct gather *g)
{
	if (request_step_in(c, REQUEST_IN_READ))
		return examine_in_read(c, s, f, g);
	begin_on_server(c, s->pooled.host);
	return request_holds_begin(c) ? send_begin(c, s, g) : VERDICT_PASS;
}

NEVER_INLINE void request_begin_link_again(struct client *c)
{
	struct request *r = c->request;

	r->repeat = REPEAT_NOTHING;
	if (r->sent > 0)
		request_forget(r);
	if (r->begin_is != BEGIN_HELD) {
		r->begin_is = BEGIN_NONE;
		r->is_aborted = false;
	}
	/* after a RELOAD the reads of the client stay on the primary, and request_take() was not
	   called */
	if (request_step_in(c, REQUEST_IN_READ))
		request_to(c, REQUEST_DIRECT);
}

/* ---- its memory ---- */

NEVER_INLINE void request_keep_more(struct request *r, const uint8_t *at, size_t n)
{
	/* `sent` has these bytes already */
	bool is_cut = r->sent - n > bytes_size(&r->kept) || bytes_size(&r->kept) + n > RETRY_MOST;

	if (!is_cut)
		bytes_append(&r->kept, at, n);
	if (is_cut || r->kept.failed)
		bytes_free(&r->kept);
}

void request_free(struct client *c)
{
	if (!c->request)
		return;
	retry_forget_host(c->request);
	bytes_free(&c->request->kept);
	bytes_free(&c->request->question);
	read_set_free(&c->request->names);
	mem_free(c->request->begin);
	mem_free(c->request);
	c->request = NULL;
	c->minds.keeps_request = false;
}

/* ---- the handover ---- */

/*
 * The kept bytes of a request stay in the old process, so in the new process no other server can
 * get the request. A client without a server waits in the queue of the new process, and sends its
 * request from its first byte.
 */

#define REQUEST_NOT_HANDED_OVER                                                                    \
	(REQUEST_IN(ASKING) | REQUEST_IN(ASKING_ALL) | REQUEST_IN(AWAITS_VERDICT))

/* Returns the step that the other process continues with. */
static enum request_step step_handed_over(const struct client *c)
{
	enum request_step step = (enum request_step)c->request->step;

	if (step == REQUEST_AWAITS_VERDICT)
		step = (enum request_step)c->request->held_step;
	if (step == REQUEST_ASKING || step == REQUEST_ASKING_ALL ||
	    (step == REQUEST_OFFLOADED && !c->pooled.link))
		return REQUEST_DIRECT;
	return step;
}

void request_pack(struct bytes *out, const struct client *c)
{
	const struct request *r = c->request;
	bool holds_begin = request_holds_begin(c);
	enum request_step step = r ? step_handed_over(c) : REQUEST_DIRECT;
	uint32_t size = 0;

	if (step == REQUEST_DOUBTED)
		size = (uint32_t)r->size;
	else if (step == REQUEST_OFFLOADED && offload_is_incomplete(c))
		size = (uint32_t)(r->size - r->sent);
	pack_bool(out, c->reads_only);
	pack_bool(out, request_is_aborted(c));
	bytes_append_u8(out, step);
	bytes_append_u32(out, size);
	pack_blob(out, holds_begin ? r->begin : NULL,
		  holds_begin ? 1 + pg_u32_at(r->begin + 1) : 0);
}

struct request_record request_unpack(struct unpack *in)
{
	struct request_record record = { .reads_only = unpack_bool(in) };

	record.is_aborted = unpack_bool(in);
	record.step = unpack_u8(in);
	record.size = unpack_u32(in);
	record.begin = unpack_blob(in, &record.begin_size);
	in->bad |= record.step >= REQUEST_STEPS || 1u << record.step & REQUEST_NOT_HANDED_OVER ||
		   (record.step == REQUEST_BEGIN_HELD && record.begin_size == 0);
	if (!in->bad && record.begin_size > 0)
		in->bad = record.begin_size <= PG_HEADER ||
			  record.begin_size != 1 + pg_u32_at(record.begin + 1);
	return record;
}

bool request_restore(struct client *c, const struct request_record *record)
{
	struct request *r = c->request;

	c->reads_only = record->reads_only;
	if (!r)
		return true;
	if (record->begin_size > 0) {
		r->begin = mem_try(record->begin_size);
		if (!r->begin)
			return false;
		memcpy(r->begin, record->begin, record->begin_size);
		r->begin_is = BEGIN_HELD;
	}
	r->is_aborted = record->is_aborted;
	r->size = record->size;
	/* until the next answer; a server of DOUBTED has nothing yet */
	r->repeat =
		c->pooled.link && record->step != REQUEST_DOUBTED ? REPEAT_BOUND : REPEAT_NOTHING;
	r->is_canceled = c->pooled.link != NULL;
	if (1u << record->step & REQUEST_IN_READ)
		request_to(c, REQUEST_TO_READ);
	if (record->step == REQUEST_MAY_WRITE)
		request_to(c, REQUEST_READ_ON_PRIMARY);
	request_to(c, (enum request_step)record->step);
	return true;
}
