/*
 * The extended protocol on the console ("Message Flow: Extended Query" in the PostgreSQL
 * documentation), for drivers that speak nothing else: Parse, Bind, Describe, Execute, Close, Flush
 * and Sync, named and unnamed statements and portals, row limits, results in text or binary. There
 * are no parameters: no command of the console takes one.
 *
 * A statement keeps its text, a portal the parsed command and, once executed, the rows not yet
 * fetched. Sync ends the transaction, and with it the portals. After an error everything up to Sync
 * is passed over (console.c). Answers gather in caller->out and go out with Sync or Flush, an
 * error, a wait, or when they have become many.
 *
 * Invariant: caller->held and held_bytes are the number and size of the statements and portals.
 * Nothing is added to them beyond HELD_MOST and HELD_BYTES_MOST, but for the rows of one portal, so
 * a client can't make pgweir keep more than it sends for.
 */
#include "admin/caller.h"

#include "admin/result_wire.h"
#include "admin/show.h"
#include "base/mem.h"
#include "pg/build.h"
#include "pg/frame.h"

#include <stdio.h>
#include <string.h>

#define HELD_MOST 1000
#define HELD_BYTES_MOST ((size_t)1024 * 1024)

struct statement {
	struct list node;
	size_t size;			/* of the texts */
	const char *text;		/* behind the name */
	char name[];			/* "": the unnamed one */
};

enum portal_state {
	PORTAL_READY,			/* bound */
	PORTAL_OPEN,			/* rows are left */
	PORTAL_OVER			/* executed to the end */
};

struct portal {
	struct list node;
	size_t size;			/* of the texts, and of rows not fetched yet */
	struct command command;
	struct result result;
	enum portal_state state;
	char name[];
};

static void fail(struct caller *caller, enum refusal why, const char *first, const char *second)
{
	caller_refuse(caller, why, first, second, NULL);
	caller->skips = true;
}

/* A message that has nothing but its type. */
static void say(struct caller *caller, uint8_t type)
{
	pg_end(&caller->out, pg_begin(&caller->out, type));
}

/* ---- what is kept ---- */

static void statement_free(struct caller *caller, struct statement *s)
{
	list_remove(&s->node);
	caller->held--;
	caller->held_bytes -= s->size;
	mem_free(s);
}

static void portal_free(struct caller *caller, struct portal *p)
{
	list_remove(&p->node);
	caller->held--;
	caller->held_bytes -= p->size;
	command_free(&p->command);
	result_free(&p->result);
	mem_free(p);
}

static struct statement *find_statement(const struct caller *caller, const char *name)
{
	LIST_EACH(node, &caller->statements) {
		struct statement *s = LIST_OBJECT(node, struct statement, node);

		if (!strcmp(s->name, name))
			return s;
	}
	return NULL;
}

static struct portal *find_portal(const struct caller *caller, const char *name)
{
	LIST_EACH(node, &caller->portals) {
		struct portal *p = LIST_OBJECT(node, struct portal, node);

		if (!strcmp(p->name, name))
			return p;
	}
	return NULL;
}

/* Whether one more of this size may be kept; counts it then. */
static bool take_room(struct caller *caller, size_t size)
{
	if (caller->held >= HELD_MOST || caller->held_bytes + size > HELD_BYTES_MOST)
		return false;
	caller->held++;
	caller->held_bytes += size;
	return true;
}

void extended_end_transaction(struct caller *caller)
{
	LIST_EACH_SAFE(node, &caller->portals)
		portal_free(caller, LIST_OBJECT(node, struct portal, node));
}

void extended_free(struct caller *caller)
{
	extended_end_transaction(caller);
	LIST_EACH_SAFE(node, &caller->statements)
		statement_free(caller, LIST_OBJECT(node, struct statement, node));
}

/* ---- Parse ---- */

/* The one statement of the text, which may be empty. False: there are more. */
static bool only_statement(const char *text, struct sql_span *out)
{
	struct sql_span rest = { text, strlen(text) }, more;

	if (!sql_next_statement(&rest, out))
		*out = (struct sql_span){ text, 0 };
	return !sql_next_statement(&rest, &more);
}

