/*
 * The unnamed statement of clients that share a server: Parse, Close, Bind and Describe without a
 * name, and Queries, which end it. send.c has the rules for all statements.
 *
 * The unnamed statement of a server belongs to the client that used it last (server->unnamed_of).
 * Messages of that client are forwarded unchanged. Before a Bind of another client, pgweir parses
 * the last text of that other client again. If this text is unknown, or was longer than the read
 * buffer, pgweir closes the unnamed statement first, and the client gets the server's error.
 *
 * Invariant: a server with unnamed_of of a client and its unnamed_number has the client's last
 * unnamed statement, or has its Parse in flight.
 */
#include "prepared/send.h"

#include "base/inline.h"
#include "sql/values_text.h"
#include "state/server_session.h"
#include "state/session_values.h"

/* ---- the unnamed statement: Parse, Close and Query ---- */

static bool change_unnamed(struct client *c, struct server *s, bool has_text)
{
	bool had = prepared_server_has_unnamed(c, s);

	if (!unnamed_change_sent(c->prepared, s->prepared, OP_UNNAMED, has_text, s->batch))
		return false;
	c->prepared->unnamed_types.meanings = c->peer.world->meanings;
	unnamed_parse_sent(c, s, had);
	return true;
}

/* Notes the effects that the text of a Parse may have; `size` bytes have arrived. */
static NEVER_INLINE void note_unnamed_text(struct prepared_client *pc, struct server *s,
					   const uint8_t *text, size_t size)
{
	role_parse_sent(s, text, size);
	if (statement_sql_may_be_parsed(text, size))
		pc->unnamed_care |= UNNAMED_SENT;
}

#define LETTER(c) (1u << ((c) - 'a'))

/* Whether note_unnamed_text() would have no effect. For nearly every text the first letter is
   sufficient to exclude SET, RESET, DEALLOCATE, DISCARD, EXECUTE, EXPLAIN and CREATE. */
static ALWAYS_INLINE bool text_has_no_effect(const uint8_t *text, size_t size)
{
	unsigned first = size > 3 ? (text[0] | 0x20u) - 'a' : UINT8_MAX;

	if (first <= 'z' - 'a' &&
	    !((LETTER('c') | LETTER('d') | LETTER('e') | LETTER('r') | LETTER('s')) >> first & 1))
		return true;
	return first == 's' - 'a' && role_begins(text, "sel");
}

bool prepared_send_unnamed_parse(struct client *c, struct server *s, const uint8_t *text,
				 size_t size)
{
	struct prepared_client *pc = prepared_client_of(c);

	if (!pc || !prepared_server_of(s) || !change_unnamed(c, s, true))
		return false;
	prepared_note_settings(c, s, text, size);
	if (!text_has_no_effect(text, size))
		note_unnamed_text(pc, s, text, size);
	bytes_append(&pc->text, text, size);
	return !pc->text.failed &&
	       (ledger_sent_plain_marked(&s->ledger, PGC_PARSE) ||
		ledger_sent_marked(&s->ledger, PGC_PARSE, 0, OWED_TO_CLIENT, MARK_PREPARED));
}

/* Sends a Close, or a Parse whose text is not stored. */
enum verdict prepared_change_unnamed(const struct prepared_request *r)
{
	return change_unnamed(r->c, r->s, false) &&
			       ledger_sent_marked(&r->s->ledger, r->f->type, PG_OF_STATEMENT,
						  OWED_TO_CLIENT, MARK_PREPARED)
		       ? VERDICT_PASS
		       : VERDICT_NO_MEMORY;
}

/* Takes a Parse whose text may name statements of the client. VERDICT_MORE: it names none. */
static NEVER_INLINE enum verdict parse_unnamed_sql(const struct prepared_request *r)
{
	struct prepared_client *pc = r->pc;
	const uint8_t *text = r->f->body + 1;
	size_t size = r->f->size - 1;
	struct sql_plan plan;
	enum verdict verdict = sql_plan(r, &plan, text, size, false);

	if (verdict == VERDICT_MORE && plan.count > 0)
		pc->sql->number = pc->number + 1;
	if (verdict != VERDICT_PASS)
		return verdict;
	sql_write(r, PGC_PARSE, &plan, text, size);
	if (!prepared_send_unnamed_parse(r->c, r->s, text, size))
		return VERDICT_NO_MEMORY;
	pc->unnamed_care |= UNNAMED_SENT;
	pc->sql->number = pc->number;
	return VERDICT_SWALLOW;
}

/* Whether the text of the unnamed statement asks for the last value of a sequence (currval,
   lastval). */
static bool text_reads_values(const struct bytes *text)
{
	struct values_text values;

	return values_text_read(bytes_front(text), bytes_size(text), &values);
}

enum verdict prepared_parse_unnamed(const struct prepared_request *r)
{
	const struct pg_frame *f = r->f;
	enum verdict verdict;

