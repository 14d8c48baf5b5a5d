/*
 * Messages of clients about prepared statements on a server that clients share: Parse, Bind,
 * Describe and Close ("Extended Query" in the PostgreSQL documentation), and Queries, which end the
 * unnamed statement.
 *
 * A client's name stands for a statement (sql/statement.h), which each server knows by a name of
 * its own:
 *
 *	Parse		is forwarded under the server's name; if the server has the statement,
 *			pgweir answers
 *	Bind, Describe	are forwarded with the server's name; if the server lacks the statement, a
 *			Parse is inserted
 *	Close		is answered by pgweir; the server keeps the statement for other clients
 *			until it is evicted
 *	unknown name	is replaced by a name that no statement has, so that the server's error
 *			comes in order
 *	long name	a message that the server refuses is sent instead, and its error is replaced
 *
 * Answers of pgweir are local replies in the ledger: they come in order, and an earlier error skips
 * them.
 *
 * Example, in the order of time. A client prepares s1, and uses it later on another server:
 *
 *	the client sends	the server gets			the client gets
 *	Parse s1 "SELECT $1"	A: Parse PGWEIR_a_12, Describe	ParseComplete of A
 *	Bind s1, Execute, Sync	A: Bind PGWEIR_a_12, ...	the answers of A
 *	(the transaction ends, and A serves another client)
 *	Bind s1, Execute, Sync	B: Parse PGWEIR_b_12,		the answers of B, without
 *				Bind PGWEIR_b_12, ...		ParseComplete
 *	Close s1, Sync		B: Sync				CloseComplete of pgweir
 *
 * 12 is the number of the statement; a and b stand for the random tags of the two connections. The
 * Describe is pgweir's own: its answer tells the types (answer.c). If another client prepares the
 * same text, it shares statement 12, and A or B gets no second Parse.
 *
 * unnamed.c has the unnamed statement.
 *
 * A text is parsed under the parameters of the session, so clients with equal parameters share the
 * statement. While these parameters may be changing, a Parse of a client makes a private statement,
 * and a Parse by pgweir is PARSE_UNCERTAIN.
 *
 * A request waits for pending answers if it names something in doubt (statements.c), if a message
 * in flight may be DEALLOCATE ALL or DISCARD ALL, or if it inserts much more than the client has
 * sent.
 */
#include "prepared/send.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/printable.h"
#include "state/server_session.h"
#include "state/session_values.h"

/* bytes of a message in which its names must end; PostgreSQL truncates names after 63 */
#define NAMES_END_MOST 4096
/* bytes to a server for one read from its client, before the server must take them */
#define SENT_MOST (2 * READ_BUFFER)
/* prepared_server.journal_bytes, before answers must arrive */
#define JOURNAL_MOST (1024 * 1024)

static const uint8_t empty_parse[] = { 0, 0, 0 };	/* after the name */

/* Logs the line that PgBouncer logs when it refuses a name; the client gets the server's error. */
static void log_refused(const struct prepared_request *r, const struct statement_use *use,
			const char *why)
{
	char who[256], name[PRINTABLE_TEXT];

	log_repeatable(LEVEL_ERROR, hash_of(why, strlen(why)), "%s prepared statement '%s' %s",
		       client_text(r->c, who, sizeof(who)),
		       printable_text(use->name, name, sizeof(name)), why);
}

/* ---- forwarding and refusing ---- */

static enum verdict forward_entered(const struct prepared_request *r)
{
	bool entered = ledger_sent(&r->s->ledger, r->f->type, r->f->here ? r->f->body[0] : 0,
				   OWED_TO_CLIENT);

	return entered ? VERDICT_PASS : VERDICT_NO_MEMORY;
}

/* Enters the message, which is forwarded as it is. The text of a Parse is not read here, so it
   counts as a possible change of the role. */
