/*
 * Prepared statements of the protocol that SQL names: DEALLOCATE name, EXECUTE name(...).
 *
 * The server knows a client's statement by another name, so the name in the text is replaced:
 *
 *  - after EXECUTE by the server's name of the statement, which is parsed first;
 *  - after DEALLOCATE by the name of an empty statement, which is parsed first. The server answers as to any
 *    DEALLOCATE (25P02 in a failed transaction), and keeps the statement for other clients. With the tag DEALLOCATE the client's name is gone.
 *
 * Ahead of a Query these Parse messages end with an additional Sync, because an error of one of them would make the server skip the Query. Such an
 * error is dropped: then the Query fails. In the extended protocol such an error is relayed, and the client's Sync follows.
 *
 * Such a text is sent when all before it is answered: then it is known what the names stand for, and whether the transaction has failed (the
 * text goes as it is). What the names stand for may have changed when the text of a Parse is used later: so it is parsed again ahead of a Bind,
 * unless it is the last such text that was sent, in the same batch.
 *
 * Invariant: the client's record (struct prepared_sql) is of the last text with names that was sent.
 */
#include "prepared/prepared_sending.h"

#include "base/mem.h"
#include "pg/build.h"

#include <stdio.h>
#include <string.h>

/* ---- what is sent ahead ---- */

static bool ahead(const struct sending *x, uint8_t type, bool alone)
{
	if (!op_push(x->has, OP_AHEAD, NULL, NULL))
		return false;
	op_at(x->has, x->has->op_count - 1)->alone = alone;
	return ledger_sent_marked(&x->s->ledger, type, PG_OF_STATEMENT, OWED_TO_POOLER, MARK_PREPARED);
}

static void set_end(struct prepared_sql_name *n, const char *end)
{
	n->end_size = (uint8_t)(snprintf(n->end, sizeof(n->end), "%s", end) + 1);
}

/* DEALLOCATE shall find an empty statement, of which there may be several for one text. */
static bool give_empty(const struct sending *x, struct prepared_sql_name *n, unsigned number, bool alone)
{
	static const uint8_t nothing[] = { 0, 0, 0 };
	char end[STATEMENT_END_MOST];

	snprintf(end, sizeof(end), STATEMENT_GONE "%u", number);
	set_end(n, end);
	sending_head(x, PGC_CLOSE, n->end, n->end_size, 0);
	sending_head(x, PGC_PARSE, n->end, n->end_size, sizeof(nothing));
	gather_copy(x->g, nothing, sizeof(nothing));
	return ahead(x, PGC_CLOSE, alone) && ahead(x, PGC_PARSE, alone);
}

/* The statement is on the server, and has the types that the client was told; or it is not known what these are. */
static bool is_as_told(const struct prepared_name *n, const struct prepared_entry *e)
{
	return n->told == 0 || e->types == 0 || e->types == n->told;
}

static bool replay(const struct sending *x, struct prepared_name *n, struct statement *st, bool alone)
{
	if (!sending_replay(x, n, st, NULL))
		return false;
	op_at(x->has, x->has->op_count - 1)->alone = alone;
	return st->names_others || sending_describe(x, n, st, alone);
}

/* EXECUTE shall find the statement. It fails where the statement has other types than the client was told. */
static bool give(const struct sending *x, struct prepared_sql_name *n, bool alone)
{
	struct statement *st = named_statement(x, n->name);
	struct prepared_entry *e;
	bool given = true;

	if (!st)
		return false;
	x->mine->deallocates |= st->deallocates;
	set_end(n, st->end);
	e = entry_find(x->has, st);
	n->differs = st->changed || (entry_is_there(e) ? !is_as_told(n->name, e) : n->name->told && x->mine->sql_waits);
	if (n->differs) {
		set_end(n, STATEMENT_NOWHERE);
	} else if (entry_is_there(e)) {
		entry_used(x->has, e);
	} else {
		given = replay(x, n->name, st, alone);
	}
	statement_drop(sending_world(x)->statements, &st);
	return given;
}

static bool give_all(const struct sending *x, struct prepared_sql *sql, bool alone)
{
	for (uint32_t i = 0; i < sql->count; i++) {
		struct prepared_sql_name *n = &sql->names[i];

		if (!n->name)
			continue;
		if (!(n->drops ? give_empty(x, n, i, alone) : give(x, n, alone)))
			return false;
	}
	return true;
}

/* Ahead of a Query these messages end with a Sync; a Parse has the client's Sync behind it, and the answers are asked for. */
static bool end_ahead(const struct sending *x, bool alone)
{
	static const uint8_t sync[PG_HEADER] = { PGC_SYNC, 0, 0, 0, 4 }, flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	gather_copy(x->g, alone ? sync : flush, PG_HEADER);
	if (!alone)
		return true;
	if (!ahead(x, PGC_SYNC, true))
		return false;
	x->s->batch++;
	return true;
}

/* Of the statements that EXECUTE names some are not on the server: they are parsed and described before, once, because an execution with
   other types cannot be undone. PREPARED_PASS: all are there, or were not to be had. */
