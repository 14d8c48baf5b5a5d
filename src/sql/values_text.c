/*
 * Recognises texts that are one call of currval or lastval:
 *
 *	SELECT lastval()	SELECT currval('name')
 *	SELECT CURRVAL($1)	SELECT pg_catalog.currval('"S".name'::regclass) AS id;
 *	SELECT currval(pg_get_serial_sequence('table', 'column'))
 *
 * Drivers and frameworks send these after an INSERT: PDO (lastInsertId), MyBatis (selectKey),
 * Hibernate. pgweir can replace the call by another expression (state/session_values.c), because
 * the text has no other effect and the end of each token is certain: strings with backslashes,
 * escape strings and dollar quotes are another shape.
 */
#include "sql/values_text.h"

#include "sql/sql_lex.h"

#include <string.h>

/* Whether the token is this name, without regard to case, or the same name in double quotes. */
static bool is_function(const struct lex_token *t, const char *name)
{
	return lex_is(t, name) || (t->kind == LEX_QUOTED_WORD && t->text_size == strlen(name) &&
				   memcmp(t->text, name, t->text_size) == 0);
}

/* Reads a name, which "pg_catalog." may precede; *at is its first byte. */
static struct lex_token read_function(struct sql_lexer *l, const char **at)
{
	struct lex_token name = lex_next(l), dot;
	struct sql_lexer after = *l;

	*at = name.at;
	if (!is_function(&name, "pg_catalog"))
		return name;
	dot = lex_next(&after);
	if (!lex_is_mark(&dot, '.'))
		return name;
	*l = after;
	return lex_next(l);
}

static bool is_plain_string(const struct lex_token *t)
{
	return t->kind == LEX_STRING && *t->at == '\'';
}

/* After the name of pg_get_serial_sequence. */
static bool skip_serial(struct sql_lexer *l)
{
	struct lex_token opening = lex_next(l), table = lex_next(l), comma = lex_next(l),
			 column = lex_next(l), closing = lex_next(l);

	return lex_is_mark(&opening, '(') && is_plain_string(&table) && lex_is_mark(&comma, ',') &&
	       is_plain_string(&column) && lex_is_mark(&closing, ')');
}

/* Reads the argument of currval and the closing parenthesis; `closing` is that token. */
static bool read_argument(struct sql_lexer *l, struct lex_token *closing, const char **argument)
{
	struct lex_token t, type;
	const char *at;

	t = read_function(l, argument);
	if (lex_is_mark(&t, '$')) {
		struct lex_token number = lex_next(l);

		if (number.kind != LEX_WORD || number.at != t.at + 1 || !lex_is_digit(*number.at))
			return false;
	} else if (is_function(&t, "pg_get_serial_sequence")) {
		if (!skip_serial(l))
			return false;
	} else if (!is_plain_string(&t)) {
		return false;
	}
	for (*closing = lex_next(l); lex_is_mark(closing, ':'); *closing = lex_next(l)) {
		t = lex_next(l);
		type = read_function(l, &at);
		if (!lex_is_mark(&t, ':') ||
		    (!is_function(&type, "regclass") && !is_function(&type, "text")))
			return false;
	}
	return lex_is_mark(closing, ')');
}

bool values_text_read(const uint8_t *text, size_t size, struct values_text *read)
{
	struct sql_lexer l = lex_begin(text, size);
	struct lex_token t, closing;
	const char *call, *argument;

	if (l.is_cut || l.end - l.at > VALUES_TEXT_MOST ||
	    memchr(l.at, '\\', (size_t)(l.end - l.at)))
		return false;
	t = lex_next(&l);
	if (!lex_is(&t, "select"))
		return false;
	t = read_function(&l, &call);
	read->is_last = is_function(&t, "lastval");
	if (!read->is_last && !is_function(&t, "currval"))
		return false;
	t = lex_next(&l);
	if (!lex_is_mark(&t, '('))
		return false;
	if (read->is_last) {
		closing = lex_next(&l);
		argument = closing.at;
		if (!lex_is_mark(&closing, ')'))
			return false;
	} else if (!read_argument(&l, &closing, &argument)) {
		return false;
	}
	read->call = (size_t)(call - (const char *)text);
	read->argument = (size_t)(argument - (const char *)text);
	read->argument_end = (size_t)(closing.at - (const char *)text);
	read->call_end = read->argument_end + closing.size;
	t = lex_next(&l);
	read->is_named = t.kind == LEX_WORD || t.kind == LEX_QUOTED_WORD;
	if (lex_is(&t, "as"))
		t = lex_next(&l);
	if (t.kind == LEX_WORD || t.kind == LEX_QUOTED_WORD)
		t = lex_next(&l);
	while (lex_is_mark(&t, ';'))
		t = lex_next(&l);
	return t.kind == LEX_END && !l.is_uncertain;
}
