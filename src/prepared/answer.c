/*
 * Answers of servers to messages about prepared statements (send.c has the messages,
 * statements.c the tables).
 *
 * For each message with MARK_PREPARED the ledger reports, in order, whether it succeeded, failed or
 * was skipped; the oldest operation of the journal is its record. Success confirms the change of
 * the message; otherwise the change is dropped.
 *
 * An error names the statement by the server's name: the client gets the error with its own name.
 * Some errors have further effects:
 *
 *	0A000 cached plan must not change result type, or	a definition changed: the statement
 *								is retired
 *	XX000 cache lookup failed
 *	26000 for a statement that the server should have	a function deallocated it: nothing
 *								is known about the server's
 *								statements any more, and it is
 *								closed when its client releases it
 *	error of OP_TYPES_DIFFER, OP_NAME_TOO_LONG		the client gets the error that
 *								explains the refusal
 *
 * DEALLOCATE ALL and DISCARD ALL, found by the tag of CommandComplete, drop the statements that are
 * confirmed at that point of the answers. Statements that were prepared later in the same pipeline
 * are still in flight, and stay.
 */
#include "prepared/prepared.h"

#include "state/session_functions.h"
#include "base/assert.h"
#include "base/inline.h"
#include "conn/world.h"
#include "pg/build.h"
#include "pg/message.h"
#include "prepared/statements.h"

#include <stdio.h>

#define QUOTES 2

/* ---- types ---- */

/* FNV-1a. The key of hash_of() differs in each process, but names keep these hashes in an online
   restart. */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, size_t size)
{
	while (size-- > 0)
		hash = (hash ^ *at++) * 0x100000001b3u;
	return hash;
}

/* Continues a hash, which is never 0. For a column it covers name, type and modifier, as PostgreSQL
   compares them for "cached plan must not change result type". */
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

/* Returns the hash of a statement without parameters and result, such as SET. */
static uint64_t hash_of_nothing(void)
{
	static const uint8_t none[2] = { 0, 0 };
	const struct pg_frame parameters = {
		.type = PGS_PARAMETER_TYPES, .size = 2, .body = none, .here = 2
	};
	const struct pg_frame result = { .type = PGS_NO_DATA, .body = none };

	return hash_types(hash_types(0, &parameters), &result);
}

/* ---- the end of an operation ---- */

static ALWAYS_INLINE void unnamed_ended(struct server *s, bool done)
{
	struct prepared_server *ps = s->prepared;

	ps->unnamed_in_flight--;
	if (done)
		ps->unnamed_confirmed = true;
	else if (ps->unnamed_in_flight == 0 && !ps->unnamed_confirmed)
		server_unnamed_to(s, 0);
}

static void describe_ended(struct server *s, struct client *c, const struct prepared_op *op,
			   bool done)
{
	struct prepared_server *ps = s->prepared;
	struct prepared_entry *e = op->statement ? entry_find(ps, op->statement) : NULL;
	struct unnamed_types *types;

	if (e)
		e->describing = false;
	if (op->statement)
		return;
	ps->unnamed_describing = false;
	if (!done || !c)
		return;
	/* The server's unnamed statement is right for the client if it has the types that the
	   client's statement had before. If those types are unknown, it is right only if the text
	   has no parameters and no result, because then no types can differ. */
	types = &c->prepared->unnamed_types;
	types->differ = ps->types != (types->hash ? types->hash : hash_of_nothing());
	if (!types->differ)
		types->hash = ps->types;
	server_unnamed_to(s, types->differ ? 0 : c->peer.id);
}

/* The client received these types with an answer. The name may have been closed, and have another
   statement, by now. */
static void types_received(const struct prepared_op *op, uint64_t types)
{
	if (op->name && op->name->sent == op->statement && !op->name->types)
		op->name->types = types;
	if (op->name && op->name->confirmed == op->statement && !op->name->confirmed_types)
		op->name->confirmed_types = types;
}

/* The operation succeeded (`done`), or failed or was skipped. */
static ALWAYS_INLINE void op_ended(struct server *s, struct client *c, const struct prepared_op *op,
				   bool done)
{
	const struct prepared_entry *e;

	/* nearly every operation */
	if (op->kind == OP_USE)
		return;
	if (op->kind == OP_UNNAMED || op->kind == OP_UNNAMED_REPARSE)
		unnamed_ended(s, done);
	else if (op->kind == OP_DESCRIBE)
		describe_ended(s, c, op, done);
	op_change_ended(s->peer.world, s->prepared, c ? c->prepared : NULL, op, done);
	if (done && c && op->kind == OP_KNOWN &&
	    (e = entry_find(s->prepared, op->statement)) != NULL)
		types_received(op, e->types);
}