	if (f->size + PG_HEADER > READ_BUFFER) {
		verdict = prepared_change_unnamed(r);
		note_unnamed_text(r->pc, r->s, f->body + 1, f->here - 1);
		return verdict;
	}
	if (!pg_frame_is_whole(f))
		return VERDICT_MORE;
	if (prepared_parse_may_name(r->c, f->body + 1, f->size - 1)) {
		verdict = parse_unnamed_sql(r);
		if (verdict != VERDICT_MORE)
			return verdict;
	}
	if (!prepared_send_unnamed_parse(r->c, r->s, f->body + 1, f->size - 1))
		return VERDICT_NO_MEMORY;
	/* prepared_use_unnamed() gets each Bind */
	if (text_reads_values(&r->pc->text))
		r->pc->unnamed_care |= UNNAMED_SENT;
	return VERDICT_PASS;
}

static NEVER_INLINE bool send_query_of_preparer(struct client *c, struct server *s)
{
	struct prepared_client *pc = c->prepared;

	/* an earlier error in the batch skips the Query, which then does not end the unnamed
	   statement; earlier changes may be skipped as well */
	if (c->link_facts.shares_names && s->prepared && (s->ledger.open || pc->in_flight > 0) &&
	    ledger_enters(&s->ledger)) {
		/* A Query that fails before it begins keeps the server's unnamed statement, maybe
		   another client's, and does not make the server skip the next messages. Therefore
		   the statement belongs to no client from now on, even before the answer. */
		server_unnamed_to(s, 0);
		return unnamed_change_sent(pc, s->prepared, OP_UNNAMED_QUERY, false, s->batch) &&
		       ledger_sent_marked(&s->ledger, PGC_QUERY, 0, OWED_TO_CLIENT, MARK_PREPARED);
	}
	if (!s->ledger.skipping) {
		server_unnamed_to(s, 0);
		pc->has_text = pc->has_confirmed_text = false;
		/* an unnamed statement on another server is not this client's any more */
		pc->number++;
	}
	return ledger_sent_query(&s->ledger);
}

bool prepared_send_query(struct client *c, struct server *s)
{
	if (c->prepared)
		return send_query_of_preparer(c, s);
	if (!s->ledger.skipping)
		server_unnamed_to(s, 0);
	return ledger_sent_query(&s->ledger);
}

enum verdict prepared_send_sql(struct client *c, struct server *s, const struct pg_frame *f,
			       struct gather *g)
{
	struct prepared_request r = {
		c, s, f, g, NULL, prepared_client_of(c), prepared_server_of(s)
	};
	enum verdict verdict = VERDICT_MORE;
	struct sql_plan plan;

	if (!r.pc || !r.ps)
		return VERDICT_NO_MEMORY;
	g->to = &s->peer.stream;
	/* after messages without a Sync, pgweir can insert no Sync that the client does not know
	   of */
	if (pg_frame_is_whole(f) && ledger_enters(&s->ledger) && !ledger_may_surprise(&s->ledger) &&
	    !s->ledger.open)
		verdict = sql_plan(&r, &plan, f->body, f->size, true);
	if (verdict == VERDICT_PASS)
		sql_write(&r, PGC_QUERY, &plan, f->body, f->size);
	else if (verdict != VERDICT_MORE)
		return verdict;
	c->prepared->deallocates |= deallocate_is_mentioned(f->body, f->here, false);
	if (!prepared_send_query(c, s))
		return VERDICT_NO_MEMORY;
	return verdict == VERDICT_PASS ? VERDICT_SWALLOW : VERDICT_PASS;
}

/* ---- the unnamed statement: Bind and Describe ---- */

static bool reparse_unnamed(const struct prepared_request *r, const struct sql_plan *plan)
{
	const struct bytes *text = &r->pc->text;
	struct bytes filled = BYTES_EMPTY;

	if (prepared_request_fill_values(r, bytes_front(text), bytes_size(text), &filled))
		text = &filled;
	if (filled.failed)
		return false;
	sql_write(r, PGC_PARSE, plan, bytes_front(text), bytes_size(text));
	role_parse_sent(r->s, bytes_front(text), bytes_size(text));
	/* the text may change before the next flush */
	gather_flush(r->g);
	bytes_free(&filled);
	unnamed_parse_sent(r->c, r->s, false);
	return request_enter(r, PGC_PARSE, OWED_TO_POOLER, OP_UNNAMED_REPARSE, NULL, NULL);
}

/* The text may name statements of the client, which may have changed since: it is parsed again,
   unless it was the last SQL with names. VERDICT_PASS: the server's statement is right. */
static NEVER_INLINE enum verdict use_unnamed_sql(const struct prepared_request *r)
{
	struct prepared_client *pc = r->pc;
	struct sql_plan plan;
	enum verdict verdict;

	if (!pc->has_text || !pc->names ||
	    (prepared_sql_is_current(r, 0) && pc->sql->number == pc->number))
		return VERDICT_PASS;
	verdict = sql_plan(r, &plan, bytes_front(&pc->text), bytes_size(&pc->text), false);
	if ((verdict != VERDICT_PASS && verdict != VERDICT_MORE) || plan.count == 0)
		return verdict == VERDICT_MORE ? VERDICT_PASS : verdict;
	pc->sql->number = pc->number;
	return reparse_unnamed(r, verdict == VERDICT_PASS ? &plan : NULL) ? VERDICT_PASS
									  : VERDICT_NO_MEMORY;
}