static enum prepared_verdict describe_all(const struct sending *x, struct prepared_sql *sql, bool alone)
{
	bool some = false;

	for (uint32_t i = 0; i < sql->count && !x->mine->sql_waits; i++) {
		struct prepared_sql_name *n = &sql->names[i];
		struct statement *st;
		bool given = true;

		if (!n->name || n->drops || !n->name->told)
			continue;
		st = named_statement(x, n->name);
		if (!st)
			return PREPARED_NO_MEMORY;
		if (!st->changed && !st->names_others && !entry_is_there(entry_find(x->has, st))) {
			some = true;
			given = replay(x, n->name, st, alone);
		}
		statement_drop(sending_world(x)->statements, &st);
		if (!given)
			return PREPARED_NO_MEMORY;
	}
	if (!some)
		return PREPARED_PASS;
	x->mine->sql_waits = true;
	return end_ahead(x, alone) ? PREPARED_WAIT : PREPARED_NO_MEMORY;
}

/* ---- the record ---- */

/* The text has taken this name away before. */
static bool is_dropped(const struct prepared_sql *sql, const struct prepared_name *n)
{
	for (uint32_t i = 0; i < sql->count; i++)
		if (sql->names[i].drops && sql->names[i].name == n)
			return true;
	return false;
}

/* True: some of the names are the client's. */
static bool find_names(const struct sending *x, const struct sql_plan *plan, struct prepared_sql *sql)
{
	bool some = false;

	for (unsigned i = 0; i < plan->count; i++) {
		const struct sql_name *named = &plan->names[i];
		struct prepared_name *n = name_find(x->mine, named->text, named->text_size);

		if (n && n->sent && x->s->status != 'E' && !is_dropped(sql, n)) {
			sql->names[i].name = n;
			n->refs++;
			some = true;
		}
		sql->names[i].drops = named->drops;
		sql->count = i + 1;
	}
	return some;
}

static struct prepared_sql *record(const struct sending *x, const struct sql_plan *plan)
{
	struct prepared_sql *sql = mem_try(sizeof(*sql) + plan->count * sizeof(sql->names[0]));

	if (!sql)
		return NULL;
	sql_forget(sending_world(x), x->mine);
	x->mine->sql = sql;
	sql->server = x->s->peer.id;
	sql->batch = x->s->batch;
	return sql;
}

enum prepared_verdict sql_plan(const struct sending *x, struct sql_plan *plan, const uint8_t *text, size_t size, bool alone)
{
	enum prepared_verdict verdict;
	struct prepared_sql *sql;
	bool given;

	plan->count = statement_sql_read(text, size, plan->names);
	if (plan->count == 0)
		return PREPARED_MORE;
	if (ledger_depth(&x->s->ledger) > 0)
		return sending_wait_for_answers(x);
	sql = record(x, plan);
	if (!sql)
		return PREPARED_NO_MEMORY;
	x->c->names_sql = find_names(x, plan, sql);
	if (!x->c->names_sql)
		return PREPARED_MORE;
	verdict = describe_all(x, sql, alone);
	if (verdict != PREPARED_PASS)
		return verdict;
	given = give_all(x, sql, alone);
	x->mine->sql_waits = false;
	return given ? PREPARED_PASS : PREPARED_NO_MEMORY;
}

bool sql_is_ready(const struct sending *x, uint64_t statement)
{
	const struct prepared_sql *sql = x->mine->sql;

	if (!sql || sql->server != x->s->peer.id || sql->batch != x->s->batch || sql->statement != statement || sql->dropped > 0)
		return false;
	for (uint32_t i = 0; i < sql->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];

		if (n->name && (!n->name->sent || (!n->drops && strcmp(n->name->sent->end, n->end) != 0)))
			return false;
	}
	return true;
}

/* ---- the text ---- */

#define QUOTES 2

size_t sql_growth(const struct sending *x, const struct sql_plan *plan)
{
	const struct prepared_sql *sql = x->mine->sql;
	size_t growth = 0;

	for (unsigned i = 0; i < plan->count; i++)
		if (sql->names[i].name)
			growth += QUOTES + STATEMENT_HEAD + sql->names[i].end_size - 1u - plan->names[i].size;
	return growth;
}

void sql_add(const struct sending *x, const struct sql_plan *plan, const uint8_t *text, size_t size)
{
	const struct prepared_sql *sql = x->mine->sql;
	size_t at = 0;

	for (unsigned i = 0; i < plan->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];
		char name[1 + STATEMENT_NAME_MOST];

		if (!n->name)
			continue;
		gather_add(x->g, text + at, plan->names[i].at - at);
		name[0] = '"';
		/* the quote stands in place of the NUL */
		name[statement_name(name + 1, &x->has->names, n->end, n->end_size)] = '"';
		gather_copy(x->g, name, QUOTES + STATEMENT_HEAD + n->end_size - 1u);
		at = plan->names[i].at + plan->names[i].size;
	}
	gather_add(x->g, text + at, size - at);
}

