/*
 * Prepared statements: what the answers mean (prepared.c has the way there, prepared_tables.c the tables).
 *
 * The ledger says of every message with MARK_PREPARED, in order, whether it was done, has failed, or was skipped; the journal says what it
 * was. What was done is certain now; of what failed or was skipped nothing is left.
 *
 * An error that names a statement names it as the server knows it: the client is told its own name. Two errors say more than
 * that. "cached plan must not change result type" comes when a table was altered: the statement is retired. And a statement that
 * the server should have and does not (a function has deallocated it) says that nothing is known about this server's set any
 * more: it is closed when its client is through.
 *
 * DEALLOCATE ALL and DISCARD ALL, recognized by the tag of CommandComplete, take away what is certain at this place in the order of
 * answers; what was prepared behind them in the same pipeline is still in doubt then, and stays.
 */
#include "prepared/prepared.h"

#include "state/session_functions.h"
#include "base/assert.h"
#include "conn/world.h"
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/prepared_tables.h"

#include <stdio.h>
#include <string.h>

/* ---- the unnamed statement ---- */

/* What is there now is of the client's making. */
static void unnamed_is_sure(struct prepared_server *has)
{
	has->unnamed_in_flight--;
	has->unnamed_sure = true;
}

static void unnamed_was_skipped(struct server *s)
{
	struct prepared_server *has = s->prepared;

	if (--has->unnamed_in_flight == 0 && !has->unnamed_sure)
		s->unnamed_of = 0;
}

/* ---- done, and not done ---- */

static bool changes_name(const struct prepared_op *op)
{
	return op->name && (op->what == OP_PARSE || op->what == OP_KNOWN || op->what == OP_CLOSE);
}

/* Of the unnamed statement: it is this client's if its types are those that the client was told. */
static void end_describe_unnamed(struct server *s, struct client *c)
{
	s->prepared->unnamed_described = false;
	if (!c)
		return;
	c->prepared->meaning.differs = s->prepared->types != c->prepared->meaning.told;
	s->unnamed_of = c->prepared->meaning.differs ? 0 : c->peer.id;
}

static void end_describe(struct server *s, const struct prepared_op *op)
{
	struct prepared_entry *e = op->statement ? entry_find(s->prepared, op->statement) : NULL;

	if (e)
		e->described = false;
	if (!op->statement)
		s->prepared->unnamed_described = false;
}

/* The types of what a client's message was about. By now the name may have been closed and given to another text. */
static void note_told(const struct prepared_op *op, uint64_t types)
{
	if (op->name && op->name->sent == op->statement && !op->name->told)
		op->name->told = types;
	if (op->name && op->name->certain == op->statement && !op->name->certain_told)
		op->name->certain_told = types;
}

static void done(struct server *s, struct client *c, const struct prepared_op *op)
{
	struct world *w = s->peer.world;

	switch ((enum prepared_what)op->what) {
	case OP_PARSE:
	case OP_REPLAY:
		entry_done(w, s->prepared, op->statement, true);
		entry_was_read(s->prepared, entry_find(s->prepared, op->statement), (enum reading)op->reading);
		break;
	case OP_EVICT:
		entry_done(w, s->prepared, op->statement, false);
		break;
	case OP_UNNAMED:
		unnamed_is_sure(s->prepared);
		if (c)
			unnamed_done(c->prepared, op);
		break;
	case OP_UNNAMED_REPLAY:
		unnamed_is_sure(s->prepared);
		break;
	case OP_UNNAMED_QUERY:
		if (c)
			unnamed_done(c->prepared, op);
		break;
	case OP_DESCRIBE:
		end_describe(s, op);
		if (!op->statement)
			end_describe_unnamed(s, c);
		break;
	case OP_KNOWN:
	case OP_CLOSE:
	case OP_USE:
	case OP_AGAIN:
	case OP_AHEAD:
	case OP_CHANGED:
	case OP_TOO_LONG:
		break;
	}
	if (c && changes_name(op))
		name_done(w, c->prepared, op->name, op->statement);
	/* what the server had, it has described before */
	if (c && op->what == OP_KNOWN && entry_find(s->prepared, op->statement))
		note_told(op, entry_find(s->prepared, op->statement)->types);
}

