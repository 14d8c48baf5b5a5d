/*
 * Prepared statements with a name: what becomes of their Parse, Bind, Describe and Close. prepared.c says how names of clients and of
 * servers belong together.
 */
#include "prepared/prepared_sending.h"

#include "state/server_session.h"
#include "state/session_state.h"
#include "base/inline.h"
#include "base/log.h"
#include "base/printable.h"

#include <string.h>

#define SENT_AT_ONCE (2 * READ_BUFFER)	/* bytes to a server, of one read from its client, behind which it has to take them first */
#define UNDER_WAY_MOST (1024 * 1024)	/* bytes of what the journal alone may keep, behind which answers have to come first */

/* What PgBouncer writes where it refuses a name; the client hears the server's words. */
static void log_name(const struct sending *x, const struct statement_use *use, const char *what)
{
	char who[256], name[PRINTABLE_TEXT];

	log_error("%s prepared statement '%s' %s", client_text(x->c, who, sizeof(who)), printable_text(use->name, name, sizeof(name)), what);
}

/* The client has this name already. The server shall say so, with whatever else is wrong with the message: it goes there under a
   name that is taken. Only with nothing else under way is it certain that the client still has it. */
static enum prepared_verdict parse_again(const struct sending *x, const struct statement_use *use, struct prepared_name *n)
{
	static const uint8_t nothing[] = { 0, 0, 0 };
	struct ledger *l = &x->s->ledger;

	if (ledger_depth(l) > 0)
		return sending_wait_for_answers(x);
	log_name(x, use, "was already prepared");
	sending_head(x, PGC_CLOSE, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), 0);
	sending_head(x, PGC_PARSE, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN), sizeof(nothing));
	gather_copy(x->g, nothing, sizeof(nothing));
	sending_renamed(x, use, STATEMENT_AGAIN, sizeof(STATEMENT_AGAIN));
	if (!ledger_sent(l, PGC_CLOSE, PG_OF_STATEMENT, OWED_TO_POOLER) || !ledger_sent(l, PGC_PARSE, 0, OWED_TO_POOLER) ||
	    !sending_entered(x, PGC_PARSE, OWED_TO_CLIENT, OP_AGAIN, n, NULL))
		return PREPARED_NO_MEMORY;
	ledger_watch_last(l);
	return PREPARED_PASS;
}

/* The name stands for nothing yet. */
static enum prepared_verdict parse_new(const struct sending *x, struct prepared_name *n, struct statement *st, const struct sql_plan *plan)
{
	struct prepared_entry *e = entry_find(x->has, st);

	if (sending_is_after_copy(x))
		return sending_wait_for_answers(x);
	sending_stats(x)->client_parse_count++;
	name_sent(sending_world(x), x->mine, n, st, x->s->batch);
	n->told = entry_is_there(e) ? e->types : 0;
	/* In an aborted transaction PostgreSQL refuses to parse what it knows, too; whether this will be one may not be known yet. And
	   a statement that still runs may be DEALLOCATE ALL. */
	if (entry_is_there(e) && x->s->status != 'E' && ledger_is_one_batch(&x->s->ledger) && !ledger_may_copy(&x->s->ledger) &&
	    !ledger_may_surprise(&x->s->ledger)) {
		entry_used(x->has, e);
		return sending_local_reply(x, OP_KNOWN, n, st);
	}
	if (!sending_make_way(x, e, st))
		return PREPARED_NO_MEMORY;
	if (!entry_parse_sent(x->has, st, x->s->batch))
		return PREPARED_NO_MEMORY;
	role_parse_sent(x->s, st->body, st->size);
	sending_parse(x, st, plan);
	sending_stats(x)->server_parse_count++;
	if (!sending_entered(x, PGC_PARSE, OWED_TO_CLIENT, OP_PARSE, n, st))
		return PREPARED_NO_MEMORY;
	/* the types of SQL that names statements are theirs */
	return st->names_others || sending_describe(x, n, st, false) ? PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

/* Its text names statements, which are sent first. */
static NEVER_INLINE enum prepared_verdict parse_sql(const struct sending *x, struct prepared_name *n, struct statement *st)
{
	struct sql_plan plan;
	enum prepared_verdict verdict = sql_plan(x, &plan, st->body, st->size, false);

	if ((verdict == PREPARED_PASS || verdict == PREPARED_MORE) && x->mine->sql)
		x->mine->sql->statement = st->number;
	if (verdict == PREPARED_PASS || verdict == PREPARED_MORE)
		return parse_new(x, n, st, verdict == PREPARED_PASS ? &plan : NULL);
	return verdict;
}

/* Texts may have another meaning in this session. */
static bool is_private(const struct sending *x)
{
	return x->s->session.meaning_in_doubt || session_state_is_private(x->s, x->c);
}

/* What the client has executed and not been told the end of may have changed its parameters. The text is read under those, so no other
   client is to have this statement, nor is it taken to another server: see named_use. The same holds where the text may be about temporary
   tables of the client's. */
static struct statement *new_statement(const struct sending *x, const uint8_t *body, size_t size)
{
	bool known = ledger_is_up_to_date(&x->s->ledger) && !is_private(x);

