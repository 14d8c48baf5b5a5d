/*
 * What goes to a server for a message about a prepared statement: the message itself, under another name, or messages of the pooler's
 * own before it. Each is entered in the ledger, and, where its answer matters, in the journal.
 */
#include "prepared/prepared_sending.h"
#include "state/server_session.h"

#include "base/assert.h"

struct world *sending_world(const struct sending *x)
{
	return x->c->peer.world;
}

/* Of its client's statements. */
uint64_t sending_place(const struct sending *x)
{
	struct database *d = x->c->pooled.pool->database;

	if (d->statements == 0)
		d->statements = statements_new_place(sending_world(x)->statements);
	return d->statements;
}

struct stats *sending_stats(const struct sending *x)
{
	return &x->c->pooled.pool->database->stats.total;
}

/* ---- what goes out ---- */

static enum prepared_verdict sending_pass(const struct sending *x)
{
	bool entered = ledger_sent(&x->s->ledger, x->f->type, x->f->here ? x->f->body[0] : 0, OWED_TO_CLIENT);

	return entered ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

enum prepared_verdict sending_unchanged(const struct sending *x)
{
	bool may_parse = x->f->type == PGC_PARSE && (!x->s->ledger.skipping || ledger_may_surprise(&x->s->ledger));

	x->s->session.roles_prepared |= may_parse;
	x->s->session.meanings_prepared |= may_parse;
	return sending_pass(x);
}

enum prepared_verdict sending_not_kept(const struct sending *x, const struct statement_use *use)
{
	const uint8_t *text = (const uint8_t *)use->name + use->name_size;

	size_t here = x->f->here - (size_t)(text - x->f->body);