enum verdict prepared_forward(const struct prepared_request *r)
{
	bool may_parse = r->f->type == PGC_PARSE &&
			 (!r->s->ledger.skipping || ledger_may_surprise(&r->s->ledger));

	server_note_prepared(r->s, may_parse, may_parse);
	return forward_entered(r);
}

/* Gathers the beginning of the frame with the server's name of the statement, which ends with these
   bytes, in place of the client's name. */
static void replace_name(const struct prepared_request *r, const struct statement_use *use,
			 const char *end, size_t end_size)
{
	const struct pg_frame *f = r->f;
	size_t before = (size_t)((const uint8_t *)use->name - f->body),
	       name_size = STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	*r->skip = PG_HEADER + before + use->name_size;
	/* one byte at most, except before the name of a Bind to a portal with a name */
	to = gather_place(r->g, PG_HEADER + (before > 1 ? 0 : before + name_size));
	message_header(to, f->type, f->size - use->name_size + name_size);
	to += PG_HEADER;
	if (before == 1)
		*to++ = f->body[0];
	if (before > 1) {
		gather_add(r->g, f->body, before);
		to = gather_place(r->g, name_size);
	}
	statement_name(to, &r->ps->names, end, end_size);
}

static enum verdict reply_locally(const struct prepared_request *r, enum op_kind kind,
				  struct prepared_name *n, struct statement *st)
{
	return op_push(r->ps, kind, n, st) && ledger_local_reply(&r->s->ledger) ? VERDICT_SWALLOW
										: VERDICT_NO_MEMORY;
}

enum verdict prepared_request_refuse(const struct prepared_request *r, enum op_kind kind,
					    struct prepared_name *n)
{
	bool is_marked = ledger_enters(&r->s->ledger);

	request_insert(r, PGC_DESCRIBE, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE), 0);
	if (is_marked && !op_push(r->ps, kind, n, NULL))
		return VERDICT_NO_MEMORY;
	return ledger_sent_marked(&r->s->ledger, PGC_DESCRIBE, PG_OF_STATEMENT, OWED_TO_CLIENT,
				  is_marked ? MARK_PREPARED : LEDGER_UNMARKED)
		       ? VERDICT_SWALLOW
		       : VERDICT_NO_MEMORY;
}

/* ---- Parse with a name ---- */

/* The client sends a Parse for one of its names. The server must report that, or another error of
   the message, so it gets the message under a name of one of its own statements. This is certain
   only without messages in flight. */
static enum verdict parse_duplicate(const struct prepared_request *r,
				    const struct statement_use *use, struct prepared_name *n)
{
	struct ledger *l = &r->s->ledger;

	if (ledger_depth(l) > 0)
		return request_wait(r);
	log_refused(r, use, "was already prepared");
	request_insert(r, PGC_CLOSE, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), 0);
	request_insert(r, PGC_PARSE, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), sizeof(empty_parse));
	gather_copy(r->g, empty_parse, sizeof(empty_parse));
	replace_name(r, use, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN));
	if (!ledger_sent(l, PGC_CLOSE, PG_OF_STATEMENT, OWED_TO_POOLER) ||
	    !ledger_sent(l, PGC_PARSE, 0, OWED_TO_POOLER) ||
	    !request_enter(r, PGC_PARSE, OWED_TO_CLIENT, OP_DUPLICATE, n, NULL))
		return VERDICT_NO_MEMORY;
	ledger_watch_last(l);
	return VERDICT_PASS;
}

static enum verdict parse_new(const struct prepared_request *r, struct prepared_name *n,
			      struct statement *st, const struct sql_plan *plan)
{
	struct prepared_entry *e = entry_find(r->ps, st);
	const struct ledger *l = &r->s->ledger;

