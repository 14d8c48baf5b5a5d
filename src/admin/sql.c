/*
 * The lexer of the console. It implements the part of "Lexical Structure" of the PostgreSQL documentation that the console
 * needs: comments of both kinds (block comments nest; monitoring agents put them before their queries) count as blanks, and a
 * quote within quotes is doubled. Unquoted names keep their case, because databases are looked up with the case of the
 * configuration file.
 *
 * Invariant: every token, and every call that finds an unterminated token, moves forward; tokens never overlap and never leave
 * the text.
 */
#include "admin/sql.h"

#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static void skip(struct sql_span *s, size_t size)
{
	s->at += size;
	s->size -= size;
}

static bool begins(const struct sql_span *s, size_t from, const char *two)
{
	return s->size - from >= 2 && s->at[from] == two[0] && s->at[from + 1] == two[1];
}

/* Returns the size of the block comment at the front, or 0 if it is unterminated. */
static size_t block_comment(const struct sql_span *s)
{
	size_t i = 2, depth = 1;

	while (i < s->size) {
		if (begins(s, i, "*/")) {
			i += 2;
			if (--depth == 0)
				return i;
		} else if (begins(s, i, "/*")) {
			i += 2;
			depth++;
		} else {
			i++;
		}
	}
	return 0;
}

/* False: an unterminated block comment is at the front. */
static bool skip_blanks(struct sql_span *s)
{
	for (;;) {
		size_t size = 0;

		if (s->size > 0 && is_blank(s->at[0])) {
			size = 1;
		} else if (begins(s, 0, "--")) {
			const char *newline = memchr(s->at, '\n', s->size);

			size = newline ? (size_t)(newline - s->at) : s->size;
		} else if (begins(s, 0, "/*")) {
			size = block_comment(s);
			if (size == 0)
				return false;
		}
		if (size == 0)
			return true;
		skip(s, size);
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

	if (!skip_blanks(rest)) {
		*out = *rest;
		skip(rest, rest->size);
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
			if (is_blank(rest->at[size]) || memchr("'\";=", rest->at[size], 4) || begins(rest, size, "--") || begins(rest, size, "/*"))
				break;
	}
	out->size = size;
	skip(rest, size);
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