	return (known ? statement_take : statement_apart)(sending_world(x)->statements, sending_place(x), x->c->params, body, size);
}

/* Looked at before the text is here, which would have to be kept. */
static bool takes_too_much(const struct sending *x, const struct statement_use *use, size_t size)
{
	size_t most = (size_t)sending_world(x)->conf->settings.max_prepared_memory;

	return most > 0 && x->mine->bytes + name_cost(use->name_size, size) > most;
}

enum prepared_verdict named_parse(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);
	const uint8_t *body = (const uint8_t *)use->name + use->name_size;
	size_t size = x->f->size - use->name_size;
	enum prepared_verdict verdict = PREPARED_WAIT;
	struct statement *st;

	if (takes_too_much(x, use, size))
		return PREPARED_TOO_MUCH;
	if (!pg_frame_is_whole(x->f))
		return PREPARED_MORE;
	if (sending_name_in_doubt(x, n))
		return PREPARED_WAIT;
	/* the text stays in the journal until it is answered, whatever its name stands for by then */
	if (x->has->under_way > UNDER_WAY_MOST)
		return sending_wait_for_answers(x);
	if (!statement_body_is_sound(body, size))
		return sending_unchanged(x);
	if (n && n->sent)
		return parse_again(x, use, n);
	st = new_statement(x, body, size);
	if (!st)
		return PREPARED_NO_MEMORY;
	if (!sending_entry_in_doubt(x, entry_find(x->has, st))) {
		if (!n)
			n = name_new(x->mine, use->name, use->name_size);
		verdict = !n ? PREPARED_NO_MEMORY : st->names_others ? parse_sql(x, n, st) : parse_new(x, n, st, NULL);
	}
	statement_drop(sending_world(x)->statements, &st);
	return verdict;
}

static bool is_ours(const struct statement_use *use)
{
	return strncmp(use->name, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) == 0;
}