	if (request_is_after_copy(r))
		return request_wait(r);
	request_stats(r)->client_parse_count++;
	name_change_sent(request_world(r), r->pc, n, st, r->s->batch);
	n->types = entry_is_usable(e) ? e->types : 0;
	/* PostgreSQL refuses each Parse in a failed transaction, also of a known statement.
	   Therefore pgweir answers only if the transaction has not failed and no message in flight
	   can make it fail. It does not answer either if a message in flight can be DEALLOCATE
	   ALL */
	if (entry_is_usable(e) && r->s->status != 'E' && ledger_is_one_batch(l) &&
	    !ledger_may_copy(l) && !ledger_may_surprise(l)) {
		entry_used(r->ps, e);
		return reply_locally(r, OP_KNOWN, n, st);
	}
	if (!request_parse(r, OP_PARSE, n, st, plan))
		return VERDICT_NO_MEMORY;
	/* the types of SQL that names statements are the types of these statements, so they vary */
	return st->varies || request_describe(r, n, st, false) ? VERDICT_SWALLOW
							       : VERDICT_NO_MEMORY;
}

static NEVER_INLINE enum verdict parse_new_sql(const struct prepared_request *r,
					       struct prepared_name *n, struct statement *st)
{
	struct sql_plan plan;
	enum verdict verdict = sql_plan(r, &plan, st->body, st->size, false);

	if (verdict != VERDICT_PASS && verdict != VERDICT_MORE)
		return verdict;
	if (r->pc->sql)
		r->pc->sql->statement = st->number;
	return parse_new(r, n, st, verdict == VERDICT_PASS ? &plan : NULL);
}

static enum verdict parse_named(const struct prepared_request *r, const struct statement_use *use)
{
	struct prepared_name *n = name_find(r->pc, use->name, use->name_size);
	const uint8_t *body = (const uint8_t *)use->name + use->name_size;
	size_t size = r->f->size - use->name_size,
	       most = (size_t)request_world(r)->conf->settings.max_prepared_memory;
	enum verdict verdict = VERDICT_WAIT;
	struct statement *st;
	bool is_private;

	/* tested before the text has arrived, so that it takes no memory */
	if (most > 0 && r->pc->bytes + name_cost(use->name_size, size) > most) {
		client_end(r->c, REASON_PREPARED_MEMORY, NULL);
		return VERDICT_GONE;
	}
	if (!pg_frame_is_whole(r->f))
		return VERDICT_MORE;
	if (request_name_in_doubt(r, n))
		return VERDICT_WAIT;
	/* the journal holds the text until its answer, even if the name has another statement by
	   then */
	if (r->ps->journal_bytes > JOURNAL_MOST)
		return request_wait(r);
	if (!statement_body_is_sound(body, size))
		return prepared_forward(r);
	if (n && n->sent)
		return parse_duplicate(r, use, n);
	/* Parameters may have changed without a report yet, or the text may use temporary tables:
	   no other client may share the statement, and no other server gets it. See
	   request_statement(). */
	is_private = !ledger_is_up_to_date(&r->s->ledger) || request_is_private(r);
	st = statement_take(request_world(r)->statements, request_place(r), r->c->params, body,
			    size, is_private);
	if (!st)
		return VERDICT_NO_MEMORY;
	if (!request_entry_in_doubt(r, entry_find(r->ps, st))) {
		if (!n)
			n = name_new(r->pc, use->name, use->name_size);
		verdict = !n		     ? VERDICT_NO_MEMORY
			  : st->names_others ? parse_new_sql(r, n, st)
					     : parse_new(r, n, st, NULL);
	}
	statement_drop(request_world(r)->statements, &st);
	return verdict;
}

/* ---- Bind and Describe with a name ---- */

/* The name stands for no statement. The server gets the message under a name that no statement has,
   so that its error comes in order. */