/* ---- a Query ---- */

enum prepared_verdict prepared_send_sql(struct client *c, struct server *s, const struct pg_frame *f, struct gather *g)
{
	struct sending x = { c, s, f, g, NULL, c->prepared, prepared_server_of(s) };
	enum prepared_verdict verdict = PREPARED_MORE;
	struct sql_plan plan;
	uint8_t *head;

	if (!x.has)
		return PREPARED_NO_MEMORY;
	g->to = &s->peer.stream;
	/* behind messages without a Sync none can be sent that the client does not know of */
	if (pg_frame_is_whole(f) && ledger_enters(&s->ledger) && !ledger_may_surprise(&s->ledger) && !s->ledger.open)
		verdict = sql_plan(&x, &plan, f->body, f->size, true);
	if (verdict == PREPARED_PASS) {
		if (!end_ahead(&x, true))
			return PREPARED_NO_MEMORY;
		head = gather_place(g, PG_HEADER);
		sending_write_header(head, PGC_QUERY, f->size + sql_growth(&x, &plan));
		sql_add(&x, &plan, f->body, f->size);
	} else if (verdict != PREPARED_MORE) {
		return verdict;
	}
	c->prepared->deallocates |= deallocate_is_mentioned(f->body, f->here);
	if (!prepared_send_query(c, s))
		return PREPARED_NO_MEMORY;
	return verdict == PREPARED_PASS ? PREPARED_SWALLOW : PREPARED_PASS;
}

/* ---- answers ---- */

void prepared_one_gone(struct server *s, struct client *c)
{
	struct prepared_sql *sql = c && c->prepared ? c->prepared->sql : NULL;
	struct prepared_name *n;

	if (!sql || sql->server != s->peer.id)
		return;
	while (sql->dropped < sql->count && !sql->names[sql->dropped].drops)
		sql->dropped++;
	if (sql->dropped == sql->count)
		return;
	n = sql->names[sql->dropped++].name;
	if (n)
		name_forgotten(c->peer.world, c->prepared, n);
}

/* The client's name of what has this end on the server; NULL: none. */
static const struct prepared_sql_name *with_end(const struct prepared_sql *sql, const char *end)
{
	for (uint32_t i = 0; i < sql->count; i++) {
		const struct prepared_sql_name *n = &sql->names[i];
		size_t size = n->end_size - 1u;

		if (n->name && strncmp(end, n->end, size) == 0 && end[size] == '"')
			return n;
	}
	return NULL;
}

/* Appends a text with the client's names in place of the server's. */
static void append_told(struct bytes *out, const struct prepared_sql *sql, const char *head, const char *text)
{
	const char *found;

	while ((found = strstr(text, head)) != NULL) {
		const struct prepared_sql_name *n = with_end(sql, found + STATEMENT_HEAD);

		bytes_append(out, text, (size_t)(found - text) + (n ? 0 : STATEMENT_HEAD));
		if (n)
			bytes_append_text(out, n->name->text);
		text = found + STATEMENT_HEAD + (n ? n->end_size - 1u : 0);
	}
	bytes_append_string(out, text);
}

/* The error says that a statement is missing which has other types than the client was told: the name that no statement has. */
static bool names_what_differs(const struct prepared_sql *sql, const char *head, const struct pg_frame *f)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	char nowhere[STATEMENT_NAME_MOST + QUOTES];
	uint8_t field;

	snprintf(nowhere, sizeof(nowhere), "\"%s" STATEMENT_NOWHERE "\"", head);
	for (uint32_t i = 0; i < sql->count; i++)
		if (sql->names[i].name && sql->names[i].differs)
			while ((field = pg_read_u8(&body)) != 0)
				if (strstr(pg_read_string(&body), nowhere))
					return true;
	return false;
}

enum prepared_answer prepared_sql_failed(struct server *s, struct client *c, const struct pg_frame *f)
{
	const struct prepared_sql *sql = c->prepared ? c->prepared->sql : NULL;
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	struct bytes out = BYTES_EMPTY;
	char head[STATEMENT_HEAD + 1];
	bool failed;
	size_t mark;
	uint8_t field;

	if (!sql || !s->prepared || sql->server != s->peer.id || !pg_frame_is_whole(f))
		return PREPARED_RELAY;
	snprintf(head, sizeof(head), "%.*s", STATEMENT_HEAD, s->prepared->names.head);
	if (names_what_differs(sql, head, f)) {
		error_build_changed(&out);
	} else {
		mark = pg_begin(&out, PGS_ERROR);
		while ((field = pg_read_u8(&body)) != 0) {
			bytes_append_u8(&out, field);
			append_told(&out, sql, head, pg_read_string(&body));
		}
		bytes_append_u8(&out, 0);
		pg_end(&out, mark);
	}
	failed = out.failed;
	/* as in prepared_answered */
	if (!failed)
		stream_write_bytes(&c->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	return failed ? PREPARED_BROKEN : PREPARED_TOLD;
}
