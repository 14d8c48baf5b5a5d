/*
 * Prepared statements: what the answers mean (prepared.c has the way there, prepared_tables.c the tables).
 *
 * The ledger says of every marked message, in order, whether it was done, has failed, or was skipped; the journal says what it
 * was. What was done is certain now, what failed or was skipped is undone, from the last to the first.
 *
 * An error that names a statement names it as the server knows it: the client is told its own name. Two errors say more than
 * that. "cached plan must not change result type" comes when a table was altered: the statement is retired. And a statement that
 * the server should have and does not (a function has deallocated it) says that nothing is known about this server's set any
 * more: it is closed when its client is through.
 *
 * DEALLOCATE ALL and DISCARD ALL, recognized by the tag of CommandComplete, take away what is certain at this place in the order of
 * answers; what was prepared behind them in the same pipeline is still in doubt then, and stays.
 */
#include "session/prepared.h"

#include "base/assert.h"
#include "pg/build.h"
#include "pg/error.h"
#include "session/prepared_tables.h"
#include "session/world.h"

#include <stdio.h>
#include <string.h>

/* ---- done ---- */

static void name_done(struct world *w, struct prepared_name *n)
{
	if (n->state == PREPARED_PENDING)
		n->state = PREPARED_SET;
	name_drop(w, &n->replaced);
}

static void parse_done(struct prepared_server *has, const struct statement *st)
{
	struct prepared_entry *e = entry_find(has, st);

	if (e && e->state == PREPARED_PENDING)
		e->state = PREPARED_SET;
}

static void close_done(struct server *s, const struct statement *st)
{
	struct prepared_entry *e = entry_find(s->prepared, st);

	if (!e)
		return;
	if (e->state == PREPARED_CLOSING)
		entry_remove(s->peer.world, s->prepared, e);
	else
		e->over_closing = false;
}

static void done(struct server *s, struct client *c, const struct prepared_op *op)
{
	switch ((enum prepared_what)op->what) {
	case OP_PARSE:
		parse_done(s->prepared, op->name->statement);
		name_done(s->peer.world, op->name);
		break;
	case OP_REPLAY:
		parse_done(s->prepared, op->name->statement);
		break;
	case OP_KNOWN:
		name_done(s->peer.world, op->name);
		break;
	case OP_CLOSE:
		if (op->name && c && op->name->state == PREPARED_CLOSING)
			name_unlist(s->peer.world, c->prepared, op->name);
		break;
	case OP_EVICT:
		close_done(s, op->statement);
		break;
	case OP_USE:
	case OP_AGAIN:
	case OP_UNNAMED:
		break;
	}
}

/* ---- undone ---- */

static void undo_close(struct world *w, struct client *c, struct prepared_name *n)
{
	if (!n || !c || n->state != PREPARED_CLOSING)
		return;
	if (n->deallocated)
		name_unlist(w, c->prepared, n);
	else
		n->state = PREPARED_SET;
}

static void undo(struct server *s, struct client *c, const struct prepared_op *op)
{
	struct world *w = s->peer.world;
	struct prepared_entry *e;

	switch ((enum prepared_what)op->what) {
	case OP_PARSE:
	case OP_REPLAY:
		if ((e = entry_find(s->prepared, op->name->statement)) != NULL && e->state == PREPARED_PENDING)
			entry_undo_parse(w, s->prepared, e);
		if (op->what == OP_PARSE && c)
			name_undo(w, c->prepared, op->name);
		break;
	case OP_KNOWN:
		if (c)
			name_undo(w, c->prepared, op->name);
		break;
	case OP_CLOSE:
		undo_close(w, c, op->name);
		break;
	case OP_EVICT:
		if ((e = entry_find(s->prepared, op->statement)) != NULL && e->state == PREPARED_CLOSING)
			entry_undo_close(w, s->prepared, e);
		break;
	case OP_UNNAMED:
		s->prepared->unnamed_of = 0;
		break;
	case OP_USE:
	case OP_AGAIN:
		break;
	}
}

/* The `count` oldest of the journal were skipped. */
static void undo_skipped(struct server *s, struct client *c, uint32_t count)
{
	ASSERT(count <= s->prepared->op_count);
	for (uint32_t i = count; i > 0; i--)
		undo(s, c, op_at(s->prepared, i - 1));
	while (count-- > 0) {
		struct prepared_op op = op_take(s->prepared);

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
	size_t mark = pg_begin(out, 'E');
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

static bool has_field(const struct pg_frame *f, char field, const char *value)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);
	uint8_t found;

	while ((found = pg_read_u8(&body)) != 0) {
		const char *text = pg_read_string(&body);

		if (found == (uint8_t)field)
			return strcmp(text, value) == 0;
	}
	return false;
}

