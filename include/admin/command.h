#ifndef ADMIN_COMMAND_H
#define ADMIN_COMMAND_H

#include "pool/drain.h"
#include "show/result.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The lexical rules of SQL that the console needs: statements separated by semicolons, comments,
 * 'strings', "identifiers", words and signs. Pure functions without allocation; the text may
 * contain any byte and need not end in a NUL.
 */
struct sql_span {
	const char *at;
	size_t size;
};

enum sql_token {
	SQL_END,		/* only blanks and comments are left */
	SQL_WORD,		/* unquoted: up to a blank, a quote, ';', '=' or a comment */
	SQL_IDENTIFIER,		/* "in double quotes" */
	SQL_STRING,		/* 'in single quotes' */
	SQL_SIGN,		/* ; or = */
	SQL_BAD			/* an unterminated quote or comment, up to the end of the text */
};

/* Returns the next token of *rest; `out` is its text including quotes; *rest moves after it. */
enum sql_token sql_next_token(struct sql_span *rest, struct sql_span *out);

/* Returns the next non-empty statement of *rest, without its semicolon and without surrounding
   blanks and comments; *rest moves after the semicolon. False: no more statements. With an
   unterminated quote or comment, the whole rest belongs to the statement. */
bool sql_next_statement(struct sql_span *rest, struct sql_span *out);

/*
 * A statement of the console, parsed into verb and argument. The parser only checks the syntax:
 * whether a database exists, or a user has access, is checked when the command runs.
 */
enum command_id {
#define COMMAND(verb, argument, access, help) COMMAND_##verb,
#include "tbl/command.tbl"
#undef COMMAND
	COMMANDS
};

enum command_argument {
	ARGUMENT_NOTHING,
	ARGUMENT_ITEM,			/* a row of show.tbl or console_param.tbl */
	/* optional in the grammar, so that the error can say that it is missing */
	ARGUMENT_DATABASE,
	ARGUMENT_DATABASE_OR_ALL,
	ARGUMENT_DATABASE_OR_HOST,	/* a database, or HOST and a host */
	ARGUMENT_CLIENT,
	ARGUMENT_DRAIN,			/* a target, and a time or STOP */
	ARGUMENT_OF_CLIENT,		/* CLIENT, and an id */
	ARGUMENT_MODE,
	ARGUMENT_IGNORED,		/* any text: options of a transaction */
	ARGUMENT_SETTING		/* name = value, name TO value */
};

struct command_row {
	const char *verb;
	enum command_argument argument;
	bool for_monitor;		/* stats_users may use it too */
	const char *help;		/* may be NULL */
};
extern const struct command_row command_rows[COMMANDS];

struct show_item;
struct command {
	const struct command_row *row;	/* NULL: an empty statement */
	enum command_id id;
	const struct show_item *show;	/* for SHOW of a row, otherwise NULL */
	/* for SHOW of a session parameter: its column; otherwise NULL */
	const char *const *parameter;
	const char *value;		/* the value of that parameter, or of SET */
	const char *name;		/* the argument, unquoted; may be NULL */
	/* the target of DRAIN, with `name`, ...; DISABLE and ENABLE: DRAIN_OF_HOST for a host */
	enum drain_of drain_of;
	int64_t seconds;		/* ... and its time; -1: STOP */
	char *storage;			/* owns name and value */
};

enum command_verdict { COMMAND_PARSE_OK, COMMAND_PARSE_INVALID, COMMAND_PARSE_NO_MEMORY };
/* Parses one statement from sql_next_statement; an empty one is OK. Call command_free in any
   case. */
enum command_verdict command_parse(struct sql_span text, struct command *out);
static inline void command_free(struct command *c)
{
	mem_free(c->storage);
	*c = (struct command){ .row = NULL };
}
#define COMMAND_HINT 128
#define COMMAND_BRIEF 160
/* Explains why a statement is malformed. `hint`: the command that was probably meant, or the syntax
   of its verb. Returns hint, or NULL without a hint. `brief`: the part that may be logged, only the
   verb and the word after it, because the rest may contain a secret. */
const char *command_explain(struct sql_span text, char hint[COMMAND_HINT],
			    char brief[COMMAND_BRIEF]);

/* The session parameters of the console; the name after the last is NULL. */
struct console_param {
	const char *name, *value;
	bool in_welcome;
	const char *columns[1];		/* of SHOW */
};
extern const struct console_param console_params[];
/* Returns the parameter of this name in any case, or NULL. */
const struct console_param *console_param_find(const char *name);

#endif
