/*
 * The extended protocol on the console ("Message Flow: Extended Query" in the PostgreSQL
 * documentation), for drivers that support nothing else: Parse, Bind, Describe, Execute, Close,
 * Flush and Sync, named and unnamed statements and portals, row limits, results in text or binary.
 * There are no parameters, because no command of the console has any.
 *
 * A statement keeps its text; a portal keeps the parsed command and, after its execution, the rows
 * that were not fetched yet. Sync ends the transaction, and with it the portals. After an error all
 * messages up to Sync are skipped (console.c). Answers are collected in caller->out and sent with
 * Sync or Flush, after an error, before a wait, or when they become large.
 */
#include "admin/caller.h"

#include "admin/result_wire.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"
#include "show/show.h"

#include <stdio.h>
#include <string.h>

/* ---- prepared statements and portals ---- */

/*
 * Invariant: count and bytes are the number and size of the objects on both lists. HELD_MOST and
 * HELD_BYTES_MOST limit them, except for the rows of one portal: while `bytes` exceeds its limit,
 * no more rows are produced.
 */

#define HELD_MOST 1000
#define HELD_BYTES_MOST ((size_t)1024 * 1024)

struct held_statement {
	struct list node;
	size_t size;			/* of the texts */
	const char *text;		/* stored after the name */
	char name[];			/* "": the unnamed statement */
};

enum portal_state {
	PORTAL_READY,			/* bound */
	PORTAL_OPEN,			/* more rows are left */
	PORTAL_OVER			/* executed completely */
};

struct portal {
	struct list node;
	size_t size;			/* of the texts */
	size_t row_bytes;		/* part of held->bytes */
	struct command command;
	struct result result;
	enum portal_state state;
	char name[];
};

/* ---- answers ---- */

static void extended_fail(struct caller *caller, enum console_error why, const char *first,
			  const char *second)
{
	caller_refuse(caller, why, first, second, NULL);
	caller->skips = true;
}

/* Appends a message without a body. */
static void extended_say(struct caller *caller, uint8_t type)
{
	pg_end(&caller->out, pg_begin(&caller->out, type));
}

/* Counts an object of this size, and returns it: `object` was allocated for it, or is NULL. Sends
   the error, and returns NULL, without memory or if the limits are reached. */
static void *extended_keep(struct caller *caller, void *object, size_t size)
{
	struct held *held = &caller->held;
	bool has_room = held->count < HELD_MOST && held->bytes + size <= HELD_BYTES_MOST;

	if (!object || !has_room) {
		extended_fail(caller,
			      object ? CONSOLE_ERROR_STATEMENT_LIMIT : CONSOLE_ERROR_NO_MEMORY,
			      NULL, NULL);
		mem_free(object);
		return NULL;
	}
	held->count++;
	held->bytes += size;
	return object;
}

/* ---- statements ---- */

