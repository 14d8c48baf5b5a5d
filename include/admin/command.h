#ifndef ADMIN_COMMAND_H
#define ADMIN_COMMAND_H

#include "show/result.h"
#include "admin/sql.h"

#include <stdbool.h>

/*
 * One statement of the console, parsed: verb and arguments. Parsing knows the grammar and nothing
 * of the world: whether a database exists, or a user may, is found out when the command runs.
 */
enum command_id {
#define COMMAND(verb, argument, access, help) COMMAND_##verb,
#include "tbl/command.tbl"
#undef COMMAND
	COMMANDS
};

enum command_argument {
	ARGUMENT_NOTHING,
	ARGUMENT_ITEM,			/* a row of show.tbl, or one of console_param.tbl */
	ARGUMENT_DATABASE,		/* may be left out, so that the refusal can say what is missing */
	ARGUMENT_DATABASE_OR_ALL,
	ARGUMENT_CLIENT,
	ARGUMENT_MODE,
	ARGUMENT_SETTING		/* name = value, name TO value */
};

struct command_row {
	const char *verb;
	enum command_argument argument;
	bool for_monitor;		/* stats_users may use it too */
	const char *help;		/* or NULL */
};
const struct command_row *command_row(enum command_id id);

struct show_item;
struct command {
	const struct command_row *row;	/* NULL: an empty statement */
	enum command_id id;
	const struct show_item *show;	/* SHOW of a row, else NULL */
	const char *const *parameter;	/* SHOW of a session parameter: its one column; else NULL */
	const char *value;		/* that parameter's value, or what SET sets */
	const char *name;		/* the argument, quotes taken off; NULL: none */
	char *storage;			/* owns name and value */
};

enum command_verdict { COMMAND_OK, COMMAND_INVALID, COMMAND_NO_MEMORY };
/* Parses one statement, as sql_next_statement gives it; an empty one is OK. Free with
   command_free in any case. */
enum command_verdict command_parse(struct sql_span text, struct command *out);
void command_free(struct command *command);
/* A hint about a statement that does not parse: the command that was meant, or how its verb is used. NULL: none. Returns buf. */
const char *command_suggest(struct sql_span text, char *buf, size_t size);
#define COMMAND_SUGGESTION 128
#define COMMAND_BRIEF 160
/* What the log may have of a statement that does not parse. A secret may stand in all of it but a verb and the one word after it. */
const char *command_brief(struct sql_span text, char buf[COMMAND_BRIEF]);

/* The columns of its result, with our own ones when `extra`. False, and none: it has no rows. */
bool command_columns(const struct command *command, bool extra, const char *const **columns, size_t *count);

/* Session parameters of the console, for the welcome: name and value of each in turn, false
   behind the last. */
bool console_param(size_t index, const char **name, const char **value, bool *in_welcome);
bool is_console_param(const char *name);

#endif