static void undone(struct server *s, struct client *c, const struct prepared_op *op)
{
	struct world *w = s->peer.world;

	switch ((enum prepared_what)op->what) {
	case OP_PARSE:
	case OP_REPLAY:
	case OP_EVICT:
		entry_undone(w, s->prepared, op->statement);
		break;
	case OP_UNNAMED:
		unnamed_was_skipped(s);
		if (c)
			unnamed_undone(c->prepared);
		break;
	case OP_UNNAMED_REPLAY:
		unnamed_was_skipped(s);
		break;
	case OP_UNNAMED_QUERY:
		if (c)
			unnamed_undone(c->prepared);
		break;
	case OP_DESCRIBE:
		end_describe(s, op);
		break;
	case OP_KNOWN:
	case OP_CLOSE:
	case OP_USE:
	case OP_AGAIN:
	case OP_AHEAD:
	case OP_CHANGED:
	case OP_TOO_LONG:
		break;
	}
	if (c && changes_name(op))
		name_undone(w, c->prepared, op->name);
}

/* A Parse without a name ends the statement that was there before, and then it may fail. But one that fails because the message
   makes no sense (a text that is not of the client's encoding) ends nothing: what is there may still be another client's, and what
   this client had only the server knows, where it had it. */
static void failed(struct server *s, struct client *c, const struct prepared_op *op)
{
	if (op->what == OP_UNNAMED && c)
		c->prepared->certain_kept = false;
	else if (op->what == OP_UNNAMED_REPLAY)
		s->unnamed_of = 0;
}

/* It is not known whether it was done, and the client may have heard so: then neither what it leaves nor what was before is what the
   client means. */
static void forget(struct client *c, const struct prepared_op *op)
{
	if (op_changes_unnamed(op))
		unnamed_forgotten(c->prepared);
	if (changes_name(op))
		name_forgotten(c->peer.world, c->prepared, op->name);
}

/* The `count` oldest of the journal were skipped, or, when the account is lost, have been done or not. */
static void skip(struct server *s, struct client *c, uint32_t count)
{
	ASSERT(count <= s->prepared->op_count);
	while (count-- > 0) {
		struct prepared_op op = op_take(s->prepared);

		if (c && s->ledger.lost)
			forget(c, &op);
		undone(s, c, &op);
		op_release(s->peer.world, &op);
	}
}

/* ---- errors ---- */

/* Appends a text with every `"from"` in it made `"to"`. */
static void append_renamed(struct bytes *out, const char *text, const char *from, const char *to)
{
	char quoted[64];
	const char *found;

	snprintf(quoted, sizeof(quoted), "\"%s\"", from);
	while ((found = strstr(text, quoted)) != NULL) {
		bytes_append(out, text, (size_t)(found - text) + 1);
		bytes_append_text(out, to);
		text = found + strlen(quoted) - 1;
	}
	bytes_append_string(out, text);
}

/* The error as it is, but for the statement's name. */
static void build_renamed(struct bytes *out, const struct pg_frame *f, const char *from, const char *to)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	size_t mark = pg_begin(out, PGS_ERROR);
	uint8_t field;

	while ((field = pg_read_u8(&body)) != 0) {
		const char *text = pg_read_string(&body);

		bytes_append_u8(out, field);
		if (field == 'M')
			append_renamed(out, text, from, to);
		else
			bytes_append_string(out, text);
	}
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

/* As PostgreSQL says it, with the routine, by which drivers know what to do about it. */
void error_build_changed(struct bytes *out)
{
	static const char *const fields[] = {
		"SERROR", "VERROR", "C0A000", "Mcached plan must not change result type", "Fplancache.c", "RRevalidateCachedQuery",
	};
	size_t mark = pg_begin(out, PGS_ERROR);

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		bytes_append_string(out, fields[i]);
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

static void build_too_long(struct bytes *out)
{
	pg_build_error(out, "ERROR", "42622", "name of a prepared statement or portal is too long", NULL,
		       "PostgreSQL cuts names after 63 bytes.");
}

/* The field's text; NULL: there is none. */
static const char *field_of(const struct pg_frame *f, char field)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	uint8_t found;

	while ((found = pg_read_u8(&body)) != 0) {
		const char *text = pg_read_string(&body);

		if (found == (uint8_t)field)
			return text;
	}
	return NULL;
}

static bool has_field(const struct pg_frame *f, char field, const char *value)
{
	const char *text = field_of(f, field);

	return text && strcmp(text, value) == 0;
}

static bool field_begins(const struct pg_frame *f, char field, const char *value)
{
	const char *text = field_of(f, field);

	return text && strncmp(text, value, strlen(value)) == 0;
}

/* The text means something else by now, or nothing. Messages of internal errors (XX000) are not translated: "cache lookup failed for type 16400",
   after a type that was dropped. */
static bool is_stale(const struct pg_frame *f)
{
	if (has_field(f, 'C', "0A000"))
		return has_field(f, 'R', "RevalidateCachedQuery") || has_field(f, 'M', "cached plan must not change result type");
	return has_field(f, 'C', "XX000") && field_begins(f, 'M', "cache lookup failed for ");
}