/* The `count` oldest operations were skipped. If the ledger is lost, they may have succeeded, and
   the client may know: then neither the new nor the old statement is right for the client. */
static void ops_skipped(struct server *s, struct client *c, uint32_t count)
{
	ASSERT(count <= s->prepared->op_count);
	while (count-- > 0) {
		struct prepared_op op = op_take(s->prepared);

		if (c && s->ledger.lost && op_changes_unnamed(&op))
			unnamed_forget(c->prepared);
		if (c && s->ledger.lost && op_changes_name(&op))
			name_forget(c->peer.world, c->prepared, op.name);
		op_ended(s, c, &op, false);
		op_release(s->peer.world, &op);
	}
}

void prepared_lose(struct server *s, struct client *c)
{
	if (s->prepared)
		ops_skipped(s, c, s->prepared->op_count);
	if (c && c->prepared) {
		c->prepared->sql_waits = false;
		c->prepared->awaited = 0;
	}
}

/* ---- errors ---- */

/* Returns the text of this field of an error, or NULL. */
static const char *error_field(const struct pg_frame *f, char field)
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

static bool error_has(const struct pg_frame *f, char field, const char *value)
{
	const char *text = error_field(f, field);

	return text && strcmp(text, value) == 0;
}

/* Whether the error says that the text of the statement has another meaning now, or none. Example:
   "cache lookup failed for type 16400", after the type was dropped. The words can be compared
   because PostgreSQL does not translate messages of internal errors. */
static bool prepared_answer_is_stale(const struct pg_frame *f)
{
	static const char lookup_failed[] = "cache lookup failed for ";
	const char *message = error_field(f, 'M');

	if (error_has(f, 'C', "0A000"))
		return error_has(f, 'R', "RevalidateCachedQuery") ||
		       error_has(f, 'M', "cached plan must not change result type");
	return error_has(f, 'C', "XX000") && message &&
	       strncmp(message, lookup_failed, sizeof(lookup_failed) - 1) == 0;
}

/* Writes the error as PostgreSQL does, because drivers recognize it by its routine, and prepare
   again. */
static void build_types_differ(struct bytes *out)
{
	static const char *const fields[] = {
		"SERROR",	"VERROR",
		"C0A000",	"Mcached plan must not change result type",
		"Fplancache.c", "RRevalidateCachedQuery",
	};
	size_t mark = pg_begin(out, PGS_ERROR);

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		bytes_append_string(out, fields[i]);
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

/* Appends the text of a message with the client's name in place of each `"from"`. */
static void append_renamed(struct bytes *out, const char *text, const char *from, const char *to)
{
	char quoted[STATEMENT_NAME_MOST + QUOTES];
	const char *found;

	snprintf(quoted, sizeof(quoted), "\"%s\"", from);
	while ((found = strstr(text, quoted)) != NULL) {
		bytes_append(out, text, (size_t)(found - text) + 1);
		bytes_append_text(out, to);
		text = found + strlen(quoted) - 1;
	}
	bytes_append_string(out, text);
}

/* Appends the text of any field with the client's names in place of the server's names in the
   client's SQL. `head`: their common beginning. */
static void append_sql_renamed(struct bytes *out, const struct prepared_sql *sql, const char *head,
			       const char *text)
{
	const char *found;

	while ((found = strstr(text, head)) != NULL) {
		const struct prepared_sql_name *name = NULL;
		const char *end = found + STATEMENT_HEAD;

		for (uint32_t i = 0; i < sql->count && !name; i++) {
			const struct prepared_sql_name *n = &sql->names[i];

			if (n->name && strncmp(end, n->end, n->end_size - 1u) == 0 &&
			    end[n->end_size - 1] == '"')
				name = n;
		}
		bytes_append(out, text, (size_t)(found - text) + (name ? 0 : STATEMENT_HEAD));
		if (name)
			bytes_append_text(out, name->name->text);
		text = end + (name ? name->end_size - 1u : 0);
	}
	bytes_append_string(out, text);
}

/* Copies an error with new names: by `op` in its message, or, if that is NULL, by the client's SQL
   in all fields. */
static void build_renamed(struct bytes *out, const struct pg_frame *f,
			  const struct prepared_server *ps, const struct prepared_op *op,
			  const struct prepared_sql *sql)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	char name[STATEMENT_NAME_MOST], head[STATEMENT_HEAD + 1];
	size_t mark = pg_begin(out, PGS_ERROR);
	const char *end;
	uint8_t field;

	if (op) {
		end = op->statement		 ? op->statement->end
		      : op->kind == OP_DUPLICATE ? STATEMENT_AGAIN
						 : STATEMENT_NOWHERE;
		statement_name(name, &ps->names, end, strlen(end) + 1);
	}
	snprintf(head, sizeof(head), "%.*s", STATEMENT_HEAD, ps->names.head);
	while ((field = pg_read_u8(&body)) != 0) {
		const char *text = pg_read_string(&body);

		bytes_append_u8(out, field);
		if (!op)
			append_sql_renamed(out, sql, head, text);
		else if (field == 'M')
			append_renamed(out, text, name, op->name->text);
		else
			bytes_append_string(out, text);
	}
	bytes_append_u8(out, 0);
	pg_end(out, mark);
}