static void keep_statement(struct caller *caller, const char *name, struct sql_span text)
{
	size_t name_size = strlen(name), size = name_size + text.size;
	struct statement *s = mem_try(sizeof(*s) + size + 2);

	if (!s || !take_room(caller, size)) {
		fail(caller, s ? REFUSAL_STATEMENT_LIMIT : REFUSAL_NO_MEMORY, NULL, NULL);
		mem_free(s);
		return;
	}
	s->size = size;
	memcpy(s->name, name, name_size);
	memcpy(s->name + name_size + 1, text.at, text.size);
	s->text = s->name + name_size + 1;
	list_append(&caller->statements, &s->node);
	say(caller, '1');
}

static bool on_parse(struct caller *caller, struct pg_cursor *c)
{
	const char *name = pg_read_string(c), *text = pg_read_string(c);
	uint16_t types = pg_read_u16(c);
	struct command command;
	struct statement *old;
	struct sql_span one;

	pg_read_bytes(c, (size_t)types * 4);	/* of parameters that no command has */
	if (c->bad || c->at != c->end)
		return false;
	old = find_statement(caller, name);
	if (old && *name) {
		fail(caller, REFUSAL_STATEMENT_EXISTS, name, NULL);
		return true;
	}
	if (old)
		statement_free(caller, old);
	if (!only_statement(text, &one)) {
		fail(caller, REFUSAL_STATEMENT_MULTIPLE, NULL, NULL);
		return true;
	}
	switch (command_parse(one, &command)) {
	case COMMAND_OK:
		keep_statement(caller, name, one);
		break;
	case COMMAND_INVALID:
		caller_refuse_invalid(caller, one);
		caller->skips = true;
		break;
	case COMMAND_NO_MEMORY:
		fail(caller, REFUSAL_NO_MEMORY, NULL, NULL);
		break;
	}
	command_free(&command);
	return true;
}

/* ---- Bind ---- */

static void begin_result(const struct caller *caller, const struct command *command, struct result *result)
{
	const char *const *columns;
	size_t count;

	command_columns(command, caller->console->world->conf->settings.show_extra_columns, &columns, &count);
	result_init(result, &result_wire, columns, count);
}

/* A Bind, as it came. */
struct bind {
	const char *portal, *statement;
	uint16_t values, codes;			/* how many */
	uint16_t code[RESULT_COLUMNS];		/* result formats; those beyond are not kept */
	uint16_t bad_code;			/* a format that does not exist, or 0 */
};

