/*
 * The lexer for SQL texts ("Lexical Structure" in the PostgreSQL documentation; scan.l in its
 * source). Every reader of SQL texts uses it.
 *
 *	comments	-- to LF or CR; block comments nest
 *	identifiers	a letter, '_' or a byte that is not ASCII, then also digits and '$';
 *			"quoted", with "" for a quote; U&"escaped"
 *	strings		'plain', E'with escapes', N'', B'', X'', U&''; two quotes are one quote of
 *			the text; a string goes on after blanks and comments of -- if a line ends
 *			among them: E'a' -- LF '\'b'
 *	dollar quotes	$tag$ ... $tag$
 *	numbers		1, 1.5, .5, 1e5, and since PostgreSQL 16 1_000, 0x1F, 0o7, 0b1. Other
 *			letters after a number are another token, as before PostgreSQL 15; a later
 *			server rejects the text
 *	parameters	$1
 *	operators	the longest run of operator characters that contains no comment; + and - at
 *			its end belong to the next token, unless one of ~ ! @ # ^ & | ` ? % is in
 *			the operator
 *
 * Where a string ends depends on two things that the text does not say. With
 * standard_conforming_strings = off a backslash in a plain string is an escape. In some encodings
 * of clients (SJIS, BIG5, GBK, GB18030, JOHAB, UHC) the last byte of a character can look like a
 * backslash or another byte of ASCII. If one of these would move the end of a token, the lexer is
 * uncertain, and the text is unproven:
 *
 *	'a\\n'	'a\\\\'	certain: both rules have the same end
 *	'a\\'	uncertain
 *
 * Two quotes inside a quoted token are unchanged in its `text`, and letters are compared in ASCII
 * only.
 *
 * Invariant: lex_next() and lex_scan() move forward unless they return LEX_END; `at` never exceeds
 * `end`.
 */
#include "sql/sql_lex.h"

#include "base/inline.h"

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

/* ---- comments, strings, quoted identifiers ---- */

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

/* The lexer is after the quote that ends a string. Moves after the quote with which the string
   continues. */
static bool continue_string(struct sql_lexer *l)
{
	struct sql_lexer ahead = *l;
	bool has_line = false;

	while (ahead.at < ahead.end && !(*ahead.at == '\'' && has_line)) {
		if (*ahead.at == '-' ? !(lex_is_at(&ahead, "--") && lex_skip_comment(&ahead))
				     : !lex_is_blank(*ahead.at))
			return false;
		has_line |= ahead.at < ahead.end && (*ahead.at == '\n' || *ahead.at == '\r');
		ahead.at += ahead.at < ahead.end;
	}
	if (ahead.at == ahead.end)
		return false;
	l->at = ahead.at + 1;
	return true;
}

/* After a backslash: whether it is an escape decides where the token ends. */
static bool decides_end(const struct sql_lexer *l, const char *backslash, bool has_escapes)
{
	char next = backslash + 1 < l->end ? backslash[1] : '\'';

	if (lex_bytes[(uint8_t)backslash[-1]] & BYTE_NOT_ASCII)
		return next == '\'' || next == '\\';
	return !has_escapes && next == '\'';
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
			if (l->is_fragment || quote == '"' || !continue_string(l))
				return;
			continue;
		}
		if (*l->at == '\\' && quote == '\'') {
			l->is_uncertain |= decides_end(l, l->at, has_escapes);
			/* without escapes, too: the next byte may be a second backslash */
			l->at += has_two && (has_escapes || l->at[1] != quote) ? 2 : 1;
		} else {
			l->at += has_two && *l->at == quote ? 2 : 1;
		}
	}
	t->text_size = (size_t)(l->at - t->text);
	l->is_uncertain = true;
}

/* The lexer is after the tag that begins at t->at. */
static void take_dollar_quoted(struct sql_lexer *l, struct lex_token *t)
{
	size_t size = (size_t)(l->at - t->at), left = (size_t)(l->end - l->at);
	const char *end = memmem(l->at, left, t->at, size);

	/* the tag may be longer in client_encoding */
	for (size_t i = 0; i < size; i++)
		l->is_uncertain |= (lex_bytes[(uint8_t)t->at[i]] & BYTE_NOT_ASCII) != 0;
	t->text = l->at;
	t->text_size = end ? (size_t)(end - l->at) : left;
	l->at += t->text_size + (end ? size : 0);
	l->is_uncertain |= !end;
}

/* Skips blanks and comments. */
static void skip_space(struct sql_lexer *l)
{
	for (; l->at < l->end; l->at++) {
		while (lex_is_at(l, "--") || lex_is_at(l, "/*")) {
			l->is_uncertain |= !lex_skip_comment(l);
			if (l->at == l->end)
				return;
		}
		if (!lex_is_blank(*l->at))
			return;
	}
}

/* The lexer is at a string or a quoted identifier; false: neither. */
static bool take_string(struct sql_lexer *l, struct lex_token *t)
{
	if (*l->at == '\'' || *l->at == '"') {
		t->kind = *l->at == '"' ? LEX_QUOTED_WORD : LEX_STRING;
		take_quoted(l, t, false);
	} else if ((*l->at | 0x20) == 'e' && l->end - l->at >= 2 && l->at[1] == '\'') {
		t->kind = LEX_STRING;
		l->at++;
		take_quoted(l, t, true);
	} else if (lex_skip_tag(l)) {
		t->kind = LEX_STRING;
		take_dollar_quoted(l, t);
	} else {
		return false;
	}
	t->size = (size_t)(l->at - t->at);
	return true;
}

