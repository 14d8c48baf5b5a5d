/*
 * Messages that pgweir sends to a server before, or in place of, a message of the client about a
 * prepared statement.
 *
 * All names on a server are pgweir's: see sql/statement.h. Where the server lacks a statement, a
 * Parse is inserted. Where it has max_prepared_statements, or statements of max_prepared_memory, a
 * Close of the least recently used statement comes first. Each inserted message is entered in the
 * ledger, and in the journal if its answer matters.
 *
 * SQL can name a statement of the protocol: DEALLOCATE name, EXECUTE name(...). The name in the
 * text is replaced:
 *
 *	EXECUTE		by the server's name of the statement, which is parsed first if the server
 *			lacks it
 *	DEALLOCATE	by the name of an empty statement, which is parsed first. The server answers
 *			as to any DEALLOCATE (25P02 in a failed transaction), and keeps the
 *			statement for other clients. CommandComplete removes the client's name. A
 *			name of pgweir's that pg_prepared_statements shows, and that is not the
 *			client's, is replaced by a name that no statement has: the server answers
 *			26000, and other clients keep their statement.
 *
 * Before a Query these Parse messages end with an inserted Sync, because their error would make the
 * server skip the Query; the error is dropped, and the Query fails. In the extended protocol the
 * error is forwarded, and the client's Sync follows.
 *
 * Such SQL waits for all pending answers: then the statements of its names are known, and whether
 * the transaction has failed (in that case the text is unchanged). When the text of a Parse is used
 * later, its names may have other statements. Therefore it is parsed again before each Bind, unless
 * it was the last such text sent, in the same batch. struct prepared_sql is the record of that
 * text.
 */
#include "prepared/rewrite.h"

#include "state/server_session.h"
#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>

#define QUOTES 2

static const uint8_t empty_body[] = { 0, 0, 0 };	/* of a Parse: an empty text, no types */
static const uint8_t rewrite_flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };
static const uint8_t sync_message[PG_HEADER] = { PGC_SYNC, 0, 0, 0, 4 };

/* ---- messages ---- */

void request_insert(const struct prepared_request *r, uint8_t type, const char *end,
		    size_t end_size, size_t more)
{
	bool has_kind = type != PGC_PARSE;
	size_t size = has_kind + STATEMENT_HEAD + end_size;
	uint8_t *to;

	ASSERT(end_size <= STATEMENT_END_MOST);
	to = gather_place(r->g, PG_HEADER + size);
	message_header(to, type, size + more);
	to += PG_HEADER;
	if (has_kind)
		*to++ = PG_OF_STATEMENT;
	statement_name(to, &r->ps->names, end, end_size);
}

bool request_enter(const struct prepared_request *r, uint8_t type, enum ledger_owner owner,
		   enum op_kind kind, struct prepared_name *name, struct statement *st)
{
	if (!op_push(r->ps, kind, name, st))
		return false;
	return (owner == OWED_TO_CLIENT && ledger_sent_plain_marked(&r->s->ledger, type)) ||
	       ledger_sent_marked(&r->s->ledger, type, r->f->here ? r->f->body[0] : 0, owner,
				  MARK_PREPARED);
}

/* Enters a message of pgweir's own about a statement: in the journal of the server and in its
   ledger. False: no memory. */
static bool enter_inserted(const struct prepared_request *r, uint8_t type, enum op_kind kind,
			   struct prepared_name *name, struct statement *st, bool is_internal)
{
	if (!op_push(r->ps, kind, name, st))
		return false;
	op_at(r->ps, r->ps->op_count - 1)->is_internal = is_internal;
	return ledger_sent_marked(&r->s->ledger, type, PG_OF_STATEMENT, OWED_TO_POOLER,
				  MARK_PREPARED);
}

enum verdict request_wait(const struct prepared_request *r)
{
	if (!ledger_local_reply_is_due(&r->s->ledger))
		gather_copy(r->g, rewrite_flush, sizeof(rewrite_flush));
	return VERDICT_WAIT;
}

/* ---- statements ---- */

static bool evict(const struct prepared_request *r, struct statement *st)
{
	request_insert(r, PGC_CLOSE, st->end, st->end_size, 0);
	return enter_inserted(r, PGC_CLOSE, OP_EVICT, NULL, st, false) &&
	       entry_change_sent(r->ps, st, false, r->s->batch);
}

/* Closes the entry itself, or the least recently used ones. A statement can be closed while
   messages in flight use it, because the server handles messages in order; a statement in doubt
   cannot. */