static enum verdict use_missing(const struct prepared_request *r, const struct statement_use *use,
				struct prepared_name *n, struct statement *st)
{
	replace_name(r, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return request_enter(r, r->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? VERDICT_PASS
									   : VERDICT_NO_MEMORY;
}

/* Whether the client may have made the name, which pgweir does not know, by SQL's PREPARE. */
static bool may_be_of_sql(const struct prepared_request *r, const struct statement_use *use)
{
	bool is_pinned = (r->s->session.dirty | r->c->pooled.pins) & PIN_STATEMENT;

	return (r->s->status != 'I' || is_pinned) &&
	       strncmp(use->name, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) != 0;
}

static enum verdict use_unknown(const struct prepared_request *r, const struct statement_use *use)
{
	enum verdict verdict;
	struct prepared_name *n;

	if (may_be_of_sql(r, use))
		return prepared_forward(r);
	/* the server skips the messages after the first error of a batch */
	if (r->ps->missing_name_batch == r->s->batch + 1)
		return use_missing(r, use, NULL, NULL);
	if (r->ps->journal_bytes > JOURNAL_MOST)
		return request_wait(r);
	n = name_new(NULL, use->name, use->name_size);
	if (!n)
		return VERDICT_NO_MEMORY;
	r->ps->missing_name_batch = r->s->batch + 1;
	log_refused(r, use, "not found");
	verdict = use_missing(r, use, n, NULL);
	name_drop(request_world(r), &n);
	return verdict;
}

/* Whether the server must take the bytes sent so far before the next message. A short Bind may
   insert a Parse of any length, and one read may bring thousands of Binds, so a client could make
   pgweir hold any amount of memory otherwise. */
static bool must_flush(const struct prepared_request *r)
{
	if (r->g->bytes <= SENT_MOST)
		return false;
	gather_flush(r->g);
	if (stream_unsent(&r->s->peer.stream) > 0)
		return true;
	r->g->bytes = 0;
	return false;
}

bool prepared_sql_is_current(const struct prepared_request *r, uint64_t statement)
{
	const struct prepared_sql *sql = r->pc->sql;

	if (!sql || sql->server != r->s->peer.id || sql->batch != r->s->batch ||
	    sql->statement != statement || sql->deallocated > 0)
		return false;
	for (uint32_t i = 0; i < sql->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];

		if (n->name &&
		    (!n->name->sent || (!n->drops && strcmp(n->name->sent->end, n->end) != 0)))
			return false;
	}
	return true;
}

bool prepared_request_fill_values(const struct prepared_request *r, const uint8_t *body,
					 size_t size, struct bytes *filled)
{
	const uint8_t *nul = memchr(body, 0, size);
	size_t text = nul ? (size_t)(nul + 1 - body) : 0;

	if (r->f->type != PGC_BIND || !r->c->link_facts.keeps_state ||
	    !session_values_fill(r->s, r->c, body, text, filled))
		return false;
	bytes_append(filled, nul + 1, size - text);
	return true;
}

/* The statement asks for the last value of a sequence, which the client's next Bind may need from
   pgweir. False: no memory. */
static bool parse_values(const struct prepared_request *r, struct prepared_name *n,
			 struct statement *st)
{
	struct sql_plan plan = { .filled = BYTES_EMPTY };
	bool parsed;

	if (r->f->type != PGC_BIND || !r->c->link_facts.keeps_state || !r->c->session->values)
		return true;
	if (!prepared_request_fill_values(r, st->body, st->size, &plan.filled))
		return request_parse(r, OP_REPARSE, n, st, NULL);
	parsed = !plan.filled.failed && request_parse(r, OP_REPARSE, n, st, &plan);
	/* the text is freed before the next flush */
	gather_flush(r->g);
	bytes_free(&plan.filled);
	return parsed;
}

/* The statement is special: it may deallocate statements, change the meaning of texts, name other
   statements, or ask for a value of a sequence. In the last two cases it is parsed again.
   VERDICT_PASS: it may be used. */
static NEVER_INLINE enum verdict use_named_sql(const struct prepared_request *r,
					       struct prepared_name *n, struct statement *st)
{
	enum verdict verdict;
	struct sql_plan plan;