	role_parse_sent(x->s, text, here);
	if (deallocate_may_be_parsed(text, here))
		x->mine->deallocates = true;
	return sending_pass(x);
}

void sending_write_header(uint8_t *to, uint8_t type, size_t rest)
{
	uint32_t length = (uint32_t)(PG_LENGTH_WORD + rest);

	to[0] = type;
	to[1] = (uint8_t)(length >> 24);
	to[2] = (uint8_t)(length >> 16);
	to[3] = (uint8_t)(length >> 8);
	to[4] = (uint8_t)length;
}

void sending_head(const struct sending *x, uint8_t type, const char *end, size_t end_size, size_t more)
{
	bool has_kind = type != PGC_PARSE;
	size_t size = has_kind + STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	to = gather_place(x->g, PG_HEADER + size);
	sending_write_header(to, type, size + more);
	to += PG_HEADER;
	if (has_kind)
		*to++ = PG_OF_STATEMENT;
	statement_name(to, &x->has->names, end, end_size);
}

void sending_renamed(const struct sending *x, const struct statement_use *use, const char *end, size_t end_size)
{
	const struct pg_frame *f = x->f;
	size_t before = (size_t)((const uint8_t *)use->name - f->body), name_size = STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	*x->skip = PG_HEADER + before + use->name_size;
	/* mostly nothing is in between, or one byte is: what is described, or the end of a portal without a name */
	to = gather_place(x->g, PG_HEADER + (before > 1 ? 0 : before + name_size));
	sending_write_header(to, f->type, f->size - use->name_size + name_size);
	to += PG_HEADER;
	if (before == 1)
		*to++ = f->body[0];
	if (before > 1) {
		gather_add(x->g, f->body, before);
		to = gather_place(x->g, name_size);
	}
	statement_name(to, &x->has->names, end, end_size);
}

bool sending_entered(const struct sending *x, uint8_t type, enum ledger_owner owner, enum prepared_what what, struct prepared_name *name,
		    struct statement *st)
{
	if (!op_push(x->has, what, name, st))
		return false;
	return (owner == OWED_TO_CLIENT && ledger_sent_plain_marked(&x->s->ledger, type)) ||
	       ledger_sent_marked(&x->s->ledger, type, x->f->here ? x->f->body[0] : 0, owner, MARK_PREPARED);
}

enum prepared_verdict sending_local_reply(const struct sending *x, enum prepared_what what, struct prepared_name *name, struct statement *st)
{
	return op_push(x->has, what, name, st) && ledger_local_reply(&x->s->ledger) ? PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

/* ---- what is not known yet ---- */

enum prepared_verdict sending_wait_for_answers(const struct sending *x)
{
	static const uint8_t flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	if (!ledger_local_reply_is_due(&x->s->ledger))
		gather_copy(x->g, flush, sizeof(flush));
	return PREPARED_WAIT;
}

bool sending_names_may_go(const struct sending *x)
{
	if (!x->mine->deallocates)
		return false;
	if (ledger_depth(&x->s->ledger) > 0)
		return true;
	/* no portal outlives its transaction */
	if (ledger_is_empty(&x->s->ledger) && x->s->status == 'I')
		x->mine->deallocates = false;
	return false;
}

bool sending_is_after_copy(const struct sending *x)
{
	return !ledger_is_one_batch(&x->s->ledger) && ledger_may_copy(&x->s->ledger);
}

bool sending_name_in_doubt(const struct sending *x, const struct prepared_name *n)
{
	return n && n->in_flight > 0 && n->batch != x->s->batch;
}

bool sending_entry_in_doubt(const struct sending *x, const struct prepared_entry *e)
{
	return e && e->in_flight > 0 && e->batch != x->s->batch;
}

/* ---- the server's set ---- */

bool entry_is_there(const struct prepared_entry *e)
{
	return e && e->sent && (e->reading != READING_OTHER || e->in_flight > 0);
}

static bool close_there(const struct sending *x, struct prepared_entry *e)
{
	struct statement *st = e->statement;

	sending_head(x, PGC_CLOSE, st->end, st->end_size, 0);
	if (!sending_entered(x, PGC_CLOSE, OWED_TO_POOLER, OP_EVICT, NULL, st))
		return false;
	entry_close_sent(x->has, e, x->s->batch);
	return true;
}

/* With one more it would have more than it may. */
static bool has_its_fill(const struct sending *x, const struct statement *st)
{
	const struct settings *set = &sending_world(x)->conf->settings;
	int64_t most = set->max_prepared_statements > 0 ? set->max_prepared_statements : 1;
	size_t bytes = (size_t)set->max_prepared_memory;

	return x->has->count >= most || (bytes > 0 && x->has->bytes + entry_cost(st) > bytes);
}

/* Makes room for one more. One that a batch before this one has brought or used can be closed all the same: the server does things
   in order. But one in doubt cannot. */
static bool make_room(const struct sending *x, const struct statement *st)
{
	while (x->has->count > 0 && has_its_fill(x, st)) {
		struct prepared_entry *oldest = LIST_OBJECT(list_first(&x->has->used), struct prepared_entry, use);

		if (sending_entry_in_doubt(x, oldest))
			break;
		if (!close_there(x, oldest))
			return false;
	}
	return true;
}

bool sending_make_way(const struct sending *x, struct prepared_entry *e, const struct statement *st)
{
	return e && e->sent ? close_there(x, e) : make_room(x, st);
}

/* What the client has executed may have changed its parameters, and is only told at the end of the batch. With SET it has, and may take
   that back before. */
static enum reading sending_reading(const struct sending *x, const struct statement *st)
{
	if (ledger_is_up_to_date(&x->s->ledger))
		return READING_OWN;
	return x->has->set_in == x->s->batch + 1 && statement_may_differ(st) ? READING_OTHER : READING_UNSURE;
}

void sending_parse(const struct sending *x, const struct statement *st, const struct sql_plan *plan)
{
	sending_head(x, PGC_PARSE, st->end, st->end_size, st->size + (plan ? sql_growth(x, plan) : 0));
	if (plan)
		sql_add(x, plan, st->body, st->size);
	else
		gather_add(x->g, st->body, st->size);
}

bool sending_describe(const struct sending *x, struct prepared_name *n, struct statement *st, bool alone)
{
	sending_head(x, PGC_DESCRIBE, st->end, st->end_size, 0);
	entry_find(x->has, st)->described = true;
	if (!op_push(x->has, OP_DESCRIBE, n, st))
		return false;
	op_at(x->has, x->has->op_count - 1)->alone = alone;
	return ledger_sent_marked(&x->s->ledger, PGC_DESCRIBE, PG_OF_STATEMENT, OWED_TO_POOLER, MARK_PREPARED);
}

enum prepared_verdict sending_changed(const struct sending *x, struct prepared_name *n)
{
	sending_head(x, PGC_DESCRIBE, STATEMENT_NOWHERE, sizeof(STATEMENT_NOWHERE), 0);
	if (!op_push(x->has, OP_CHANGED, n, NULL))
		return PREPARED_NO_MEMORY;
	return ledger_sent_marked(&x->s->ledger, PGC_DESCRIBE, PG_OF_STATEMENT, OWED_TO_CLIENT, MARK_PREPARED) ? PREPARED_SWALLOW : PREPARED_NO_MEMORY;
}

bool sending_replay(const struct sending *x, struct prepared_name *n, struct statement *st, const struct sql_plan *plan)
{
	enum reading reading = sending_reading(x, st);

	if (!sending_make_way(x, entry_find(x->has, st), st) || !entry_parse_sent(x->has, st, x->s->batch))
		return false;
	role_parse_sent(x->s, st->body, st->size);
	sending_parse(x, st, plan);
	sending_stats(x)->server_parse_count++;
	if (!sending_entered(x, PGC_PARSE, OWED_TO_POOLER, OP_REPLAY, n, st))
		return false;
	op_at(x->has, x->has->op_count - 1)->reading = (uint8_t)reading;
	return true;
}
