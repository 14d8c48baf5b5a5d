/*
 * The lexer for SQL texts: see sql_lex.h.
 *
 * Block comments nest. Two quotes inside a quoted token are one quote of its text. Letters are compared in ASCII only.
 *
 * Invariant: lex_next() moves forward unless it returns LEX_END; `at` never exceeds `end`.
 */
#include "pg/sql_lex.h"

#include <string.h>
#include <strings.h>

#define B BYTE_BLANK
#define W BYTE_IN_WORD
#define N BYTE_NOT_ASCII
#define NOT_ASCII N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N

const uint8_t lex_bytes[256] = {
	0, 0, 0, 0, 0, 0, 0, 0, 0, B, B, B, B, B, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	B, 0, 0, 0, BYTE_DOLLAR, 0, 0, 0, 0, 0, 0, 0, 0, 0, BYTE_DOT, 0,
	W, W, W, W, W, W, W, W, W, W, 0, 0, 0, 0, 0, 0,
	0, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
	W, W, W, W, W, W, W, W, W, W, W, 0, 0, 0, 0, W,
	0, W, W, W, W, W, W, W, W, W, W, W, W, W, W, W,
	W, W, W, W, W, W, W, W, W, W, W, 0, 0, 0, 0, 0,
	NOT_ASCII, NOT_ASCII, NOT_ASCII, NOT_ASCII, NOT_ASCII, NOT_ASCII, NOT_ASCII, NOT_ASCII,
};

struct sql_lexer lex_begin(const uint8_t *text, size_t size)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL;

	return (struct sql_lexer){ .at = begin, .end = nul ? nul : begin + size, .is_cut = !nul };
}

bool lex_equal(const char *at, size_t size, const char *word)
{
	return size == strlen(word) && strncasecmp(at, word, size) == 0;
}

bool lex_is_at(const struct sql_lexer *l, const char *bytes)
{
	size_t size = strlen(bytes);

	return (size_t)(l->end - l->at) >= size && memcmp(l->at, bytes, size) == 0;
}

void lex_skip_blanks(struct sql_lexer *l)
{
	while (l->at < l->end && lex_is_blank(*l->at))
		l->at++;
}

struct lex_token lex_take(struct sql_lexer *l, uint8_t properties)
{
	struct lex_token t = { .kind = LEX_WORD, .at = l->at, .text = l->at };

	while (l->at < l->end && lex_bytes[(uint8_t)*l->at] & properties)
		l->at++;
	t.size = t.text_size = (size_t)(l->at - t.at);
	return t;
}

bool lex_skip_comment(struct sql_lexer *l)
{
	int depth = 0;

	if (lex_is_at(l, "--")) {
		while (l->at < l->end && *l->at != '\n' && *l->at != '\r')
			l->at++;
		return l->at < l->end || !l->is_cut;
	}
	if (!lex_is_at(l, "/*"))
		return false;
	do {
		bool opens = lex_is_at(l, "/*"), closes = lex_is_at(l, "*/");

		depth += opens - closes;
		l->at += opens || closes ? 2 : 1;
	} while (depth > 0 && l->at < l->end);
	return depth == 0;
}

bool lex_skip_tag(struct sql_lexer *l)
{
	const char *at = l->at + 1;

	if (l->at == l->end || *l->at != '$')
		return false;
	if (!l->is_fragment && at < l->end && lex_is_digit(*at))
		return false;
	while (at < l->end && *at != '$' && lex_is_in_name(*at))
		at++;
	if (at == l->end || *at != '$')
		return false;
	l->at = at + 1;
	return true;
}

/* The lexer is at a quote. */
static void take_quoted(struct sql_lexer *l, struct lex_token *t, bool has_escapes)
{
	char quote = *l->at++;

	t->text = l->at;
	while (l->at < l->end) {
		bool has_two = l->end - l->at >= 2;

		if (*l->at == quote && (l->is_fragment || !has_two || l->at[1] != quote)) {
			t->text_size = (size_t)(l->at++ - t->text);
			return;
		}
		if (*l->at == '\\' && quote == '\'' && !has_escapes)
			l->is_uncertain = true;
		l->at += has_two && (*l->at == quote || (has_escapes && *l->at == '\\')) ? 2 : 1;
	}
	t->text_size = (size_t)(l->at - t->text);
	l->is_uncertain = true;
}

struct lex_token lex_next(struct sql_lexer *l)
{
	struct lex_token t = { .kind = LEX_END };

	while (l->at < l->end) {
		if (lex_is_blank(*l->at))
			l->at++;
		else if (lex_is_at(l, "--") || lex_is_at(l, "/*"))
			lex_skip_comment(l);
		else if (!l->is_fragment || !lex_skip_tag(l))
			break;
	}
	t.at = t.text = l->at;
	if (l->at == l->end)
		return t;
	if (*l->at == '\'' || *l->at == '"') {
		t.kind = *l->at == '"' ? LEX_QUOTED_WORD : LEX_STRING;
		take_quoted(l, &t, false);
	} else if (lex_is_at(l, "E'") || lex_is_at(l, "e'")) {
		t.kind = LEX_STRING;
		l->at++;
		take_quoted(l, &t, true);
	} else if (lex_skip_tag(l)) {
		size_t size = (size_t)(l->at - t.at);

		/* the same tag ends the string */
		t.kind = LEX_STRING;
		t.text = l->at;
		while ((size_t)(l->end - l->at) >= size && memcmp(l->at, t.at, size) != 0)
			l->at++;
		t.text_size = (size_t)(l->at - t.text);
		if ((size_t)(l->end - l->at) >= size)
			l->at += size;
		else
			l->is_uncertain = true;
	} else if (*l->at != '$' && lex_is_in_name(*l->at)) {
		return lex_take(l, BYTE_IN_NAME);
	} else {
		t.kind = LEX_MARK;
		t.text_size = 1;
		l->at++;
	}
	t.size = (size_t)(l->at - t.at);
	return t;
}