static bool rewrite_make_room(const struct prepared_request *r, const struct prepared_entry *e,
			      const struct statement *st)
{
	const struct settings *set = &request_world(r)->conf->settings;
	int64_t most = set->max_prepared_statements > 0 ? set->max_prepared_statements : 1;
	size_t bytes = (size_t)set->max_prepared_memory;

	if (e && e->sent)
		return evict(r, e->statement);
	while (r->ps->count > 0 &&
	       (r->ps->count >= most || (bytes > 0 && r->ps->bytes + entry_cost(st) > bytes))) {
		struct prepared_entry *oldest = LIST_OBJECT(list_first(&r->ps->lru),
							    struct prepared_entry, lru_link);

		if (request_entry_in_doubt(r, oldest))
			break;
		if (!evict(r, oldest->statement))
			return false;
	}
	return true;
}

static size_t sql_growth(const struct prepared_request *r, const struct sql_plan *plan);
static void sql_add(const struct prepared_request *r, const struct sql_plan *plan,
		    const uint8_t *text, size_t size);

bool request_parse(const struct prepared_request *r, enum op_kind kind, struct prepared_name *n,
		   struct statement *st, const struct sql_plan *plan)
{
	enum parse_validity validity = PARSE_VALID;
	bool is_filled = plan && bytes_size(&plan->filled) > 0;
	const uint8_t *body = is_filled ? bytes_front(&plan->filled) : st->body;
	size_t size = is_filled ? bytes_size(&plan->filled) : st->size;

	/* a statement in flight may have changed parameters, which the server reports at the end of
	   the batch; after SET they have changed, and the client may undo the change before */
	if (kind == OP_REPARSE && !ledger_is_up_to_date(&r->s->ledger))
		validity = r->ps->set_batch == r->s->batch + 1 && statement_may_differ(st)
				   ? PARSE_INVALID
				   : PARSE_UNCERTAIN;
	if (!rewrite_make_room(r, entry_find(r->ps, st), st) ||
	    !entry_change_sent(r->ps, st, true, r->s->batch))
		return false;
	role_parse_sent(r->s, st->body, st->size);
	request_insert(r, PGC_PARSE, st->end, st->end_size, size + sql_growth(r, plan));
	sql_add(r, plan, body, size);
	request_stats(r)->server_parse_count++;
	if (!request_enter(r, PGC_PARSE, kind == OP_PARSE ? OWED_TO_CLIENT : OWED_TO_POOLER, kind,
			   n, st))
		return false;
	op_at(r->ps, r->ps->op_count - 1)->validity = (uint8_t)validity;
	return true;
}

bool request_describe_unnamed(const struct prepared_request *r, enum op_kind kind)
{
	static const uint8_t describe[] = { PGC_DESCRIBE, 0, 0, 0, 6, PG_OF_STATEMENT, 0 };

	gather_copy(r->g, describe, sizeof(describe));
	return enter_inserted(r, PGC_DESCRIBE, kind, NULL, NULL, false);
}

bool request_describe(const struct prepared_request *r, struct prepared_name *n,
		      struct statement *st, bool is_internal)
{
	request_insert(r, PGC_DESCRIBE, st->end, st->end_size, 0);
	entry_find(r->ps, st)->describing = true;
	return enter_inserted(r, PGC_DESCRIBE, OP_DESCRIBE, n, st, is_internal);
}

void request_move_back(const struct prepared_request *r, struct prepared_name *n)
{
	const struct statements *all = request_world(r)->statements;

	if (n->in_flight > 0 || n->sent->changed ||
	    !statement_is_for(all, n->original, r->c->params))
		return;
	if (n->sent->is_private ? request_is_private(r)
				: statement_is_for(all, n->sent, r->c->params))
		return;
	name_move(request_world(r), r->pc, n, n->original);
}

struct statement *request_statement(const struct prepared_request *r, struct prepared_name *n)
{
	struct statements *all = request_world(r)->statements;
	struct statement *st;
	uint64_t place;
	bool is_private;

	if (n->original)
		request_move_back(r, n);
	st = n->sent;
	if (entry_is_usable(entry_find(r->ps, st)) || st->changed)
		return statement_hold(st);
	is_private = request_is_private(r);
	place = request_place(r);
	/* st is the statement that the next Parse of the text finds, too */
	if (!is_private && st->known && st->place == place &&
	    statement_is_for(all, st, r->c->params))
		return statement_hold(st);
	st = statement_take(all, place, r->c->params, st->body, st->size, is_private);
	if (st && st != n->sent)
		name_move(request_world(r), r->pc, n, st);
	return st;
}

/* ---- SQL: the messages before the text ---- */

static void set_end(struct prepared_sql_name *n, const char *end)
{
	n->end_size = (uint8_t)(snprintf(n->end, sizeof(n->end), "%s", end) + 1);
}

