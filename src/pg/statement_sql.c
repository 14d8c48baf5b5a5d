/*
 * Prepared statements that SQL names ("DEALLOCATE", "EXECUTE" in the PostgreSQL documentation).
 *
 * The text is cut into tokens by the rules of PostgreSQL's lexer, and into statements by semicolons. A statement counts by its first word.
 * Letters are folded in ASCII only. A text that this file does not understand has no names: it goes to the server unchanged, and the server reports
 * an unknown statement.
 *
 * U&"..." is not read as a name.
 */
#include "pg/statement_sql.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum token_kind {
	TOKEN_END,		/* of a statement: ';', or the end of the text */
	TOKEN_WORD,
	TOKEN_QUOTED,		/* "a word" */
	TOKEN_OTHER
};

struct token {
	enum token_kind kind;
	const char *at;
	size_t size;
};

struct lexer {
	const char *at, *end;
	int depth;		/* of parentheses */
	bool failed;
};

static bool is_in_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

static bool begins(const struct lexer *l, const char *what)
{
	size_t size = strlen(what);

	return (size_t)(l->end - l->at) >= size && memcmp(l->at, what, size) == 0;
}

/* At two hyphens or at a slash and a star. */
static void skip_comment(struct lexer *l)
{
	int depth = 0;

	if (*l->at == '-') {
		while (l->at < l->end && *l->at != '\n' && *l->at != '\r')
			l->at++;
		return;
	}
	do {
		bool opens = begins(l, "/*"), closes = begins(l, "*/");

		depth += opens - closes;
		l->at += opens || closes ? 2 : 1;
	} while (depth > 0 && l->at < l->end);
}

static void skip_blanks(struct lexer *l)
{
	while (l->at < l->end) {
		if (begins(l, "--") || begins(l, "/*"))
			skip_comment(l);
		else if (isspace((unsigned char)*l->at))
			l->at++;
		else
			break;
	}
}

/* At a quote. Two quotes inside are one. Whether a backslash escapes hangs on a parameter, unless the string is E'...'. */
static void skip_quoted(struct lexer *l, bool escapes)
{
	char quote = *l->at++;

	while (l->at < l->end) {
		if (*l->at == '\\' && quote == '\'') {
			l->failed |= !escapes;
			l->at++;
		} else if (*l->at == quote) {
			if (l->end - l->at < 2 || l->at[1] != quote) {
				l->at++;
				return;
			}
			l->at++;
		}
		if (l->at < l->end)
			l->at++;
	}
	l->failed = true;
}

/* At a '$' that does not begin a dollar quote: a parameter, or nothing. */
static void skip_dollar(struct lexer *l)
{
	const char *tag = l->at++;
	size_t size;

	while (l->at < l->end && *l->at != '$' && is_in_word(*l->at) && !isdigit((unsigned char)tag[1]))
		l->at++;
	if (l->at == l->end || *l->at != '$') {
		l->at = tag + 1;
		return;
	}
	size = (size_t)(++l->at - tag);
	while ((size_t)(l->end - l->at) >= size && memcmp(l->at, tag, size) != 0)
		l->at++;
	l->failed |= (size_t)(l->end - l->at) < size;
	l->at += l->failed ? 0 : size;
}

static struct token next(struct lexer *l)
{
	struct token t = { TOKEN_OTHER, NULL, 0 };
	char c;

	skip_blanks(l);
	t.at = l->at;
	if (l->at >= l->end) {
		t.kind = TOKEN_END;
		return t;
	}
	c = *l->at;
	if (isdigit((unsigned char)c)) {
		while (l->at < l->end && is_in_word(*l->at))
			l->at++;
	} else if (c == '\'' || c == '"') {
		skip_quoted(l, false);
		t.kind = c == '"' ? TOKEN_QUOTED : TOKEN_OTHER;
	} else if (c == '$') {
		skip_dollar(l);
	} else if (is_in_word(c)) {
		while (l->at < l->end && is_in_word(*l->at))
			l->at++;
		t.kind = TOKEN_WORD;
		if (l->at - t.at == 1 && (c | 0x20) == 'e' && l->at < l->end && *l->at == '\'') {
			skip_quoted(l, true);
			t.kind = TOKEN_OTHER;
		}
	} else {
		l->depth += (c == '(') - (c == ')');
		if (c == ';' && l->depth <= 0) {
			t.kind = TOKEN_END;
			l->depth = 0;
		}
		l->at++;
	}
	t.size = (size_t)(l->at - t.at);
	return t;
}