/* Sends the client this error in place of the error of the server, and frees it. */
static enum verdict send_error(struct client *c, struct bytes *error)
{
	bool failed = error->failed;

	/* a write error is found with the next write */
	if (!failed)
		stream_write_bytes(&c->peer.stream, error->data, bytes_size(error));
	bytes_free(error);
	return failed ? VERDICT_INVALID : VERDICT_SWALLOW;
}

/* An error of the operation: the client may get another one. */
static enum verdict op_failed(struct server *s, struct client *c, const struct pg_frame *f,
			      const struct prepared_op *op)
{
	struct statement *st = op->statement;
	struct bytes out = BYTES_EMPTY;
	const struct prepared_entry *e;
	bool is_unknown;

	if (!c || !pg_frame_is_whole(f))
		return VERDICT_PASS;
	is_unknown = error_has(f, 'C', "26000");
	if (op->kind == OP_NAME_TOO_LONG && is_unknown) {
		pg_build_report(&out, 'E', "ERROR", "42622",
				"name of a prepared statement or portal is too long", NULL,
				"PostgreSQL cuts names after 63 bytes.");
		return send_error(c, &out);
	}
	if (is_unknown &&
	    (op->kind == OP_TYPES_DIFFER || (op->kind == OP_USE && st && st->changed))) {
		build_types_differ(&out);
		return send_error(c, &out);
	}
	if (!op->name)
		return VERDICT_PASS;
	if (op->kind == OP_USE && st) {
		e = entry_find(s->prepared, st);
		if (prepared_answer_is_stale(f))
			statement_retire(s->peer.world->statements, st);
		else if (is_unknown && e && e->confirmed)
			pool_server_close_later(&s->pooled, REASON_STATEMENTS_UNKNOWN);
	}
	build_renamed(&out, f, s->prepared, op, NULL);
	return send_error(c, &out);
}

/* Whether the error is the consequence of sql_plan(): it says that a statement does not exist, and
   names the statement that sql_plan() has put in the place of a statement with other types. */
static bool is_of_types_that_differ(const struct prepared_sql *sql,
				    const struct prepared_server *ps, const struct pg_frame *f)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	char nowhere[STATEMENT_NAME_MOST + QUOTES];
	bool some = false;

	snprintf(nowhere, sizeof(nowhere), "\"%.*s" STATEMENT_NOWHERE "\"", STATEMENT_HEAD,
		 ps->names.head);
	for (uint32_t i = 0; i < sql->count; i++)
		some |= sql->names[i].name && sql->names[i].types_differ;
	while (some && pg_read_u8(&body) != 0)
		if (strstr(pg_read_string(&body), nowhere))
			return true;
	return false;
}

enum verdict prepared_sql_failed(struct server *s, struct client *c, const struct pg_frame *f)
{
	const struct prepared_sql *sql = c->prepared ? c->prepared->sql : NULL;
	struct bytes out = BYTES_EMPTY;

	if (!sql || !s->prepared || sql->server != s->peer.id || !pg_frame_is_whole(f))
		return VERDICT_PASS;
	if (is_of_types_that_differ(sql, s->prepared, f))
		build_types_differ(&out);
	else
		build_renamed(&out, f, s->prepared, NULL, sql);
	return send_error(c, &out);
}

/* ---- answers ---- */

enum verdict prepared_answered(struct server *s, struct client *c, const struct pg_frame *f)
{
	uint32_t skipped = s->ledger.marks_skipped[MARK_PREPARED];
	enum verdict answer = VERDICT_MORE;