/* Prepares an empty statement for DEALLOCATE; a text can need several. */
static bool prepare_empty(const struct prepared_request *r, struct prepared_sql_name *n,
			  unsigned number, bool is_internal)
{
	char end[STATEMENT_END_MOST];

	snprintf(end, sizeof(end), STATEMENT_GONE "%u", number);
	set_end(n, end);
	request_insert(r, PGC_CLOSE, n->end, n->end_size, 0);
	request_insert(r, PGC_PARSE, n->end, n->end_size, sizeof(empty_body));
	gather_copy(r->g, empty_body, sizeof(empty_body));
	return enter_inserted(r, PGC_CLOSE, OP_BEFORE_SQL, NULL, NULL, is_internal) &&
	       enter_inserted(r, PGC_PARSE, OP_BEFORE_SQL, NULL, NULL, is_internal);
}

/* Parses the statement unless the server has it (`is_there`), and describes it. */
static bool parse_and_describe(const struct prepared_request *r, struct prepared_name *n,
			       struct statement *st, bool is_there, bool is_internal)
{
	if (!is_there && !request_parse(r, OP_REPARSE, n, st, NULL))
		return false;
	if (!is_there)
		op_at(r->ps, r->ps->op_count - 1)->is_internal = is_internal;
	return st->varies || request_describe(r, n, st, is_internal);
}

/* Prepares the statement for EXECUTE, which must fail if the types differ from the types that the
   client received. */
static bool prepare_named(const struct prepared_request *r, struct prepared_sql_name *n,
			  bool is_internal)
{
	struct statement *st = request_statement(r, n->name);
	uint64_t types;
	struct prepared_entry *e;
	bool is_there, done = true;

	if (!st)
		return false;
	types = n->name->types;
	r->pc->deallocates |= st->deallocates;
	set_end(n, st->end);
	e = entry_find(r->ps, st);
	/* nothing was executed since describe_missing() sent a Parse */
	is_there = !st->reads_values && (entry_is_usable(e) || (e && e->sent && r->pc->sql_waits));
	if (is_there && e->types != 0)
		n->types_differ = st->changed || (types && e->types != types);
	else
		n->types_differ = st->changed || (types && r->pc->sql_waits);
	if (n->types_differ)
		set_end(n, STATEMENT_NOWHERE);
	else if (is_there)
		entry_used(r->ps, e);
	else
		done = parse_and_describe(r, n->name, st, false, is_internal);
	statement_drop(request_world(r)->statements, &st);
	return done;
}

/* Before a Query the messages end with a Sync. Before a Parse the client sends the Sync, so they
   end with a Flush if the request waits for their answers. */
static bool end_inserted(const struct prepared_request *r, bool is_query)
{
	gather_copy(r->g, is_query ? sync_message : rewrite_flush, PG_HEADER);
	if (!is_query)
		return true;
	if (!enter_inserted(r, PGC_SYNC, OP_BEFORE_SQL, NULL, NULL, true))
		return false;
	server_sync_sent(r->s);
	return true;
}

/* Statements for EXECUTE that the server lacks, or that have unknown types there, are parsed and
   described first, because an execution with other types cannot be undone. Example: EXECUTE
   insert_row(1) after the column has become text. This is tried once. VERDICT_PASS: the server has
   all statements, or the attempt was made. */
static enum verdict describe_missing(const struct prepared_request *r, struct prepared_sql *sql,
				     bool is_query)
{
	bool some = false;

	for (uint32_t i = 0; i < sql->count && !r->pc->sql_waits; i++) {
		struct prepared_sql_name *n = &sql->names[i];
		const struct prepared_entry *e;
		struct statement *st;
		bool done = true;

		if (!n->name || n->drops || !n->name->types)
			continue;
		st = request_statement(r, n->name);
		if (!st)
			return VERDICT_NO_MEMORY;
		e = entry_find(r->ps, st);
		if (!st->changed && !st->varies && !(entry_is_usable(e) && e->types != 0)) {
			some = true;
			done = parse_and_describe(r, n->name, st, entry_is_usable(e), is_query);
		}
		statement_drop(request_world(r)->statements, &st);
		if (!done)
			return VERDICT_NO_MEMORY;
	}
	if (!some)
		return VERDICT_PASS;
	r->pc->sql_waits = true;
	return end_inserted(r, is_query) ? VERDICT_WAIT : VERDICT_NO_MEMORY;
}

/* Whether a DEALLOCATE earlier in the same text has dropped the name. */
static bool is_dropped(const struct prepared_sql *sql, const struct prepared_name *n)
{
	for (uint32_t i = 0; i < sql->count; i++)
		if (sql->names[i].drops && sql->names[i].name == n)
			return true;
	return false;
}