static bool is_word(const struct token *t, const char *word)
{
	return t->kind == TOKEN_WORD && t->size == strlen(word) && strncasecmp(t->at, word, t->size) == 0;
}

static bool is_identifier(const struct token *t)
{
	return t->kind == TOKEN_WORD || t->kind == TOKEN_QUOTED;
}

static char folded(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static void read_identifier(struct sql_name *n, const struct token *t, const char *text)
{
	bool quoted = t->kind == TOKEN_QUOTED;
	const char *at = t->at + quoted, *end = t->at + t->size - quoted;
	size_t size = 0;

	for (; at < end && size < SQL_NAME_SIZE - 1; at++) {
		n->text[size++] = quoted ? *at : folded(*at);
		at += quoted && *at == '"';
	}
	n->text[size] = 0;
	n->text_size = (uint8_t)(size + 1);
	n->at = (size_t)(t->at - text);
	n->size = t->size;
}

/* The rest of a statement. */
static void skip_statement(struct lexer *l, struct token t)
{
	while (t.kind != TOKEN_END)
		t = next(l);
}

/* After DEALLOCATE: the name is the last token of the statement. A single PREPARE is a name. */
static bool read_deallocate(struct lexer *l, struct sql_name *n, const char *text)
{
	struct token t = next(l), after;

	if (t.kind == TOKEN_END)
		return false;
	after = next(l);
	if (is_word(&t, "PREPARE") && is_identifier(&after)) {
		t = after;
		after = next(l);
	}
	if (after.kind != TOKEN_END) {
		skip_statement(l, after);
		return false;
	}
	if (!is_identifier(&t) || is_word(&t, "ALL"))
		return false;
	n->drops = true;
	read_identifier(n, &t, text);
	return true;
}

/* Reads a statement with this first token up to its EXECUTE and the name after EXECUTE. */
static bool read_execute(struct lexer *l, struct token first, struct sql_name *n, const char *text)
{
	bool creates = is_word(&first, "CREATE"), has_as = false;
	struct token t = first;

	if (!creates && !is_word(&first, "EXECUTE") && !is_word(&first, "EXPLAIN")) {
		skip_statement(l, t);
		return false;
	}
	while (t.kind != TOKEN_END && !(is_word(&t, "EXECUTE") && (has_as || !creates))) {
		has_as = is_word(&t, "AS");
		t = next(l);
	}
	if (t.kind == TOKEN_END)
		return false;
	t = next(l);
	if (!is_identifier(&t)) {
		skip_statement(l, t);
		return false;
	}
	n->drops = false;
	read_identifier(n, &t, text);
	skip_statement(l, t);
	return true;
}

unsigned statement_sql_read(const uint8_t *text, size_t size, struct sql_name names[SQL_NAMES_MOST])
{
	const uint8_t *nul = size > 0 ? memchr(text, 0, size) : NULL;
	struct lexer l = { (const char *)text, (const char *)nul, 0, false };
	unsigned count = 0;

	if (!nul)
		return 0;
	while (l.at < l.end && !l.failed) {
		struct token first = next(&l);
		struct sql_name n;
		bool found;

		if (first.kind == TOKEN_END)
			continue;
		found = is_word(&first, "DEALLOCATE") ? read_deallocate(&l, &n, (const char *)text) : read_execute(&l, first, &n, (const char *)text);
		if (!found)
			continue;
		if (count == SQL_NAMES_MOST)
			return 0;
		names[count++] = n;
	}
	return l.failed ? 0 : count;
}

bool statement_sql_ends_database(const uint8_t *text, size_t size, char name[SQL_NAME_SIZE])
{
	const uint8_t *nul = size > 0 ? memchr(text, 0, size) : NULL;
	struct lexer l = { (const char *)text, (const char *)nul, 0, false };
	struct token verb, t;
	struct sql_name n;
	bool drops;

	if (!nul)
		return false;
	verb = next(&l);
	drops = is_word(&verb, "DROP");
	t = next(&l);
	if ((!drops && !is_word(&verb, "ALTER")) || !is_word(&t, "DATABASE"))
		return false;
	t = next(&l);
	if (drops && is_word(&t, "IF")) {
		next(&l);		/* EXISTS */
		t = next(&l);
	}
	if (!is_identifier(&t))
		return false;
	read_identifier(&n, &t, (const char *)text);
	memcpy(name, n.text, n.text_size);
	t = next(&l);
	return !l.failed && (drops || is_word(&t, "RENAME"));
}