/* Whether a value in binary format could be misread, because the client and the server may see
   different types. Example: the four bytes of an int4 are read as a float4. */
static bool may_be_misread(const struct pg_frame *f)
{
	return f->type == PGC_BIND &&
	       !(pg_frame_is_whole(f) && statement_bind_is_text(f->body, f->size));
}

/*
 * The client's unnamed statement is on another server, or another client has replaced it on this
 * server: the text is parsed again. As on one connection, the text has its present meaning, and
 * must have the types that it had at first.
 *
 *	the client has received its types	they are compared before the message is sent
 *	definitions, or the client's		the same, if pgweir has asked for the types before.
 *						If not,
 *	parameters, have changed since		the text must have no parameters and no result, or,
 *						after a change by the client itself, the message
 *						only text format
 *	nothing has changed			the message is sent at once
 */
static NEVER_INLINE enum verdict restore_unnamed(const struct prepared_request *r)
{
	static const uint8_t close[] = { PGC_CLOSE, 0, 0, 0, 6, PG_OF_STATEMENT, 0 };
	struct prepared_client *pc = r->pc;
	const struct unnamed_types *types = &pc->unnamed_types;
	bool is_altered = types->meanings != request_world(r)->meanings;
	bool may_differ = types->told || types->in_doubt || is_altered || request_is_private(r);

	if (r->ps->unnamed_describing)
		return VERDICT_WAIT;
	if (pc->has_text && types->differ)
		return prepared_request_refuse(r, OP_TYPES_DIFFER, NULL);
	if (request_is_after_copy(r))
		return request_wait(r);
	if (!pc->has_text) {
		/* no statement, or an unknown one: the server must report that it does not exist */
		server_unnamed_to(r->s, 0);
		gather_copy(r->g, close, sizeof(close));
		return ledger_sent(&r->s->ledger, PGC_CLOSE, PG_OF_STATEMENT, OWED_TO_POOLER)
			       ? VERDICT_PASS
			       : VERDICT_NO_MEMORY;
	}
	pc->unnamed_care |= UNNAMED_REUSED;
	if (!reparse_unnamed(r, NULL))
		return VERDICT_NO_MEMORY;
	if (!may_differ || (types->hash == 0 && !is_altered && !may_be_misread(r->f)))
		return VERDICT_PASS;
	/* wait for the types, because an execution with other types cannot be undone; until then
	   the statement belongs to no client */
	server_unnamed_to(r->s, 0);
	r->ps->unnamed_describing = true;
	if (!request_describe_unnamed(r, OP_DESCRIBE))
		return VERDICT_NO_MEMORY;
	prepared_gather_flush(r);
	return VERDICT_WAIT;
}

enum verdict prepared_use_unnamed(const struct prepared_request *r)
{
	struct prepared_client *pc = r->pc;
	struct prepared_server *ps = r->ps;
	enum verdict verdict;

	/* an older statement may call set_config in this transaction */
	if (r->f->type == PGC_BIND && pc->has_text)
		prepared_note_settings(r->c, r->s, bytes_front(&pc->text), bytes_size(&pc->text));
	if (pc->unnamed_care & UNNAMED_DEALLOCATES) {
		pc->deallocates = true;
		verdict = use_unnamed_sql(r);
		if (verdict != VERDICT_PASS)
			return verdict;
	}
	if (ps->unnamed_in_flight > 0 && !ps->unnamed_confirmed && ps->unnamed_batch != r->s->batch)
		return VERDICT_WAIT;
	if (!prepared_server_has_unnamed(r->c, r->s)) {
		if (pc->in_flight > 0 && pc->batch != r->s->batch)
			return VERDICT_WAIT;
		verdict = restore_unnamed(r);
		if (verdict != VERDICT_PASS)
			return verdict;
	} else if (r->f->type == PGC_BIND && pc->has_text && r->c->link_facts.keeps_state &&
		   r->c->session->values && text_reads_values(&pc->text)) {
		if (!reparse_unnamed(r, NULL))
			return VERDICT_NO_MEMORY;
	} else if (r->f->type == PGC_BIND && !pc->has_text) {
		r->s->session.meaning_in_doubt |= r->s->status != 'I' ||
						  !ledger_is_empty(&r->s->ledger);
	}
	if (r->f->type != PGC_DESCRIBE) {
		if ((pc->unnamed_care & UNNAMED_REUSED) && pc->has_text &&
		    pc->unnamed_types.hash == 0 && !request_is_after_copy(r) &&
		    !request_describe_unnamed(r, OP_LEARN))
			return VERDICT_NO_MEMORY;
		return prepared_forward(r);
	}
	/* the journal notes the types in its answer */
	return request_enter(r, PGC_DESCRIBE, OWED_TO_CLIENT, OP_USE, NULL, NULL)
		       ? VERDICT_PASS
		       : VERDICT_NO_MEMORY;
}
