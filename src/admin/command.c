/*
 * The grammar of the console: a verb, then at most one argument, quoted or unquoted, in any case;
 * SET has a name, "=" or TO, and a value, which may be unquoted words up to the end of the
 * statement. The verbs come from command.tbl, and the items of SHOW from show.tbl.
 *
 * Invariant: a parsed command refers to rows of tables and to strings in its own storage, never to
 * the text.
 */
#include "admin/command.h"

#include "base/mem.h"
#include "base/text.h"
#include "show/show.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MOST 64		/* of a verb or an item */
#define SHOWS_MOST 64		/* items that a misspelt item is compared with */

const struct command_row command_rows[COMMANDS] = {
#define MONITOR true
#define ADMIN false
#define COMMAND(verb, argument, access, help) \
	[COMMAND_##verb] = { #verb, ARGUMENT_##argument, access, help },
#include "tbl/command.tbl"
#undef COMMAND
#undef MONITOR
#undef ADMIN
};

const struct console_param console_params[] = {
#define CONSOLE_PARAM(name, value, in_welcome) { #name, value, in_welcome, { #name ":text" } },
#include "tbl/console_param.tbl"
#undef CONSOLE_PARAM
	{ NULL, NULL, false, { NULL } }
};

const struct console_param *console_param_find(const char *name)
{
	for (const struct console_param *p = console_params; p->name; p++)
		if (text_equal_fold(p->name, name))
			return p;
	return NULL;
}

/* ---- the lexer ---- */

/*
 * The part of "Lexical Structure" of the PostgreSQL documentation that the console needs: comments
 * of both kinds (block comments nest; monitoring agents put them before their queries) count as
 * blanks, and a quote within quotes is doubled. Unquoted names keep their case, because databases
 * are looked up with the case of the configuration file.
 *
 * Invariant: every token, and every call that finds an unterminated token, moves forward; tokens
 * never overlap and never leave the text.
 */

static bool command_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static void command_skip(struct sql_span *s, size_t size)
{
	s->at += size;
	s->size -= size;
}

static bool command_begins(const struct sql_span *s, size_t from, const char *two)
{
	return s->size - from >= 2 && s->at[from] == two[0] && s->at[from + 1] == two[1];
}

/* Returns the size of the block comment at the front, or 0 if it is unterminated. */
static size_t block_comment(const struct sql_span *s)
{
	size_t i = 2, depth = 1;

	while (i < s->size) {
		if (command_begins(s, i, "*/")) {
			i += 2;
			if (--depth == 0)
				return i;
		} else if (command_begins(s, i, "/*")) {
			i += 2;
			depth++;
		} else {
			i++;
		}
	}
	return 0;
}

/* False: an unterminated block comment is at the front. */
static bool command_skip_blanks(struct sql_span *s)
{
	for (;;) {
		size_t size = 0;

		if (s->size > 0 && command_is_blank(s->at[0])) {
			size = 1;
		} else if (command_begins(s, 0, "--")) {
			const char *newline = memchr(s->at, '\n', s->size);

			size = newline ? (size_t)(newline - s->at) : s->size;
		} else if (command_begins(s, 0, "/*")) {
			size = block_comment(s);
			if (size == 0)
				return false;
		}
		if (size == 0)
			return true;
		command_skip(s, size);
	}
}

/* Returns the size of the quoted token at the front, or 0 if it is unterminated. */
static size_t quoted(const struct sql_span *s)
{
	char quote = s->at[0];

	for (size_t i = 1; i < s->size; i++) {
		if (s->at[i] != quote)
			continue;
		if (i + 1 == s->size || s->at[i + 1] != quote)
			return i + 1;
		i++;
	}
	return 0;
}

enum sql_token sql_next_token(struct sql_span *rest, struct sql_span *out)
{
	enum sql_token token = SQL_WORD;
	size_t size;

	if (!command_skip_blanks(rest)) {
		*out = *rest;
		command_skip(rest, rest->size);
		return SQL_BAD;
	}
	*out = (struct sql_span){ rest->at, 0 };
	if (rest->size == 0)
		return SQL_END;
	switch (rest->at[0]) {
	case '\'':
	case '"':
		token = rest->at[0] == '"' ? SQL_IDENTIFIER : SQL_STRING;
		size = quoted(rest);
		if (size == 0) {
			token = SQL_BAD;
			size = rest->size;
		}
		break;
	case ';':
	case '=':
		token = SQL_SIGN;
		size = 1;
		break;
	default:
		for (size = 1; size < rest->size; size++)
			if (command_is_blank(rest->at[size]) ||
			    memchr("'\";=", rest->at[size], 4) ||
			    command_begins(rest, size, "--") || command_begins(rest, size, "/*"))
				break;
	}
	out->size = size;
	command_skip(rest, size);
	return token;
}

bool sql_next_statement(struct sql_span *rest, struct sql_span *out)
{
	const char *begin = NULL, *end = NULL;
	struct sql_span token;

	for (;;) {
		enum sql_token kind = sql_next_token(rest, &token);
		bool is_over = kind == SQL_END || (kind == SQL_SIGN && token.at[0] == ';');

		if (is_over && begin) {
			*out = (struct sql_span){ begin, (size_t)(end - begin) };
			return true;
		}
		if (kind == SQL_END)
			return false;
		if (is_over)
			continue;
		if (!begin)
			begin = token.at;
		end = token.at + token.size;
	}
}

/* ---- the grammar ---- */

/* Takes an unquoted word of keyword length as a string. */
static bool command_take_word(struct sql_span *rest, char *to)
{
	struct sql_span word;

	if (sql_next_token(rest, &word) != SQL_WORD || word.size >= NAME_MOST)
		return false;
	memcpy(to, word.at, word.size);
	to[word.size] = '\0';
	return true;
}

static bool command_is_over(struct sql_span rest)
{
	struct sql_span none;

	return sql_next_token(&rest, &none) == SQL_END;
}

/* Writes the value of a token, without quotes and with doubled quotes reduced, at *to, which moves
   after it: at most raw.size bytes, and a NUL. */
static const char *command_store(enum sql_token token, struct sql_span raw, char **to)
{
	char *text = *to;
	bool is_quoted = token == SQL_IDENTIFIER || token == SQL_STRING;

	for (size_t i = is_quoted; i + is_quoted < raw.size; i++) {
		*(*to)++ = raw.at[i];
		if (is_quoted && raw.at[i] == raw.at[0])
			i++;
	}
	*(*to)++ = '\0';
	return text;
}

static bool parse_optional(struct sql_span *rest, struct command *out, char *to)
{
	struct sql_span raw;
	enum sql_token token = sql_next_token(rest, &raw);

	if (token == SQL_END)
		return true;
	if (token != SQL_WORD && token != SQL_IDENTIFIER && token != SQL_STRING)
		return false;
	out->name = command_store(token, raw, &to);
	return true;
}

static bool parse_item(struct sql_span *rest, struct command *out)
{
	const struct console_param *param;
	char word[NAME_MOST];

	if (!command_take_word(rest, word))
		return false;
	/* SHOW REASONS ALL is the row REASONS_ALL */
	while (!command_is_over(*rest)) {
		size_t size = strlen(word);
		char next[NAME_MOST];

		if (!command_take_word(rest, next) || size + 1 + strlen(next) >= sizeof(word))
			return false;
		word[size] = '_';
		text_copy(word + size + 1, sizeof(word) - size - 1, next);
	}
	out->show = show_find(word);
	if (out->show)
		return true;
	param = console_param_find(word);
	if (!param)
		return false;
	out->parameter = param->columns;
	out->value = param->value;
	return true;
}

/* Parses name = value and name TO value; the value is quoted, or all remaining text. */
static bool parse_setting(struct sql_span *rest, struct command *out, char *to)
{
	struct sql_span raw, bare;
	enum sql_token token = sql_next_token(rest, &raw);
	bool assigns;

	if (token != SQL_WORD && token != SQL_IDENTIFIER)
		return false;
	out->name = command_store(token, raw, &to);
	token = sql_next_token(rest, &raw);
	assigns = (token == SQL_SIGN && raw.at[0] == '=') ||
		  (token == SQL_WORD && raw.size == 2 && (raw.at[0] | 0x20) == 't' &&
		   (raw.at[1] | 0x20) == 'o');
	if (!assigns)
		return false;
	bare = *rest;
	token = sql_next_token(rest, &raw);
	if (token == SQL_END)
		return false;
	if ((token == SQL_IDENTIFIER || token == SQL_STRING) && command_is_over(*rest)) {
		out->value = command_store(token, raw, &to);
		return true;
	}
	bare.size -= (size_t)(raw.at - bare.at);
	bare.at = raw.at;
	for (; token != SQL_END; token = sql_next_token(rest, &raw))
		if (token == SQL_BAD)
			return false;
	out->value = command_store(SQL_WORD, bare, &to);
	return true;
}

static bool command_is_word(enum sql_token token, const struct sql_span *raw, const char *word)
{
	return token == SQL_WORD && raw->size == strlen(word) &&
	       strncasecmp(raw->at, word, raw->size) == 0;
}

/* Parses [db | USER name | HOST name] [OVER n [SECONDS] | STOP]. A database with one of these names
   needs quotes. */
static bool parse_drain(struct sql_span *rest, struct command *out, char *to)
{
	struct sql_span raw;
	enum sql_token token = sql_next_token(rest, &raw);
	char number[NAME_MOST];

	out->drain_of = DRAIN_OF_DATABASE;
	if (token == SQL_END || command_is_word(token, &raw, "OVER") ||
	    command_is_word(token, &raw, "STOP")) {
		out->drain_of = DRAIN_OF_ALL;
	} else {
		if (command_is_word(token, &raw, "USER") || command_is_word(token, &raw, "HOST")) {
			out->drain_of = command_is_word(token, &raw, "USER") ? DRAIN_OF_USER
									     : DRAIN_OF_HOST;
			token = sql_next_token(rest, &raw);
		}
		if (token != SQL_WORD && token != SQL_IDENTIFIER && token != SQL_STRING)
			return false;
		out->name = command_store(token, raw, &to);
		token = sql_next_token(rest, &raw);
	}
	if (command_is_word(token, &raw, "STOP"))
		out->seconds = -1;
	if (token == SQL_END || out->seconds < 0)
		return true;
	if (!command_is_word(token, &raw, "OVER") || !command_take_word(rest, number) ||
	    !text_to_int64(number, &out->seconds) || out->seconds < 0 ||
	    out->seconds > DRAIN_SECONDS_MOST)
		return false;
	token = sql_next_token(rest, &raw);
	return token == SQL_END || command_is_word(token, &raw, "SECONDS") ||
	       command_is_word(token, &raw, "SECOND");
}

/* Parses db, or HOST name. DISABLE HOST is about a database with this name. */
static bool parse_database_or_host(struct sql_span *rest, struct command *out, char *to)
{
	struct sql_span raw, behind = *rest;
	enum sql_token token = sql_next_token(&behind, &raw);

	if (command_is_word(token, &raw, "HOST") && !command_is_over(behind)) {
		out->drain_of = DRAIN_OF_HOST;
		*rest = behind;
	}
	return parse_optional(rest, out, to);
}

static bool parse_argument(struct sql_span *rest, struct command *out)
{
	struct sql_span raw;
	char word[NAME_MOST];

	switch (out->row->argument) {
	case ARGUMENT_NOTHING:
		return true;
	case ARGUMENT_ITEM:
		return parse_item(rest, out);
	case ARGUMENT_DATABASE:
	case ARGUMENT_DATABASE_OR_ALL:
	case ARGUMENT_CLIENT:
		return parse_optional(rest, out, out->storage);
	case ARGUMENT_DATABASE_OR_HOST:
		return parse_database_or_host(rest, out, out->storage);
	case ARGUMENT_DRAIN:
		return parse_drain(rest, out, out->storage);
	case ARGUMENT_OF_CLIENT:
		return command_take_word(rest, word) && text_equal_fold(word, "CLIENT") &&
		       parse_optional(rest, out, out->storage);
	case ARGUMENT_MODE:
		return parse_optional(rest, out, out->storage) &&
		       (!out->name || text_equal_fold(out->name, "WAIT_FOR_SERVERS") ||
			text_equal_fold(out->name, "WAIT_FOR_CLIENTS"));
	case ARGUMENT_IGNORED:
		while (!command_is_over(*rest))
			if (sql_next_token(rest, &raw) == SQL_BAD)
				return false;
		return true;
	case ARGUMENT_SETTING:
		return parse_setting(rest, out, out->storage);
	}
	return false;
}

static const struct command_row *find_verb(const char *word)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (text_equal_fold(command_rows[i].verb, word))
			return &command_rows[i];
	return NULL;
}