static void look_at_use(struct server *s, const struct pg_frame *f, struct statement *st)
{
	const struct prepared_entry *e = entry_find(s->prepared, st);

	/* the text may be translated */
	if (is_stale(f))
		statement_retire(s->peer.world->statements, st);
	else if (has_field(f, 'C', "26000") && e && e->certain)
		s->pooled.close_reason = REASON_STATEMENTS_UNKNOWN;
}

/* Under which name the message of `op` went to the server. */
static void name_on(const struct prepared_server *has, const struct prepared_op *op, char name[STATEMENT_NAME_MOST])
{
	const char *end = op->statement ? op->statement->end : op->what == OP_AGAIN ? STATEMENT_AGAIN : STATEMENT_NOWHERE;

	statement_name(name, &has->names, end, strlen(end) + 1);
}

/* What the client is told in place of this error. False: nothing else. */
static bool build_error(struct bytes *out, struct server *s, const struct pg_frame *f, const struct prepared_op *op)
{
	bool is_unknown = has_field(f, 'C', "26000");
	struct statement *st = op->statement;
	char name[STATEMENT_NAME_MOST];

	if (op->what == OP_TOO_LONG && is_unknown) {
		build_too_long(out);
		return true;
	}
	if (is_unknown && (op->what == OP_CHANGED || (op->what == OP_USE && st && st->changed))) {
		error_build_changed(out);
		return true;
	}
	if (!op->name)
		return false;
	if (op->what == OP_USE && st)
		look_at_use(s, f, st);
	name_on(s->prepared, op, name);
	build_renamed(out, f, name, op->name->text);
	return true;
}

/* The error of a message that carried a name of the pooler's. */
static enum prepared_answer tell_error(struct server *s, struct client *c, const struct pg_frame *f, const struct prepared_op *op)
{
	struct bytes out = BYTES_EMPTY;
	bool failed;

	if (!c || !pg_frame_is_whole(f) || !build_error(&out, s, f, op))
		return PREPARED_RELAY;
	failed = out.failed;
	/* a client that does not take it is noticed with the next thing written */
	if (!failed)
		stream_write_bytes(&c->peer.stream, out.data, bytes_size(&out));
	bytes_free(&out);
	return failed ? PREPARED_BROKEN : PREPARED_TOLD;
}

/* ---- answers ---- */

enum prepared_answer prepared_answered(struct server *s, struct client *c, const struct pg_frame *f)
{
	uint32_t skipped = s->ledger.marks_skipped[MARK_PREPARED];
	enum prepared_answer answer = PREPARED_NORMAL;

	if (!s->prepared || !s->prepared->op_count)
		return PREPARED_BROKEN;
	if (s->ledger.mark == MARK_PREPARED) {
		struct prepared_op op = op_take(s->prepared);

		if (!s->ledger.mark_failed) {
			done(s, c, &op);
			if (op.what == OP_AGAIN || op.what == OP_CHANGED || op.what == OP_TOO_LONG)
				answer = PREPARED_BROKEN;
		} else {
			failed(s, c, &op);
			undone(s, c, &op);
			if (c && !op.alone) {
				c->prepared->sql_waits = false;
				c->prepared->awaited = 0;
			}
			answer = op.alone ? PREPARED_TOLD : tell_error(s, c, f, &op);
		}
		op_release(s->peer.world, &op);
	}
	if (skipped > 0)
		skip(s, c, skipped);
	s->ledger.mark = LEDGER_UNMARKED;
	return answer;
}

/* FNV-1a. Not hash_of(), whose key is another one in each process: a name keeps the hash over an online restart. */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, size_t size)
{
	while (size-- > 0)
		hash = (hash ^ *at++) * 0x100000001b3u;
	return hash;
}

/* Not 0. A column counts with its name, type and modifier, as in "cached plan must not change result type". */
static uint64_t hash_types(uint64_t hash, const struct pg_frame *f)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	uint16_t columns = f->type == PGS_ROW_DESCRIPTION ? pg_read_u16(&body) : 0;

	if (f->type == PGS_PARAMETER_TYPES)
		return hash_bytes(0xcbf29ce484222325u, f->body, f->size) | 1;
	while (columns-- > 0 && !body.bad) {
		const uint8_t *name = body.at, *type;

		pg_read_string(&body);
		hash = hash_bytes(hash, name, (size_t)(body.at - name));
		pg_read_bytes(&body, 6);		/* table and column */
		type = pg_read_bytes(&body, 10);	/* type, its size and modifier */
		if (type)
			hash = hash_bytes(hash, type, 10);
		pg_read_bytes(&body, 2);		/* format */
	}
	return hash | 1;
}