static void look_at_use(struct server *s, const struct pg_frame *f, struct statement *st)
{
	const struct prepared_entry *e = entry_find(s->prepared, st);

	if (has_field(f, 'C', "0A000") && has_field(f, 'R', "RevalidateCachedQuery"))
		statement_retire(s->peer.world->statements, st);
	else if (has_field(f, 'C', "26000") && e && e->state == PREPARED_SET)
		s->policy.close_reason = GOODBYE_STATEMENTS_UNKNOWN;
}

/* The error of a message that carried the statement's name. */
static enum prepared_answer tell_error(struct server *s, struct client *c, const struct pg_frame *f, const struct prepared_op *op)
{
	struct bytes out = BYTES_EMPTY;
	struct statement *st;
	bool failed;

	if (!c || !op->name || !pg_frame_is_whole(f))
		return PREPARED_RELAY;
	st = op->name->statement;
	if (op->what == OP_USE && st->changed && has_field(f, 'C', "26000")) {
		pg_build_error(&out, "ERROR", "0A000", "cached plan must not change result type", NULL, NULL);
	} else {
		if (op->what == OP_USE)
			look_at_use(s, f, st);
		build_renamed(&out, f, st->name, op->name->text);
	}
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
	uint32_t skipped = s->ledger.marks_skipped;
	enum prepared_answer answer = PREPARED_NORMAL;

	if (!s->prepared || !s->prepared->op_count)
		return PREPARED_BROKEN;
	if (s->ledger.mark != LEDGER_UNMARKED) {
		struct prepared_op op = op_take(s->prepared);

		if (s->ledger.mark == LEDGER_MARK_DONE) {
			done(s, c, &op);
			if (op.what == OP_AGAIN)
				answer = PREPARED_BROKEN;
		} else {
			/* what was skipped behind it comes off first */
			undo_skipped(s, c, skipped);
			skipped = 0;
			undo(s, c, &op);
			answer = tell_error(s, c, f, &op);
		}
		op_release(s->peer.world, &op);
	}
	if (skipped > 0)
		undo_skipped(s, c, skipped);
	return answer;
}

void prepared_failed(struct server *s, struct client *c)
{
	prepared_unnamed_lost(s);
	if (c->prepared && c->prepared->pending > 0) {
		c->prepared->pending = 0;
		c->prepared->set = false;
	}
}

void prepared_unnamed_parsed(struct client *c)
{
	if (!c->prepared)
		return;
	if (c->prepared->pending > 0)
		c->prepared->pending--;
	else
		c->prepared->set = true;	/* an error before it had put all in doubt */
}

static void names_gone(struct world *w, struct prepared_client *of)
{
	struct prepared_name *n, *next;

	HASH_ITER(hh, of->names, n, next) {
		n->deallocated = n->state == PREPARED_CLOSING;
		for (struct prepared_name *before = n->replaced; before; before = before->replaced)
			before->deallocated = true;
		if (n->state == PREPARED_SET)
			name_unlist(w, of, n);
	}
}

void prepared_all_gone(struct server *s, struct client *c)
{
	struct prepared_entry *e, *next;

	if (s->prepared) {
		HASH_ITER(hh, s->prepared->set, e, next) {
			e->deallocated = e->state == PREPARED_CLOSING;
			if (e->state == PREPARED_PENDING)
				e->over_closing = false;
			else if (e->state == PREPARED_SET)
				entry_remove(s->peer.world, s->prepared, e);
		}
	}
	if (c && c->prepared)
		names_gone(s->peer.world, c->prepared);
}

size_t prepared_promised(struct server *s, const void **from)
{
	static const uint8_t parse_complete[PG_HEADER] = { '1', 0, 0, 0, 4 }, close_complete[PG_HEADER] = { '3', 0, 0, 0, 4 };
	struct prepared_op op;

	if (!ledger_promise_is_due(&s->ledger))
		return 0;
	ledger_promise_kept(&s->ledger);
	op = op_take(s->prepared);
	done(s, s->policy.link ? client_of(s->policy.link) : NULL, &op);
	*from = op.what == OP_KNOWN ? parse_complete : close_complete;
	op_release(s->peer.world, &op);
	return PG_HEADER;
}

/* What was under way may or may not have been done. A name in doubt is not the client's any more; the server is given up. */
void prepared_lose(struct server *s, struct client *c)
{
	struct prepared_name *n, *next;

	if (!s->prepared || s->prepared->op_count == 0)
		return;
	while (s->prepared->op_count > 0) {
		struct prepared_op op = op_take(s->prepared);

		op_release(s->peer.world, &op);
	}
	if (!c || !c->prepared)
		return;
	HASH_ITER(hh, c->prepared->names, n, next) {
		if (n->state != PREPARED_SET)
			name_unlist(s->peer.world, c->prepared, n);
	}
}