/* Returns the item of SHOW that is nearest to a word. */
static const char *nearest_item(const char *word)
{
	const char *names[SHOWS_MOST];
	size_t count = 0;

	for (const struct show_item *row; count < SHOWS_MOST && (row = show_at(count)) != NULL;
	     count++)
		names[count] = row->name;
	return text_nearest(word, names, count);
}

static void upper(char *word)
{
	for (; *word; word++)
		if (*word >= 'a' && *word <= 'z')
			*word -= 'a' - 'A';
}

const char *command_explain(struct sql_span text, char hint[COMMAND_HINT],
			    char brief[COMMAND_BRIEF])
{
	char word[NAME_MOST], argument[NAME_MOST];
	const char *nearest, *verbs[COMMANDS];
	const struct command_row *row;
	struct sql_span rest;
	bool has_argument;

	snprintf(brief, COMMAND_BRIEF, "...");
	if (!command_take_word(&text, word))
		return NULL;
	row = find_verb(word);
	rest = text;
	has_argument = command_take_word(&rest, argument);
	if (command_is_over(text))
		snprintf(brief, COMMAND_BRIEF, "%s", word);
	else if (row && row->argument != ARGUMENT_SETTING && has_argument && command_is_over(rest))
		snprintf(brief, COMMAND_BRIEF, "%s %s", word, argument);
	else
		snprintf(brief, COMMAND_BRIEF, "%s ...", word);
	if (row && row->help) {
		snprintf(hint, COMMAND_HINT, "The command is: %s", row->help);
		return hint;
	}
	if (row && row->argument == ARGUMENT_ITEM && has_argument) {
		upper(argument);
		nearest = nearest_item(argument);
		snprintf(hint, COMMAND_HINT, "Did you mean \"SHOW %s\"?", nearest ? nearest : "");
		return nearest ? hint : NULL;
	}
	upper(word);
	for (size_t i = 0; i < COMMANDS; i++)
		verbs[i] = command_rows[i].verb;
	nearest = row ? NULL : text_nearest(word, verbs, COMMANDS);
	if (nearest)
		snprintf(hint, COMMAND_HINT, "Did you mean \"%s\"?", nearest);
	else if (!row && (nearest = nearest_item(word)) != NULL)
		snprintf(hint, COMMAND_HINT, "Did you mean \"SHOW %s\"?", nearest);
	return nearest ? hint : NULL;
}

enum command_verdict command_parse(struct sql_span text, struct command *out)
{
	char word[NAME_MOST];

	*out = (struct command){ .row = NULL };
	if (command_is_over(text))
		return COMMAND_PARSE_OK;
	if (!command_take_word(&text, word) || !(out->row = find_verb(word)))
		return COMMAND_PARSE_INVALID;
	out->id = (enum command_id)(out->row - command_rows);
	/* name and value, each with a NUL */
	out->storage = mem_try(text.size + 2);
	if (!out->storage)
		return COMMAND_PARSE_NO_MEMORY;
	return parse_argument(&text, out) && command_is_over(text) ? COMMAND_PARSE_OK
								   : COMMAND_PARSE_INVALID;
}