static struct held_statement *held_statement_find(const struct held *held, const char *name)
{
	LIST_EACH(node, &held->statements) {
		struct held_statement *s = LIST_OBJECT(node, struct held_statement, node);

		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}

/* False: the error was sent. */
static bool held_statement_add(struct caller *caller, const char *name, struct sql_span text)
{
	size_t name_size = strlen(name), size = name_size + text.size;
	struct held_statement *s = extended_keep(caller, mem_try(sizeof(*s) + size + 2), size);

	if (!s)
		return false;
	s->size = size;
	memcpy(s->name, name, name_size);
	memcpy(s->name + name_size + 1, text.at, text.size);
	s->text = s->name + name_size + 1;
	list_append(&caller->held.statements, &s->node);
	return true;
}

static void held_statement_drop(struct held *held, struct held_statement *s)
{
	list_remove(&s->node);
	held->count--;
	held->bytes -= s->size;
	mem_free(s);
}

/* ---- portals ---- */

static void held_portal_drop(struct held *held, struct portal *p)
{
	list_remove(&p->node);
	held->count--;
	held->bytes -= p->size + p->row_bytes;
	command_free(&p->command);
	result_free(&p->result);
	mem_free(p);
}

static struct portal *held_portal_find(const struct held *held, const char *name)
{
	LIST_EACH(node, &held->portals) {
		struct portal *p = LIST_OBJECT(node, struct portal, node);

		if (!strcmp(p->name, name))
			return p;
	}
	return NULL;
}

/* Creates a READY portal for the command of the statement. NULL: the error was sent. */
static struct portal *held_portal_add(struct caller *caller, const char *name,
				      const struct held_statement *s)
{
	size_t size = strlen(name) + s->size;
	struct portal *p = extended_keep(caller, mem_try(sizeof(*p) + strlen(name) + 1), size);

	if (!p)
		return NULL;
	p->size = size;
	memcpy(p->name, name, strlen(name));
	list_append(&caller->held.portals, &p->node);
	if (command_parse((struct sql_span){ s->text, strlen(s->text) }, &p->command) ==
	    COMMAND_PARSE_OK)
		return p;
	held_portal_drop(&caller->held, p);
	extended_fail(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL);
	return NULL;
}

/* Must be called after the number of buffered rows has changed. */
static void held_count_rows(struct held *held, struct portal *p)
{
	size_t now = bytes_size(&p->result.rows);

	held->bytes += now - p->row_bytes;
	p->row_bytes = now;
}

/* ---- the end ---- */

void extended_end(struct caller *caller, bool also_statements)
{
	LIST_EACH_SAFE(node, &caller->held.portals)
		held_portal_drop(&caller->held, LIST_OBJECT(node, struct portal, node));
	LIST_EACH_SAFE(node, &caller->held.statements)
		if (also_statements)
			held_statement_drop(&caller->held,
					    LIST_OBJECT(node, struct held_statement, node));
}

/* ---- Parse ---- */

static bool on_parse(struct caller *caller, struct pg_cursor *c)
{
	const char *name = pg_read_string(c), *text = pg_read_string(c);
	uint16_t types = pg_read_u16(c);
	struct sql_span rest, one, more;
	struct held_statement *old;
	struct command command;

	pg_read_bytes(c, (size_t)types * 4);	/* types of parameters, ignored */
	if (c->bad || c->at != c->end)
		return false;
	old = held_statement_find(&caller->held, name);
	if (old && *name) {
		extended_fail(caller, CONSOLE_ERROR_STATEMENT_EXISTS, name, NULL);
		return true;
	}
	if (old)
		held_statement_drop(&caller->held, old);
	/* The text has at most one statement. */
	rest = (struct sql_span){ text, strlen(text) };
	if (!sql_next_statement(&rest, &one))
		one = (struct sql_span){ text, 0 };
	if (sql_next_statement(&rest, &more)) {
		extended_fail(caller, CONSOLE_ERROR_STATEMENT_MULTIPLE, NULL, NULL);
		return true;
	}
	switch (command_parse(one, &command)) {
	case COMMAND_PARSE_OK:
		if (held_statement_add(caller, name, one))
			extended_say(caller, '1');
		break;
	case COMMAND_PARSE_INVALID:
		caller_refuse_invalid(caller, one);
		caller->skips = true;
		break;
	case COMMAND_PARSE_NO_MEMORY:
		extended_fail(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL);
		break;
	}
	command_free(&command);
	return true;
}

/* ---- Bind ---- */

/* The contents of a Bind. */
struct bind {
	const char *portal, *statement;
	uint16_t values, codes;			/* numbers of elements */
	uint16_t code[RESULT_COLUMNS];		/* result formats; further ones are dropped */
	uint16_t bad_code;			/* an invalid format code, or 0 */
};

static bool extended_read_bind(struct pg_cursor *c, struct bind *bind)
{
	uint16_t count;

	*bind = (struct bind){ .portal = pg_read_string(c) };
	bind->statement = pg_read_string(c);
	count = pg_read_u16(c);
	pg_read_bytes(c, (size_t)count * 2);	/* formats of parameters, ignored */
	bind->values = pg_read_u16(c);
	for (uint16_t i = 0; i < bind->values && !c->bad; i++) {
		uint32_t size = pg_read_u32(c);

		if (size != UINT32_MAX)
			pg_read_bytes(c, size);
	}
	bind->codes = pg_read_u16(c);
	for (uint16_t i = 0; i < bind->codes && !c->bad; i++) {
		uint16_t code = pg_read_u16(c);

		if (i < RESULT_COLUMNS)
			bind->code[i] = code;
		if (code > WIRE_BINARY)
			bind->bad_code = code;
	}
	return !c->bad && c->at == c->end;
}

static void refuse_number(struct caller *caller, enum console_error why, size_t number,
			  size_t other)
{
	char first[24], second[24];

	snprintf(first, sizeof(first), "%zu", number);
	snprintf(second, sizeof(second), "%zu", other);
	extended_fail(caller, why, first, second);
}

/* Sets the format codes of a Bind: none (all text), one for all columns, or one per column. False:
   another number of codes. The codes must be of enum wire_format. */
static bool set_formats(struct result *r, const uint16_t *codes, size_t count)
{
	if (count > 1 && count != r->column_count)
		return false;
	for (size_t i = 0; i < r->column_count; i++)
		r->binary[i] = count > 0 && codes[count == 1 ? 0 : i] == WIRE_BINARY;
	return true;
}

static bool on_bind(struct caller *caller, struct pg_cursor *c)
{
	struct held *held = &caller->held;
	struct bind bind;
	struct held_statement *s;
	struct portal *old, *p;

	if (!extended_read_bind(c, &bind))
		return false;
	s = held_statement_find(held, bind.statement);
	old = held_portal_find(held, bind.portal);
	if (!s)
		extended_fail(caller, CONSOLE_ERROR_STATEMENT_UNKNOWN, bind.statement, NULL);
	else if (old && *bind.portal)
		extended_fail(caller, CONSOLE_ERROR_PORTAL_EXISTS, bind.portal, NULL);
	else if (old)
		held_portal_drop(held, old);
	if (!caller->skips && bind.values > 0)
		refuse_number(caller, CONSOLE_ERROR_BIND_PARAMETERS, bind.values, 0);
	p = caller->skips ? NULL : held_portal_add(caller, bind.portal, s);
	if (!p)
		return true;
	caller_begin_result(caller, &p->command, &p->result);
	/* Without a result any formats are accepted, as in PostgreSQL. */
	if (bind.bad_code)
		refuse_number(caller, CONSOLE_ERROR_BIND_FORMAT_CODE, bind.bad_code, 0);
	else if (p->result.column_count > 0 && !set_formats(&p->result, bind.code, bind.codes))
		refuse_number(caller, CONSOLE_ERROR_BIND_FORMATS, bind.codes,
			      p->result.column_count);
	if (caller->skips)
		held_portal_drop(held, p);
	else
		extended_say(caller, '2');
	return true;
}

/* ---- Describe, Close ---- */

static void describe_rows(struct caller *caller, const struct result *result)
{
	if (result->column_count > 0)
		result_describe(result, &caller->out);
	else
		extended_say(caller, 'n');
}

/* Parses the body of Describe and Close: 'S' or 'P', and a name. */
static bool read_target(struct caller *caller, struct pg_cursor *c, uint8_t *kind,
			const char **name)
{
	char text[2] = { 0, 0 };

	*kind = pg_read_u8(c);
	*name = pg_read_string(c);
	if (c->bad || c->at != c->end)
		return false;
	if (*kind == 'S' || *kind == 'P')
		return true;
	text[0] = (char)*kind;
	extended_fail(caller, CONSOLE_ERROR_DESCRIBE_KIND, text, NULL);
	return true;
}

static bool on_describe(struct caller *caller, struct pg_cursor *c)
{
	struct command command = { .row = NULL };
	struct held_statement *s;
	struct result result;
	struct portal *p;
	const char *name;
	uint8_t kind;
	size_t mark;

	if (!read_target(caller, c, &kind, &name))
		return false;
	if (caller->skips)
		return true;
	s = kind == 'S' ? held_statement_find(&caller->held, name) : NULL;
	p = kind == 'P' ? held_portal_find(&caller->held, name) : NULL;
	if (p) {
		describe_rows(caller, &p->result);
	} else if (!s) {
		extended_fail(caller,
			      kind == 'S' ? CONSOLE_ERROR_STATEMENT_UNKNOWN
					  : CONSOLE_ERROR_PORTAL_UNKNOWN,
			      name, NULL);
	} else if (command_parse((struct sql_span){ s->text, strlen(s->text) }, &command) !=
		   COMMAND_PARSE_OK) {
		extended_fail(caller, CONSOLE_ERROR_NO_MEMORY, NULL, NULL);
	} else {
		caller_begin_result(caller, &command, &result);
		/* no parameters */
		mark = pg_begin(&caller->out, 't');
		bytes_append_u16(&caller->out, 0);
		pg_end(&caller->out, mark);
		describe_rows(caller, &result);
	}
	command_free(&command);
	return true;
}

static bool on_close(struct caller *caller, struct pg_cursor *c)
{
	struct held_statement *s;
	struct portal *p;
	const char *name;
	uint8_t kind;

	if (!read_target(caller, c, &kind, &name))
		return false;
	if (caller->skips)
		return true;
	s = kind == 'S' ? held_statement_find(&caller->held, name) : NULL;
	p = kind == 'P' ? held_portal_find(&caller->held, name) : NULL;
	if (s)
		held_statement_drop(&caller->held, s);
	if (p)
		held_portal_drop(&caller->held, p);
	extended_say(caller, '3');		/* Close succeeds for an unknown name, too */
	return true;
}

/* ---- Execute ---- */

/* Sends at most `most` rows of an open portal. */
static void fetch(struct caller *caller, struct portal *p, uint32_t most)
{
	size_t count = result_give(&p->result, most, &caller->out);

	held_count_rows(&caller->held, p);
	caller->portal = NULL;
	if (p->result.row_count > 0 || (most > 0 && count == most && p->result.walk.goes_on)) {
		extended_say(caller, 's');
	} else if (p->result.walk.goes_on) {
		caller->portal = p;
		caller->portal_most = most > 0 ? most - (uint32_t)count : 0;
		caller_answer_later(caller);
	} else {
		p->state = PORTAL_OVER;
		pg_build_string(&caller->out, 'C', p->command.row->verb);
	}
}

/* The command has run and produced rows. */
static void open(struct caller *caller, struct portal *p, uint32_t most)
{
	p->state = PORTAL_OPEN;
	held_count_rows(&caller->held, p);
	fetch(caller, p, most);
}

/* All rows so far were fetched: produces more. */
void extended_continue(struct caller *caller)
{
	struct portal *p = caller->portal;

	if (caller->held.bytes > HELD_BYTES_MOST) {
		caller->portal = NULL;
		extended_fail(caller, CONSOLE_ERROR_STATEMENT_LIMIT, NULL, NULL);
	} else {
		verb_run(caller, &p->command, &p->result, false);
		open(caller, p, caller->portal_most);
	}
	if (caller->client->console.state == CONSOLE_RUNNING)
		caller_flush(caller);
}

static bool on_execute(struct caller *caller, struct pg_cursor *c)
{
	const char *name = pg_read_string(c);
	uint32_t most = pg_read_u32(c);
	enum outcome outcome;
	struct portal *p;

	if (c->bad || c->at != c->end)
		return false;
	if (most > INT32_MAX)
		most = 0;		/* a negative limit means unlimited */
	p = held_portal_find(&caller->held, name);
	if (!p) {
		extended_fail(caller, CONSOLE_ERROR_PORTAL_UNKNOWN, name, NULL);
	} else if (!p->command.row) {
		extended_say(caller, 'I');
	} else if (p->state == PORTAL_READY && caller->held.bytes > HELD_BYTES_MOST) {
		extended_fail(caller, CONSOLE_ERROR_STATEMENT_LIMIT, NULL, NULL);
	} else if (p->state == PORTAL_READY) {
		p->state = PORTAL_OVER;
		outcome = verb_run(caller, &p->command, &p->result, true);
		if (caller_is_gone(caller))
			return true;
		if (outcome == OUTCOME_FAILED)
			caller->skips = true;
		if (outcome == OUTCOME_DONE || outcome == OUTCOME_GOES_ON)
			open(caller, p, most);
	} else if (p->state == PORTAL_OPEN || p->command.id == COMMAND_SHOW) {
		fetch(caller, p, most);
	} else {
		extended_fail(caller, CONSOLE_ERROR_PORTAL_DONE, name, NULL);
	}
	return true;
}

/* ---- Sync, Flush, and dispatch ---- */

bool extended_message(struct caller *caller, uint8_t type, const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);
	bool is_valid = true;

	switch (type) {
	case 'P':
		is_valid = on_parse(caller, &c);
		break;
	case 'B':
		is_valid = on_bind(caller, &c);
		break;
	case 'D':
		is_valid = on_describe(caller, &c);
		break;
	case 'C':
		is_valid = on_close(caller, &c);
		break;
	case 'E':
		is_valid = on_execute(caller, &c);
		break;
	case 'S':
		caller->skips = false;
		extended_end(caller, false);
		pg_build(&caller->out, 'Z', "I", 1);
		caller_flush(caller);
		break;
	case 'H':
		caller_flush(caller);
		break;
	}
	if (!is_valid)
		return caller_is_gone(caller);
	/* after an error, and before a command waits, earlier answers must be sent */
	if (!caller_is_gone(caller) &&
	    (caller->skips || caller->client->console.state != CONSOLE_RUNNING))
		caller_flush(caller);
	return true;
}