	server_doubt_meaning(r->s, st->configures);
	r->pc->deallocates |= st->deallocates;
	if (st->reads_values)
		return parse_values(r, n, st) ? VERDICT_PASS : VERDICT_NO_MEMORY;
	if (!st->names_others || prepared_sql_is_current(r, st->number))
		return VERDICT_PASS;
	verdict = sql_plan(r, &plan, st->body, st->size, false);
	if (verdict != VERDICT_PASS && verdict != VERDICT_MORE)
		return verdict;
	if (!request_parse(r, OP_REPARSE, n, st, verdict == VERDICT_PASS ? &plan : NULL))
		return VERDICT_NO_MEMORY;
	r->pc->sql->statement = st->number;
	return VERDICT_PASS;
}

/* Whether the statement was parsed for this request. Then its validity does not matter, because
   nothing was executed since. */
static bool is_usable_now(const struct prepared_request *r, const struct prepared_entry *e)
{
	return entry_is_usable(e) || (e && e->sent && e->statement->number == r->pc->awaited);
}

/* The server lacks the statement, or its types may differ from the types that the client received.
   VERDICT_MORE: it may be used. */
static NEVER_INLINE enum verdict make_usable(const struct prepared_request *r,
					     const struct statement_use *use,
					     struct prepared_name *n, struct statement *st,
					     struct prepared_entry *e)
{
	bool is_there;

	/* the types that the client's Parse has are not known before its answer */
	if (e && e->describing && n->types)
		return st->number == r->pc->awaited ? VERDICT_WAIT : request_wait(r);
	is_there = is_usable_now(r, e);
	if (is_there && n->types && e->types && e->types != n->types)
		return prepared_request_refuse(r, OP_TYPES_DIFFER, n);
	/* the types of the entry are unknown if a later Parse of the same statement, or its
	   Describe, was skipped after an error */
	if (is_there &&
	    (n->types == 0 || e->types != 0 || st->varies || st->number == r->pc->awaited)) {
		entry_used(r->ps, e);
		return VERDICT_MORE;
	}
	if (!is_there && st->changed)
		return use_missing(r, use, n, st);
	if (request_is_after_copy(r))
		return request_wait(r);
	if (!is_there && !request_parse(r, OP_REPARSE, n, st, NULL))
		return VERDICT_NO_MEMORY;
	if (!(st->varies && !n->types) && !request_describe(r, n, st, false))
		return VERDICT_NO_MEMORY;
	if (n->types == 0)
		return VERDICT_MORE;
	/* wait for the types, because an execution with other types cannot be undone */
	prepared_gather_flush(r);
	r->pc->awaited = st->number;
	return VERDICT_WAIT;
}

static enum verdict use_statement(const struct prepared_request *r, const struct statement_use *use,
				  struct prepared_name *n, struct statement *st,
				  struct prepared_entry *e)
{
	enum verdict verdict;

	if (request_entry_in_doubt(r, e) || must_flush(r))
		return VERDICT_WAIT;
	if (st->deallocates | st->configures | st->reads_values) {
		verdict = use_named_sql(r, n, st);
		if (verdict != VERDICT_PASS)
			return verdict;
		e = entry_find(r->ps, st);
	}
	if (e && e->types == n->types && !e->describing && entry_is_usable(e)) {
		entry_used(r->ps, e);
	} else {
		verdict = make_usable(r, use, n, st, e);
		if (verdict != VERDICT_MORE)
			return verdict;
	}
	if (r->f->type == PGC_BIND)
		request_stats(r)->bind_count++;
	r->pc->awaited = 0;
	replace_name(r, use, st->end, st->end_size);
	return request_enter(r, r->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? VERDICT_PASS
									   : VERDICT_NO_MEMORY;
}

static enum verdict use_named(const struct prepared_request *r, const struct statement_use *use)
{
	struct prepared_name *n = name_find(r->pc, use->name, use->name_size);
	enum verdict verdict;
	struct prepared_entry *e;
	struct statement *st;