static bool read_bind(struct pg_cursor *c, struct bind *bind)
{
	uint16_t count;

	*bind = (struct bind){ .portal = pg_read_string(c) };
	bind->statement = pg_read_string(c);
	count = pg_read_u16(c);
	pg_read_bytes(c, (size_t)count * 2);	/* formats of parameters */
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

static void refuse_number(struct caller *caller, enum refusal why, size_t number, size_t other)
{
	char first[24], second[24];

	snprintf(first, sizeof(first), "%zu", number);
	snprintf(second, sizeof(second), "%zu", other);
	fail(caller, why, first, second);
}

/* Without rows any formats will do: PostgreSQL never looks at them either. */
static bool apply_formats(struct caller *caller, const struct bind *bind, struct result *result)
{
	if (bind->bad_code)
		refuse_number(caller, REFUSAL_BIND_FORMAT_CODE, bind->bad_code, 0);
	else if (result->column_count > 0 && !result_set_formats(result, bind->code, bind->codes))
		refuse_number(caller, REFUSAL_BIND_FORMATS, bind->codes, result->column_count);
	return !caller->skips;
}

/* The statement that a Bind names, when the portal may have the name it asks for. NULL: refused. */
static struct statement *bindable(struct caller *caller, const char *portal, const char *name)
{
	struct statement *s = find_statement(caller, name);
	struct portal *old = find_portal(caller, portal);

	if (!s)
		fail(caller, REFUSAL_STATEMENT_UNKNOWN, name, NULL);
	else if (old && *portal)
		fail(caller, REFUSAL_PORTAL_EXISTS, portal, NULL);
	else if (old)
		portal_free(caller, old);
	return caller->skips ? NULL : s;
}

static struct portal *portal_new(struct caller *caller, const char *name, const struct statement *s)
{
	size_t size = strlen(name) + s->size;
	struct portal *p = mem_try(sizeof(*p) + strlen(name) + 1);

	if (!p || !take_room(caller, size)) {
		fail(caller, p ? REFUSAL_STATEMENT_LIMIT : REFUSAL_NO_MEMORY, NULL, NULL);
		mem_free(p);
		return NULL;
	}
	p->size = size;
	memcpy(p->name, name, strlen(name));
	list_append(&caller->portals, &p->node);
	if (command_parse((struct sql_span){ s->text, strlen(s->text) }, &p->command) == COMMAND_OK)
		return p;
	portal_free(caller, p);
	fail(caller, REFUSAL_NO_MEMORY, NULL, NULL);
	return NULL;
}

static bool on_bind(struct caller *caller, struct pg_cursor *c)
{
	struct bind bind;
	struct statement *s;
	struct portal *p = NULL;

	if (!read_bind(c, &bind))
		return false;
	s = bindable(caller, bind.portal, bind.statement);
	if (s && bind.values > 0)
		refuse_number(caller, REFUSAL_BIND_PARAMETERS, bind.values, 0);
	else if (s)
		p = portal_new(caller, bind.portal, s);
	if (!p)
		return true;
	begin_result(caller, &p->command, &p->result);
	if (apply_formats(caller, &bind, &p->result))
		say(caller, '2');
	else
		portal_free(caller, p);
	return true;
}

/* ---- Describe, Close ---- */

static void describe_rows(struct caller *caller, const struct result *result)
{
	if (result->column_count > 0)
		result_describe(result, &caller->out);
	else
		say(caller, 'n');
}

static void describe_statement(struct caller *caller, const struct statement *s)
{
	struct command command;
	struct result result;
	size_t mark;

	if (command_parse((struct sql_span){ s->text, strlen(s->text) }, &command) != COMMAND_OK) {
		fail(caller, REFUSAL_NO_MEMORY, NULL, NULL);
	} else {
		begin_result(caller, &command, &result);
		mark = pg_begin(&caller->out, 't');
		bytes_append_u16(&caller->out, 0);
		pg_end(&caller->out, mark);
		describe_rows(caller, &result);
	}
	command_free(&command);
}

/* Describe and Close: 'S' or 'P', and a name. */
static bool read_target(struct caller *caller, struct pg_cursor *c, uint8_t *kind, const char **name)
{
	char text[2] = { 0, 0 };

	*kind = pg_read_u8(c);
	*name = pg_read_string(c);
	if (c->bad || c->at != c->end)
		return false;
	if (*kind == 'S' || *kind == 'P')
		return true;
	text[0] = (char)*kind;
	fail(caller, REFUSAL_DESCRIBE_KIND, text, NULL);
	return true;
}

static bool on_describe(struct caller *caller, struct pg_cursor *c)
{
	struct statement *s;
	struct portal *p;
	const char *name;
	uint8_t kind;

	if (!read_target(caller, c, &kind, &name))
		return false;
	if (caller->skips)
		return true;
	s = kind == 'S' ? find_statement(caller, name) : NULL;
	p = kind == 'P' ? find_portal(caller, name) : NULL;
	if (s)
		describe_statement(caller, s);
	else if (p)
		describe_rows(caller, &p->result);
	else
		fail(caller, kind == 'S' ? REFUSAL_STATEMENT_UNKNOWN : REFUSAL_PORTAL_UNKNOWN, name, NULL);
	return true;
}

static bool on_close(struct caller *caller, struct pg_cursor *c)
{
	struct statement *s;
	struct portal *p;
	const char *name;
	uint8_t kind;

	if (!read_target(caller, c, &kind, &name))
		return false;
	if (caller->skips)
		return true;
	s = kind == 'S' ? find_statement(caller, name) : NULL;
	p = kind == 'P' ? find_portal(caller, name) : NULL;
	if (s)
		statement_free(caller, s);
	if (p)
		portal_free(caller, p);
	say(caller, '3');		/* what does not exist is closed */
	return true;
}

/* ---- Execute ---- */

/* Rows of an open portal, at most so many. */
static void fetch(struct caller *caller, struct portal *p, uint32_t most)
{
	size_t before = bytes_size(&p->result.rows), fetched;
	size_t count = result_give(&p->result, most, &caller->out);

	fetched = before - bytes_size(&p->result.rows);
	p->size -= fetched;
	caller->held_bytes -= fetched;
	caller->portal = NULL;
	if (p->result.row_count > 0 || (most > 0 && count == most && p->result.walk.goes_on)) {
		say(caller, 's');
	} else if (p->result.walk.goes_on) {
		caller->portal = p;
		caller->portal_most = most > 0 ? most - (uint32_t)count : 0;
		caller_answer_later(caller);
	} else {
		p->state = PORTAL_OVER;
		pg_build_command_complete(&caller->out, p->command.row->verb);
	}
}

/* What has run has filled in rows. */
static void open(struct caller *caller, struct portal *p, uint32_t most)
{
	p->state = PORTAL_OPEN;
	p->size += bytes_size(&p->result.rows);
	caller->held_bytes += bytes_size(&p->result.rows);
	fetch(caller, p, most);
}

static void execute(struct caller *caller, struct portal *p, uint32_t most)
{
	enum outcome outcome;

	if (caller->held_bytes > HELD_BYTES_MOST) {
		fail(caller, REFUSAL_STATEMENT_LIMIT, NULL, NULL);
		return;
	}
	p->state = PORTAL_OVER;
	outcome = caller_run(caller, &p->command, &p->result);
	if (caller_is_gone(caller))
		return;
	if (outcome == COMMAND_FAILED)
		caller->skips = true;
	if (outcome == COMMAND_DONE || outcome == COMMAND_GOES_ON)
		open(caller, p, most);
}

/* Its rows so far are fetched. */
void extended_go_on(struct caller *caller)
{
	struct portal *p = caller->portal;

	caller_run_on(caller, &p->command, &p->result);
	open(caller, p, caller->portal_most);
	if (caller->client->console_state == CONSOLE_RUNNING)
		caller_flush(caller);
}

static bool on_execute(struct caller *caller, struct pg_cursor *c)
{
	const char *name = pg_read_string(c);
	uint32_t most = pg_read_u32(c);
	struct portal *p;

	if (c->bad || c->at != c->end)
		return false;
	if (most > INT32_MAX)
		most = 0;		/* a negative limit is none */
	p = find_portal(caller, name);
	if (!p)
		fail(caller, REFUSAL_PORTAL_UNKNOWN, name, NULL);
	else if (!p->command.row)
		say(caller, 'I');
	else if (p->state == PORTAL_READY)
		execute(caller, p, most);
	else if (p->state == PORTAL_OPEN || p->command.id == COMMAND_SHOW)
		fetch(caller, p, most);
	else
		fail(caller, REFUSAL_PORTAL_DONE, name, NULL);
	return true;
}

/* ---- Sync, Flush, and the way in ---- */

static void on_sync(struct caller *caller)
{
	caller->skips = false;
	extended_end_transaction(caller);
	pg_build_ready(&caller->out, 'I');
	caller_flush(caller);
}

static bool dispatch(struct caller *caller, uint8_t type, struct pg_cursor *c)
{
	switch (type) {
	case 'P':
		return on_parse(caller, c);
	case 'B':
		return on_bind(caller, c);
	case 'D':
		return on_describe(caller, c);
	case 'C':
		return on_close(caller, c);
	case 'E':
		return on_execute(caller, c);
	case 'S':
		on_sync(caller);
		return true;
	case 'H':
		caller_flush(caller);
		return true;
	default:
		return false;
	}
}

bool extended_message(struct caller *caller, uint8_t type, const uint8_t *body, size_t size)
{
	struct pg_cursor c = pg_cursor_of(body, size);

	if (!dispatch(caller, type, &c))
		return caller_is_gone(caller);
	/* an error, or a command that waits, must not keep what came before it to itself */
	if (!caller_is_gone(caller) && (caller->skips || caller->client->console_state != CONSOLE_RUNNING))
		caller_flush(caller);
	return true;
}