/* The statement is nowhere, as far as this client goes: the server says so, under a name that nothing has. */
static enum prepared_verdict use_nothing(const struct sending *x, const struct statement_use *use, struct prepared_name *n, struct statement *st)
{
	sending_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return sending_entered(x, x->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

bool named_may_be_of_sql(const struct sending *x, const struct statement_use *use)
{
	bool has_some = (x->s->session.doubts | x->c->pooled.pins) & PIN_STATEMENT;

	return (x->s->status != 'I' || has_some) && !is_ours(use);
}

/* Behind the first in a batch the server passes over all others, so that it says nothing of them. */
static enum prepared_verdict use_unknown(const struct sending *x, const struct statement_use *use)
{
	enum prepared_verdict verdict;
	struct prepared_name *n;

	if (named_may_be_of_sql(x, use))
		return sending_unchanged(x);
	if (x->has->missed_in == x->s->batch + 1)
		return use_nothing(x, use, NULL, NULL);
	if (x->has->under_way > UNDER_WAY_MOST)
		return sending_wait_for_answers(x);
	n = name_new(NULL, use->name, use->name_size);
	if (!n)
		return PREPARED_NO_MEMORY;
	x->has->missed_in = x->s->batch + 1;
	log_name(x, use, "not found");
	verdict = use_nothing(x, use, n, NULL);
	name_drop(sending_world(x), &n);
	return verdict;
}

/* A Bind of a few bytes may bring a text of any length to a server that lacks it, and a read may bring thousands of them. The server takes
   what it was sent before there is more. */
static bool is_full(const struct sending *x)
{
	if (x->g->bytes <= SENT_AT_ONCE)
		return false;
	gather_flush(x->g);
	if (stream_unsent(&x->s->peer.stream) > 0)
		return true;
	x->g->bytes = 0;
	return false;
}

/* The statement may make the session forget statements, change the meaning of texts, or name others: then it is parsed again, unless it is the last
   SQL that was sent. PREPARED_PASS: it may be used. */
static NEVER_INLINE enum prepared_verdict prepare_sql(const struct sending *x, struct prepared_name *n, struct statement *st)
{
	enum prepared_verdict verdict;
	struct sql_plan plan;

	x->s->session.meaning_in_doubt |= st->configures;
	x->mine->deallocates |= st->deallocates;
	if (!st->names_others || sql_is_ready(x, st->number))
		return PREPARED_PASS;
	verdict = sql_plan(x, &plan, st->body, st->size, false);
	if (verdict != PREPARED_PASS && verdict != PREPARED_MORE)
		return verdict;
	if (!sending_replay(x, n, st, verdict == PREPARED_PASS ? &plan : NULL))
		return PREPARED_NO_MEMORY;
	x->mine->sql->statement = st->number;
	return PREPARED_PASS;
}

/* The server does not have the statement. It is parsed and described before it is used, because an execution with other types
   cannot be undone. */
static NEVER_INLINE enum prepared_verdict describe_first(const struct sending *x, struct prepared_name *n, struct statement *st)
{
	static const uint8_t flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	if (!sending_replay(x, n, st, NULL) || !sending_describe(x, n, st, false))
		return PREPARED_NO_MEMORY;
	gather_copy(x->g, flush, sizeof(flush));
	x->mine->awaited = st->number;
	return PREPARED_WAIT;
}

/* What has been parsed for this message is of use for it, whatever its reading: nothing was executed since. */
static bool is_of_use(const struct sending *x, const struct prepared_entry *e)
{
	return entry_is_there(e) || (e && e->sent && e->statement->number == x->mine->awaited);
}

/* The statement is not on the server, or its types are not known to be those that the client was told. PREPARED_MORE: it may be used. */
static NEVER_INLINE enum prepared_verdict make_ready(const struct sending *x, const struct statement_use *use, struct prepared_name *n,
						     struct statement *st, struct prepared_entry *e)
{
	/* while its client's own Parse is not answered, there is nothing to compare */
	if (e && e->described && n->told)
		return st->number == x->mine->awaited ? PREPARED_WAIT : sending_wait_for_answers(x);
	if (is_of_use(x, e)) {
		if (n->told && e->types && e->types != n->told)
			return sending_changed(x, n);
		entry_used(x->has, e);
		return PREPARED_MORE;
	}
	if (st->changed)
		return use_nothing(x, use, n, st);
	if (sending_is_after_copy(x))
		return sending_wait_for_answers(x);
	if (n->told)
		return describe_first(x, n, st);
	return sending_replay(x, n, st, NULL) && (st->names_others || sending_describe(x, n, st, false)) ? PREPARED_MORE : PREPARED_NO_MEMORY;
}

static enum prepared_verdict use_statement(const struct sending *x, const struct statement_use *use, struct prepared_name *n,
					   struct statement *st, struct prepared_entry *e)
{
	enum prepared_verdict verdict;

	if (sending_entry_in_doubt(x, e) || is_full(x))
		return PREPARED_WAIT;
	if (st->deallocates | st->configures) {
		verdict = prepare_sql(x, n, st);
		if (verdict != PREPARED_PASS)
			return verdict;
		e = entry_find(x->has, st);
	}
	if (e && e->types == n->told && !e->described && entry_is_there(e)) {
		entry_used(x->has, e);
	} else {
		verdict = make_ready(x, use, n, st, e);
		if (verdict != PREPARED_MORE)
			return verdict;
	}
	if (x->f->type == PGC_BIND)
		sending_stats(x)->bind_count++;
	x->mine->awaited = 0;
	sending_renamed(x, use, st->end, st->end_size);
	return sending_entered(x, x->f->type, OWED_TO_CLIENT, OP_USE, n, st) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

/* It has moved, and the parameters of its client are those again under which it was prepared: SET LOCAL has ended, or SET was undone. */
static ALWAYS_INLINE bool may_go_back(const struct sending *x, const struct prepared_name *n)
{
	const struct statements *all = sending_world(x)->statements;

	return n->first && n->in_flight == 0 && !n->sent->changed && statement_is_for(all, n->first, x->c->params) &&
	       (n->sent->apart ? !is_private(x) : !statement_is_for(all, n->sent, x->c->params));
}

/* The statement as this server is to have it. */
static struct statement *statement_here(const struct sending *x, struct statement *st)
{
	struct statements *all = sending_world(x)->statements;

	if (is_private(x))
		return statement_apart(all, sending_place(x), x->c->params, st->body, st->size);
	return statement_under(all, st, sending_place(x), x->c->params);
}

struct statement *named_statement(const struct sending *x, struct prepared_name *n)
{
	struct statement *st;

	if (may_go_back(x, n))
		name_moves(sending_world(x), x->mine, n, n->first);
	if (entry_is_there(entry_find(x->has, n->sent)) || n->sent->changed)
		return statement_hold(n->sent);
	st = statement_here(x, n->sent);
	if (st && st != n->sent)
		name_moves(sending_world(x), x->mine, n, st);
	return st;
}

enum prepared_verdict named_use(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);
	enum prepared_verdict verdict;
	struct prepared_entry *e;
	struct statement *st;

	if (sending_name_in_doubt(x, n))
		return PREPARED_WAIT;
	if (!n || !n->sent)
		return use_unknown(x, use);
	if (may_go_back(x, n))
		name_moves(sending_world(x), x->mine, n, n->first);
	e = entry_find(x->has, n->sent);
	if (is_of_use(x, e) || n->sent->changed)
		return use_statement(x, use, n, n->sent, e);
	st = named_statement(x, n);
	if (!st)
		return PREPARED_NO_MEMORY;
	verdict = use_statement(x, use, n, st, entry_find(x->has, st));
	statement_drop(sending_world(x)->statements, &st);
	return verdict;
}

/* While a ReadyForQuery may come that only the server knows of, or the batch before this one may still be a COPY that fails, only the
   server knows when the answer is due: it has to answer by itself. */
static enum prepared_verdict close_answered(const struct sending *x, const struct statement_use *use, struct prepared_name *n)
{
	if (!ledger_may_surprise(&x->s->ledger) && !sending_is_after_copy(x))
		return sending_local_reply(x, OP_CLOSE, n, NULL);
	sending_renamed(x, use, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE));
	return sending_entered(x, PGC_CLOSE, OWED_TO_CLIENT, OP_CLOSE, n, NULL) ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

enum prepared_verdict named_close(const struct sending *x, const struct statement_use *use)
{
	struct prepared_name *n = name_find(x->mine, use->name, use->name_size);

	if (sending_name_in_doubt(x, n))
		return PREPARED_WAIT;
	if (!n || !n->sent) {
		if (!named_may_be_of_sql(x, use))
			return close_answered(x, use, NULL);
		/* as DEALLOCATE */
		session_add_doubt(x->s, x->c->pooled.pins & PIN_STATEMENT);
		return sending_unchanged(x);
	}
	name_sent(sending_world(x), x->mine, n, NULL, x->s->batch);
	return close_answered(x, use, n);
}