/* Whether the SQL contains a name of pgweir's for a statement of the server. */
static bool is_name_of_server(const struct prepared_request *r, const struct sql_name *name)
{
	return name->text_size > STATEMENT_HEAD &&
	       memcmp(name->text, r->ps->names.head, STATEMENT_HEAD) == 0;
}

/* Makes the record of the text; client->names_sql says whether some of the names are to be
   replaced. NULL: no memory. */
static struct prepared_sql *record_new(const struct prepared_request *r,
				       const struct sql_plan *plan)
{
	struct prepared_sql *sql = mem_try(sizeof(*sql) + plan->count * sizeof(sql->names[0]));

	if (!sql)
		return NULL;
	sql_record_free(request_world(r), r->pc);
	r->pc->sql = sql;
	sql->server = r->s->peer.id;
	sql->batch = r->s->batch;
	r->c->names_sql = false;
	for (unsigned i = 0; i < plan->count; i++) {
		struct prepared_name *n = name_find(r->pc, plan->names[i].text,
						    plan->names[i].text_size);

		if (n && n->sent && r->s->status != 'E' && !is_dropped(sql, n)) {
			sql->names[i].name = n;
			n->refs++;
			r->c->names_sql = true;
		}
		sql->names[i].drops = plan->names[i].drops;
		if (!n && r->s->status != 'E' && plan->names[i].drops &&
		    is_name_of_server(r, &plan->names[i])) {
			set_end(&sql->names[i], STATEMENT_NOWHERE);
			r->c->names_sql = true;
		}
		sql->count = i + 1;
	}
	return sql;
}

enum verdict sql_plan(const struct prepared_request *r, struct sql_plan *plan, const uint8_t *text,
		      size_t size, bool is_query)
{
	enum verdict verdict;
	struct prepared_sql *sql;
	bool done = true;

	plan->filled = (struct bytes)BYTES_EMPTY;
	plan->count = statement_sql_read(text, size, plan->names);
	if (plan->count == 0)
		return VERDICT_MORE;
	if (ledger_depth(&r->s->ledger) > 0)
		return request_wait(r);
	sql = record_new(r, plan);
	if (!sql)
		return VERDICT_NO_MEMORY;
	if (!r->c->names_sql)
		return VERDICT_MORE;
	verdict = describe_missing(r, sql, is_query);
	if (verdict != VERDICT_PASS)
		return verdict;
	for (uint32_t i = 0; i < sql->count && done; i++) {
		struct prepared_sql_name *n = &sql->names[i];

		if (n->name)
			done = n->drops ? prepare_empty(r, n, i, is_query)
					: prepare_named(r, n, is_query);
	}
	r->pc->sql_waits = false;
	return done && (!is_query || end_inserted(r, true)) ? VERDICT_PASS : VERDICT_NO_MEMORY;
}

/* ---- SQL: the text ---- */

/* Returns by how many bytes the server's names are longer; 0 without a plan. */
static size_t sql_growth(const struct prepared_request *r, const struct sql_plan *plan)
{
	const struct prepared_sql *sql = r->pc->sql;
	size_t growth = 0;

	for (unsigned i = 0; plan && i < plan->count; i++)
		if (sql->names[i].end[0])
			growth += QUOTES + STATEMENT_HEAD + sql->names[i].end_size - 1u -
				  plan->names[i].size;
	return growth;
}

static void sql_add(const struct prepared_request *r, const struct sql_plan *plan,
		    const uint8_t *text, size_t size)
{
	const struct prepared_sql *sql = r->pc->sql;
	size_t at = 0;

	for (unsigned i = 0; plan && i < plan->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];
		char name[1 + STATEMENT_NAME_MOST];

		if (!n->end[0])
			continue;
		gather_add(r->g, text + at, plan->names[i].at - at);
		name[0] = '"';
		/* the quote replaces the NUL */
		name[statement_name(name + 1, &r->ps->names, n->end, n->end_size)] = '"';
		gather_copy(r->g, name, QUOTES + STATEMENT_HEAD + n->end_size - 1u);
		at = plan->names[i].at + plan->names[i].size;
	}
	gather_add(r->g, text + at, size - at);
}

void sql_write(const struct prepared_request *r, uint8_t type, const struct sql_plan *plan,
	       const uint8_t *body, size_t size)
{
	size_t name_size = type == PGC_PARSE;
	uint8_t *head = gather_place(r->g, PG_HEADER + name_size);

	message_header(head, type, name_size + size + sql_growth(r, plan));
	if (name_size > 0)
		head[PG_HEADER] = 0;
	sql_add(r, plan, body, size);
}
