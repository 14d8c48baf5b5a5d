/*
 * SQL commands that name prepared statements ("DEALLOCATE", "EXECUTE" in the PostgreSQL documentation).
 *
 * Two searches: a quick one for words, which nearly every text passes without a match, and a reader of statements. The reader knows a statement by
 * its first word. A text that the reader does not understand has no names: the text goes to the server unchanged, and the server reports an unknown
 * statement.
 *
 * U&"..." is not read as a name.
 */
#include "pg/statement_sql.h"

#include "base/inline.h"
#include "pg/sql_lex.h"

#include <string.h>
#include <strings.h>

/* ---- the quick search ---- */

#define SHORTEST (sizeof("DISCARD") - 1)

static ALWAYS_INLINE bool is_at(const uint8_t *at, const uint8_t *end, const char *word)
{
	size_t size = strlen(word);

	return (size_t)(end - at) >= size && strncasecmp((const char *)at, word, size) == 0;
}

static ALWAYS_INLINE bool is_mentioned(const uint8_t *text, size_t size, bool also_execute)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;

	if (!end)
		return true;
	for (; (size_t)(end - text) >= SHORTEST; text++) {
		uint8_t letter = *text | 0x20;

		if ((letter == 'd' && (is_at(text, end, "DISCARD") || is_at(text, end, "DEALLOCATE"))) ||
		    (also_execute && letter == 'e' && (text[1] | 0x20) == 'x' && is_at(text, end, "EXECUTE")))
			return true;
	}
	return false;
}

bool deallocate_or_execute_is_mentioned(const uint8_t *text, size_t size)
{
	return is_mentioned(text, size, true);
}

bool deallocate_is_mentioned(const uint8_t *text, size_t size)
{
	return is_mentioned(text, size, false);
}

/* ---- statements ---- */

struct reader {
	struct sql_lexer lexer;
	const char *text;
	int depth;			/* of parentheses: the statements of CREATE RULE are separated by semicolons, too */
};

/* Returns the next token; a semicolon outside of parentheses is LEX_END. */
static struct lex_token next(struct reader *r)
{
	struct lex_token t = lex_next(&r->lexer);

	r->depth += lex_is_mark(&t, '(') - lex_is_mark(&t, ')');
	if (lex_is_mark(&t, ';') && r->depth <= 0) {
		t.kind = LEX_END;
		r->depth = 0;
	}
	return t;
}

static void skip_statement(struct reader *r, struct lex_token t)
{
	while (t.kind != LEX_END)
		t = next(r);
}

static bool is_identifier(const struct lex_token *t)
{
	return t->kind == LEX_QUOTED_WORD || (t->kind == LEX_WORD && !lex_is_digit(*t->at));
}

static void read_identifier(const struct reader *r, const struct lex_token *t, struct sql_name *n)
{
	bool is_quoted = t->kind == LEX_QUOTED_WORD;
	size_t size = 0;

	for (size_t i = 0; i < t->text_size && size < SQL_NAME_SIZE - 1; i++) {
		char c = t->text[i];

		n->text[size++] = !is_quoted && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
		i += is_quoted && c == '"';
	}
	n->text[size] = 0;
	n->text_size = (uint8_t)(size + 1);
	n->at = (size_t)(t->at - r->text);
	n->size = t->size;
}

/* Reads a statement after DEALLOCATE. The name is the last token; PREPARE is a name if nothing follows. */
static bool read_deallocate(struct reader *r, struct sql_name *n)
{
	struct lex_token t = next(r), after;

	if (t.kind == LEX_END)
		return false;
	after = next(r);
	if (lex_is(&t, "PREPARE") && is_identifier(&after)) {
		t = after;
		after = next(r);
	}
	if (after.kind != LEX_END) {
		skip_statement(r, after);
		return false;
	}
	if (!is_identifier(&t) || lex_is(&t, "ALL"))
		return false;
	n->drops = true;
	read_identifier(r, &t, n);
	return true;
}

/* Reads a statement that begins with this token; the name follows EXECUTE, which follows AS in CREATE TABLE. */
static bool read_execute(struct reader *r, struct lex_token first, struct sql_name *n)
{
	bool creates = lex_is(&first, "CREATE"), follows_as = false;
	struct lex_token t = first;

	if (!creates && !lex_is(&first, "EXECUTE") && !lex_is(&first, "EXPLAIN")) {
		skip_statement(r, t);
		return false;
	}
	while (t.kind != LEX_END && !(lex_is(&t, "EXECUTE") && (follows_as || !creates))) {
		follows_as = lex_is(&t, "AS");
		t = next(r);
	}
	if (t.kind == LEX_END)
		return false;
	t = next(r);
	if (!is_identifier(&t)) {
		skip_statement(r, t);
		return false;
	}
	n->drops = false;
	read_identifier(r, &t, n);
	skip_statement(r, t);
	return true;
}

unsigned statement_sql_read(const uint8_t *text, size_t size, struct sql_name names[SQL_NAMES_MOST])
{
	struct reader r = { lex_begin(text, size), (const char *)text, 0 };
	unsigned count = 0;

	if (r.lexer.is_cut)
		return 0;
	while (r.lexer.at < r.lexer.end && !r.lexer.is_uncertain) {
		struct lex_token first = next(&r);
		struct sql_name n;

		if (first.kind == LEX_END || !(lex_is(&first, "DEALLOCATE") ? read_deallocate(&r, &n) : read_execute(&r, first, &n)))
			continue;
		if (count == SQL_NAMES_MOST)
			return 0;
		names[count++] = n;
	}
	return r.lexer.is_uncertain ? 0 : count;
}

bool statement_sql_ends_database(const uint8_t *text, size_t size, char name[SQL_NAME_SIZE])
{
	struct reader r = { lex_begin(text, size), (const char *)text, 0 };
	struct lex_token verb, t;
	struct sql_name n;
	bool drops;

	if (r.lexer.is_cut)
		return false;
	verb = next(&r);
	drops = lex_is(&verb, "DROP");
	t = next(&r);
	if ((!drops && !lex_is(&verb, "ALTER")) || !lex_is(&t, "DATABASE"))
		return false;
	t = next(&r);
	if (drops && lex_is(&t, "IF")) {
		next(&r);		/* EXISTS */
		t = next(&r);
	}
	if (!is_identifier(&t))
		return false;
	read_identifier(&r, &t, &n);
	memcpy(name, n.text, n.text_size);
	t = next(&r);
	return !r.lexer.is_uncertain && (drops || lex_is(&t, "RENAME"));
}