	if (request_name_in_doubt(r, n))
		return VERDICT_WAIT;
	if (!n || !n->sent)
		return use_unknown(r, use);
	if (n->original)
		request_move_back(r, n);
	e = entry_find(r->ps, n->sent);
	if (is_usable_now(r, e) || n->sent->changed)
		return use_statement(r, use, n, n->sent, e);
	st = request_statement(r, n);
	if (!st)
		return VERDICT_NO_MEMORY;
	verdict = use_statement(r, use, n, st, entry_find(r->ps, st));
	statement_drop(request_world(r)->statements, &st);
	return verdict;
}

/* ---- Close with a name ---- */

static enum verdict close_named(const struct prepared_request *r, const struct statement_use *use)
{
	struct prepared_name *n = name_find(r->pc, use->name, use->name_size);

	if (request_name_in_doubt(r, n))
		return VERDICT_WAIT;
	if (!n || !n->sent) {
		n = NULL;
		if (may_be_of_sql(r, use)) {
			/* as DEALLOCATE does */
			session_set_dirty(r->s, r->c->pooled.pins & PIN_STATEMENT);
			return prepared_forward(r);
		}
	} else {
		name_change_sent(request_world(r), r->pc, n, NULL, r->s->batch);
	}
	if (!ledger_may_surprise(&r->s->ledger) && !request_is_after_copy(r))
		return reply_locally(r, OP_CLOSE, n, NULL);
	/* after a COPY only the server knows when the answer is due, so the server answers */
	replace_name(r, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return request_enter(r, PGC_CLOSE, OWED_TO_CLIENT, OP_CLOSE, n, NULL) ? VERDICT_PASS
									      : VERDICT_NO_MEMORY;
}

/* ---- messages that a COPY may swallow ---- */

/* Whether this Bind or Describe, if the server executes it, may use a statement of another client.
   It does not if a Parse of the same statement is earlier in the same batch: if that Parse
   succeeds, the statement is the client's; else the server skips this message. */
static bool uses_foreign_statement(const struct prepared_request *r,
				   const struct statement_use *use)
{
	const struct prepared_client *pc = r->pc;
	const struct prepared_name *n = pc->uncertain_name;

	if (r->f->type != PGC_BIND && r->f->type != PGC_DESCRIBE)
		return false;
	if (use->name_size == 1)
		return !(pc->uncertain_server == r->s->peer.id &&
			 pc->uncertain_batch == r->s->batch) &&
		       !prepared_server_has_unnamed(r->c, r->s);
	if (n && pc->uncertain_name_server == r->s->peer.id && n->batch == r->s->batch &&
	    name_is_same(n, use->name))
		return false;
	return name_find(pc, use->name, use->name_size) || !may_be_of_sql(r, use);
}

/* A COPY reads the message, or, if it has failed, the server executes the message: the client's
   statement is unknown afterwards. */
static enum verdict send_uncertain(const struct prepared_request *r,
				   const struct statement_use *use)
{
	enum verdict verdict = prepared_forward(r);
	struct prepared_client *pc = r->pc;
	bool is_parse = r->f->type == PGC_PARSE;
	struct prepared_name *n;

	if (uses_foreign_statement(r, use))
		replace_name(r, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	if (!r->s->ledger.lost || (!is_parse && r->f->type != PGC_CLOSE))
		return verdict;
	if (use->name_size == 1) {
		unnamed_forget(pc);
		pc->uncertain_server = is_parse ? r->s->peer.id : 0;
		pc->uncertain_batch = r->s->batch;
		return verdict;
	}
	n = name_find(pc, use->name, use->name_size);
	if (n)
		name_forget(request_world(r), pc, n);
	name_drop(request_world(r), &pc->uncertain_name);
	if (!is_parse)
		return verdict;
	n = name_new(NULL, use->name, use->name_size);
	if (!n)
		return VERDICT_NO_MEMORY;
	n->batch = r->s->batch;
	pc->uncertain_name = n;
	pc->uncertain_name_server = r->s->peer.id;
	return verdict;
}

/* ---- all messages ---- */

bool prepared_is_incomplete(const struct pg_frame *f)
{
	struct statement_use use;

	if (pg_frame_is_whole(f))
		return false;
	if (f->type == PGC_PARSE)
		return f->size + PG_HEADER <= READ_BUFFER;
	if (f->type != PGC_BIND && f->type != PGC_DESCRIBE && f->type != PGC_CLOSE)
		return false;
	return f->here < NAMES_END_MOST &&
	       statement_use_read(f->type, f->body, f->here, f->size, &use) == PG_MORE;
}

enum verdict prepared_send(struct client *c, struct server *s, const struct pg_frame *f,
			   struct gather *g, size_t *skip)
{
	struct prepared_request r = {
		c, s, f, g, skip, prepared_client_of(c), prepared_server_of(s)
	};
	struct statement_use use;

	if (!r.pc || !r.ps)
		return VERDICT_NO_MEMORY;
	/* the server skips the message */
	if (s->ledger.skipping && !ledger_may_surprise(&s->ledger))
		return prepared_forward(&r);
	if ((f->type == PGC_DESCRIBE || f->type == PGC_CLOSE) && f->body[0] != PG_OF_STATEMENT)
		return prepared_forward(&r);
	g->to = &s->peer.stream;
	switch (statement_use_read(f->type, f->body, f->here, f->size, &use)) {
	case PG_MORE:
		return f->here < NAMES_END_MOST
			       ? VERDICT_MORE
			       : prepared_request_refuse(&r, OP_NAME_TOO_LONG, NULL);
	case PG_BAD:
		return f->size > NAMES_END_MOST
			       ? prepared_request_refuse(&r, OP_NAME_TOO_LONG, NULL)
			       : prepared_forward(&r);
	case PG_OK:
		break;
	}
	/* refused even if all names have arrived, because the result must not depend on the size of
	   a read */
	if ((size_t)((const uint8_t *)use.name - f->body) + use.name_size > NAMES_END_MOST)
		return prepared_request_refuse(&r, OP_NAME_TOO_LONG, NULL);
	if (!ledger_enters(&s->ledger))
		return send_uncertain(&r, &use);
	if (r.ps->has_uncertain && ledger_is_empty(&s->ledger))
		prepared_parameters_changed(s, PARAMETERS_UNCHANGED);
	if (use.name_size == 1) {
		switch (f->type) {
		case PGC_PARSE: return prepared_parse_unnamed(&r);
		case PGC_CLOSE: return prepared_change_unnamed(&r);
		default: return prepared_use_unnamed(&r);
		}
	}
	if (request_world(&r)->conf->settings.max_prepared_statements == 0 && !r.pc->names) {
		const uint8_t *text = (const uint8_t *)use.name + use.name_size;
		size_t here = f->here - (size_t)(text - f->body);

		if (f->type != PGC_PARSE)
			return prepared_forward(&r);
		role_parse_sent(s, text, here);
		r.pc->deallocates |= deallocate_may_be_parsed(text, here);
		return forward_entered(&r);
	}
	if (r.pc->deallocates) {
		/* DEALLOCATE ALL or DISCARD ALL may be in flight: the names of the client are known
		   only after all answers */
		if (ledger_depth(&s->ledger) > 0)
			return request_wait(&r);
		/* a portal ends with its transaction */
		r.pc->deallocates = !(ledger_is_empty(&s->ledger) && s->status == 'I');
	}
	switch (f->type) {
	case PGC_PARSE: return parse_named(&r, &use);
	case PGC_CLOSE: return close_named(&r, &use);
	default: return use_named(&r, &use);
	}
}