struct lex_token lex_next(struct sql_lexer *l)
{
	struct lex_token t = { .kind = LEX_END };

	do
		skip_space(l);
	while (l->is_fragment && lex_skip_tag(l));
	t.at = t.text = l->at;
	if (l->at == l->end || take_string(l, &t))
		return t;
	if (*l->at != '$' && lex_is_in_name(*l->at))
		return lex_take(l, BYTE_IN_NAME);
	t.kind = LEX_MARK;
	t.size = t.text_size = 1;
	l->at++;
	return t;
}

/* ---- the tokens of PostgreSQL's scanner ---- */

static char byte_at(const struct sql_lexer *l, size_t ahead)
{
	return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : '\0';
}

static void skip_digits(struct sql_lexer *l)
{
	while (lex_is_digit(byte_at(l, 0)) || (byte_at(l, 0) == '_' && lex_is_digit(byte_at(l, 1))))
		l->at++;
}

/* Whether the lexer is at a digit of the base with this letter: x, o or b. */
static bool is_digit_of(char base, char c)
{
	if (base == 'x')
		return lex_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
	return c >= '0' && c <= (base == 'o' ? '7' : '1');
}

static void scan_number(struct sql_lexer *l)
{
	char base = byte_at(l, 1) | 0x20, sign;
	size_t first = 2u + (byte_at(l, 2) == '_');

	if (*l->at == '0' && (base == 'x' || base == 'o' || base == 'b') &&
	    is_digit_of(base, byte_at(l, first))) {
		for (l->at += first; is_digit_of(base, byte_at(l, 0)) ||
				     (byte_at(l, 0) == '_' && is_digit_of(base, byte_at(l, 1)));)
			l->at++;
		return;
	}
	skip_digits(l);
	/* 1..10 are two numbers */
	if (byte_at(l, 0) == '.' && byte_at(l, 1) != '.') {
		l->at++;
		if (lex_is_digit(byte_at(l, 0)))
			skip_digits(l);
	}
	sign = byte_at(l, 1);
	if ((byte_at(l, 0) | 0x20) == 'e' &&
	    lex_is_digit(sign == '+' || sign == '-' ? byte_at(l, 2) : sign)) {
		l->at += 2;
		skip_digits(l);
	}
}

#define OPERATOR_BYTES "~!@#^&|`?+-*/%<>="

/* The lexer is at an operator byte. */
static void scan_operator(struct sql_lexer *l)
{
	const char *begin = l->at;
	bool may_end_with_sign = false;

	for (; l->at < l->end && *l->at && strchr(OPERATOR_BYTES, *l->at); l->at++) {
		if (lex_is_at(l, "--") || lex_is_at(l, "/*"))
			break;
		may_end_with_sign |= !strchr("+-*/<>=", *l->at);
	}
	while (l->at - begin > 1 && !may_end_with_sign && (l->at[-1] == '+' || l->at[-1] == '-'))
		l->at--;
}

/* A name after the lexer is longer in an encoding in which a character ends with a byte of ASCII: a
   letter or digit belongs to the name anyway. */
static void check_last_byte(struct sql_lexer *l)
{
	char next = byte_at(l, 0);

	if (lex_bytes[(uint8_t)l->at[-1]] & BYTE_NOT_ASCII && next >= ':' && next <= '~' &&
	    !lex_is_in_word(next))
		l->is_uncertain = true;
}

struct lex_token lex_scan(struct sql_lexer *l)
{
	struct lex_token t = { .kind = LEX_END };
	char next;

	skip_space(l);
	t.at = t.text = l->at;
	if (l->at == l->end)
		return t;
	next = byte_at(l, 1);
	/* B'', X'', U&'' and U&"" */
	if (next == '\'' && strchr("bBxX", *l->at))
		l->at++;
	else if (next == '&' && (*l->at | 0x20) == 'u' &&
		 (byte_at(l, 2) == '\'' || byte_at(l, 2) == '"'))
		l->at += 2;
	if (take_string(l, &t)) {
		if (t.kind == LEX_QUOTED_WORD && *t.at != '"')
			t.kind = LEX_ESCAPED_WORD;
		return t;
	}
	if (lex_is_digit(*l->at) || (*l->at == '.' && lex_is_digit(next))) {
		t.kind = LEX_NUMBER;
		scan_number(l);
	} else if (*l->at == '$' && lex_is_digit(next)) {
		t.kind = LEX_PARAMETER;
		for (l->at++; lex_is_digit(byte_at(l, 0));)
			l->at++;
	} else if ((*l->at != '$' && lex_is_in_name(*l->at)) || (*l->at == '?' && l->is_source)) {
		t.kind = LEX_WORD;
		while (l->at < l->end &&
		       (lex_is_in_name(*l->at) || (*l->at == '?' && l->is_source)))
			l->at++;
		check_last_byte(l);
	} else if (strchr(OPERATOR_BYTES, *l->at)) {
		t.kind = LEX_OPERATOR;
		scan_operator(l);
	} else {
		t.kind = LEX_MARK;
		l->at += lex_is_at(l, "::") || lex_is_at(l, "..") || lex_is_at(l, ":=") ? 2 : 1;
	}
	t.size = t.text_size = (size_t)(l->at - t.at);
	return t;
}