	if (!s->prepared || !s->prepared->op_count)
		return VERDICT_INVALID;
	if (s->ledger.mark == MARK_PREPARED) {
		struct prepared_op op = op_take(s->prepared);

		/* A Parse of the unnamed statement that failed has dropped the statement before,
		   unless the message itself is malformed (a text that is not in the client's
		   encoding). The server's statement is unknown now, and may be another client's. */
		if (s->ledger.mark_failed && op.kind == OP_UNNAMED && c)
			c->prepared->has_confirmed_text = false;
		if (s->ledger.mark_failed && op.kind == OP_UNNAMED_REPARSE)
			server_unnamed_to(s, 0);
		op_ended(s, c, &op, !s->ledger.mark_failed);
		if (s->ledger.mark_failed) {
			if (c && !op.is_internal) {
				c->prepared->sql_waits = false;
				c->prepared->awaited = 0;
			}
			answer = op.is_internal ? VERDICT_SWALLOW : op_failed(s, c, f, &op);
		} else if (op.kind == OP_DUPLICATE || op.kind == OP_TYPES_DIFFER ||
			   op.kind == OP_NAME_TOO_LONG) {
			answer = VERDICT_INVALID;
		}
		op_release(s->peer.world, &op);
	}
	if (skipped > 0)
		ops_skipped(s, c, skipped);
	s->ledger.mark = LEDGER_UNMARKED;
	return answer;
}

void prepared_passed(struct server *s, struct client *c)
{
	struct prepared_op op;

	ASSERT(s->prepared && s->prepared->op_count > 0);
	op = op_take(s->prepared);
	s->ledger.mark = LEDGER_UNMARKED;
	op_ended(s, c, &op, true);
	op_release(s->peer.world, &op);
}

size_t prepared_local_reply(struct server *s, const void **from)
{
	static const uint8_t parse_complete[PG_HEADER] = { PGS_PARSE_COMPLETE, 0, 0, 0, 4 };
	static const uint8_t close_complete[PG_HEADER] = { PGS_CLOSE_COMPLETE, 0, 0, 0, 4 };
	struct prepared_op op;

	/* no local reply follows a fatal error, which is the last message to the client */
	if (!ledger_local_reply_is_due(&s->ledger) || s->said_fatal)
		return 0;
	ledger_local_reply_sent(&s->ledger);
	op = op_take(s->prepared);
	op_ended(s, s->pooled.link ? client_of(s->pooled.link) : NULL, &op, true);
	*from = op.kind == OP_KNOWN ? parse_complete : close_complete;
	op_release(s->peer.world, &op);
	return PG_HEADER;
}

/* ---- described types ---- */

void prepared_described(struct server *s, const struct pg_frame *f)
{
	struct prepared_server *ps = s->prepared;
	struct prepared_op *op = ps && ps->op_count > 0 ? op_at(ps, 0) : NULL;
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	struct unnamed_types *types;
	struct prepared_entry *e;

	if (!op || (op->kind != OP_USE && op->kind != OP_DESCRIBE && op->kind != OP_LEARN))
		return;
	ps->types = pg_frame_is_whole(f) ? hash_types(ps->types, f) : 0;
	if (f->type == PGS_PARAMETER_TYPES || ps->types == 0)
		return;
	if (op->statement) {
		e = entry_find(ps, op->statement);
		if (e)
			e->types = ps->types;
		types_received(op, ps->types);
	} else if (op->kind != OP_DESCRIBE && !op->name && c && c->prepared &&
		   c->prepared->in_flight == 0) {
		/* the types are of the unnamed statement, unless the client has changed it since */
		types = &c->prepared->unnamed_types;
		if (op->kind == OP_USE || types->hash == 0)
			types->hash = ps->types;
		types->told |= op->kind == OP_USE;
	}
}

/* ---- changed definitions ---- */

void prepared_meaning_changed(struct server *s, bool functions_only)
{
	struct world *w = s->peer.world;
	struct database *altered = s->pooled.pool->database;
	uint64_t last = statements_last(w->statements);

	/* nothing to do again: no statement was made since the last change in this turn */
	if (!functions_only && altered->meaning_changed_at == last &&
	    altered->meaning_changed == w->now)
		return;
	if (!functions_only) {
		altered->meaning_changed_at = last;
		altered->meaning_changed = w->now;
	}
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		const struct conf_database *one = d->conf, *other = altered->conf;

		/* two databases of the configuration may be one database of PostgreSQL */
		if (strcmp(one->port, other->port) != 0 ||
		    (one->host != other->host &&
		     !(one->host && other->host && strcmp(one->host, other->host) == 0)) ||
		    strcmp(one->dbname ? one->dbname : d->name,
			   other->dbname ? other->dbname : altered->name) != 0)
			continue;
		if (!functions_only)
			d->statements = 0;
		session_functions_changed(d, w->now);
	}
}