/* The client was told the types of its unnamed statement, unless it has sent another since. */
static void describe_unnamed(struct server *s, const struct prepared_op *op)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (op->what == OP_USE && !op->name && c && c->prepared && c->prepared->in_flight == 0)
		c->prepared->meaning.told = s->prepared->types;
}

void prepared_described(struct server *s, const struct pg_frame *f)
{
	struct prepared_server *has = s->prepared;
	struct prepared_op *op = has && has->op_count > 0 ? op_at(has, 0) : NULL;
	struct prepared_entry *e;

	if (!op || (op->what != OP_USE && op->what != OP_DESCRIBE))
		return;
	if (!pg_frame_is_whole(f)) {
		has->types = 0;
		return;
	}
	has->types = hash_types(has->types, f);
	if (f->type == PGS_PARAMETER_TYPES)
		return;
	if (!op->statement) {
		describe_unnamed(s, op);
		return;
	}
	e = entry_find(has, op->statement);
	if (e)
		e->types = has->types;
	note_told(op, has->types);
}

void prepared_passed(struct server *s, struct client *c)
{
	struct prepared_op op;

	ASSERT(s->prepared && s->prepared->op_count > 0);
	op = op_take(s->prepared);
	s->ledger.mark = LEDGER_UNMARKED;
	done(s, c, &op);
	op_release(s->peer.world, &op);
}

void prepared_parameters_changed(struct server *s)
{
	if (s->prepared)
		readings_differ(s->prepared);
}

/* What is under way in its batch is skipped. */
void prepared_changes_undone(struct server *s)
{
	if (s->prepared)
		readings_are(s->prepared, READING_OTHER);
}

void prepared_set_heard(struct server *s)
{
	bool is_harmless = ledger_is_within_query(&s->ledger) ? s->session.plain_set & SET_KEEPS_MEANING : !s->session.meanings_prepared;

	s->session.meaning_in_doubt |= !is_harmless || s->ledger.lost;
	if (!s->prepared)
		return;
	s->prepared->set_in = s->batch + 1;
	readings_may_differ(s->prepared);
}

void prepared_all_gone(struct server *s, struct client *c)
{
	if (s->prepared)
		entries_gone(s->peer.world, s->prepared);
	if (c && c->prepared)
		names_gone(s->peer.world, c->prepared);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Two names of one database of PostgreSQL. */
static bool lead_to_one(const struct database *a, const struct database *b)
{
	return a->conf->port == b->conf->port && is_same_text(a->conf->host, b->conf->host) &&
	       strcmp(a->conf->dbname ? a->conf->dbname : a->name, b->conf->dbname ? b->conf->dbname : b->name) == 0;
}

void prepared_meaning_changed(struct server *s)
{
	struct world *w = s->peer.world;
	struct database *altered = s->pooled.pool->database;
	uint64_t last = statements_last(w->statements);

	/* there is nothing more to renew: a server that repeats itself costs nothing */
	if (altered->meaning_changed_at == last && altered->meaning_changed == w->now)
		return;
	altered->meaning_changed_at = last;
	altered->meaning_changed = w->now;
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		if (!lead_to_one(d, altered))
			continue;
		d->statements = 0;
		session_functions_changed(d, w->now);
	}
}

void prepared_functions_changed(struct server *s)
{
	const struct database *of = s->pooled.pool->database;

	for (struct database *d = s->peer.world->pools->databases; d; d = d->hh.next)
		if (lead_to_one(d, of))
			session_functions_changed(d, s->peer.world->now);
}

size_t prepared_local_reply(struct server *s, const void **from)
{
	static const uint8_t parse_complete[PG_HEADER] = { PGS_PARSE_COMPLETE, 0, 0, 0, 4 }, close_complete[PG_HEADER] = { PGS_CLOSE_COMPLETE, 0, 0, 0, 4 };
	struct prepared_op op;

	/* behind a last word there is nothing to be said */
	if (!ledger_local_reply_is_due(&s->ledger) || s->said_fatal)
		return 0;
	ledger_local_reply_sent(&s->ledger);
	op = op_take(s->prepared);
	done(s, s->pooled.link ? client_of(s->pooled.link) : NULL, &op);
	*from = op.what == OP_KNOWN ? parse_complete : close_complete;
	op_release(s->peer.world, &op);
	return PG_HEADER;
}

/* It is not known what of it was done, and the server is given up. */
void prepared_lose(struct server *s, struct client *c)
{
	if (s->prepared)
		skip(s, c, s->prepared->op_count);
}
