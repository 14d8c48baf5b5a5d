#ifndef SQL_LEX_H
#define SQL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/*
 * The lexer for SQL texts of clients ("Lexical Structure" in the PostgreSQL documentation). A text
 * is `size` bytes that contain their NUL, or the beginning of a longer text.
 *
 * lex_scan() returns tokens that end where PostgreSQL's scanner ends them. lex_next() returns the
 * same strings, identifiers and comments, and cuts everything else into words and bytes.
 * lex_next_word() returns words only, and also the words inside comments, strings and quoted
 * identifiers. Callers that must not miss a word use lex_next_word(), because the end of a string
 * can depend on standard_conforming_strings, which a text can change.
 */
enum lex_kind {
	LEX_END,
	LEX_WORD,			/* an unquoted identifier, a keyword, or a number */
	LEX_QUOTED_WORD,		/* "an identifier" */
	LEX_STRING,			/* 'a string', E'a string', $$a string$$ */
	LEX_MARK,			/* any other byte */
	/* only of lex_scan() */
	LEX_ESCAPED_WORD,		/* U&"an identifier" */
	LEX_NUMBER,			/* 1, 1.5e3, 0x1F */
	LEX_PARAMETER,			/* $1 */
	LEX_OPERATOR			/* an operator of any length */
};

struct lex_token {
	enum lex_kind kind;
	const char *at;			/* the token with its quotes */
	size_t size;
	/* without quotes; doubled quotes and escapes are unchanged */
	const char *text;
	size_t text_size;
};

struct sql_lexer {
	const char *at, *end;
	bool is_cut;			/* the text continues after `end` */
	bool is_fragment;		/* `at` may be inside a string: see lex_next() */
	/* a string or comment does not end, or the end of a string depends on
	   standard_conforming_strings or client_encoding */
	bool is_uncertain;
	/* the source of a function, in which a question mark replaces each character that is not
	   ASCII */
	bool is_source;
};

/* Properties of bytes, as bits. */
enum {
	/* space, tab, line feed, vertical tab, form feed, carriage return */
	BYTE_BLANK = 1,
	BYTE_IN_WORD = 2,		/* an ASCII letter, a digit, '_' */
	BYTE_DOLLAR = 4,
	BYTE_DOT = 8,
	BYTE_NOT_ASCII = 16,
	BYTE_IN_NAME = BYTE_IN_WORD | BYTE_DOLLAR | BYTE_NOT_ASCII
};
extern const uint8_t lex_bytes[256];

static inline bool lex_is_blank(char c) { return lex_bytes[(uint8_t)c] & BYTE_BLANK; }
static inline bool lex_is_in_word(char c) { return lex_bytes[(uint8_t)c] & BYTE_IN_WORD; }
static inline bool lex_is_in_name(char c) { return lex_bytes[(uint8_t)c] & BYTE_IN_NAME; }
static inline bool lex_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns a lexer at the beginning of the text. */
static inline struct sql_lexer lex_begin(const uint8_t *text, size_t size)
{
	const char *begin = (const char *)text, *nul = size > 0 ? memchr(begin, 0, size) : NULL;

	return (struct sql_lexer){ .at = begin, .end = nul ? nul : begin + size, .is_cut = !nul };
}
/* Returns the next token. In a fragment each quote begins or ends a string, a backslash escapes
   only in E'...', and the tag of a dollar-quoted string is a blank, so that the content of the
   string is read as SQL. */
struct lex_token lex_next(struct sql_lexer *lexer);
/* Returns the next token. Not for fragments. */
struct lex_token lex_scan(struct sql_lexer *lexer);
/* Skips the comment that begins at `at`. Returns whether there is one, and it ends before the end
   of the text. */
bool lex_skip_comment(struct sql_lexer *lexer);
/* The lexer is at the $tag$ that begins or ends a dollar-quoted string, and skips the tag. False:
   there is no tag; '$' belongs to a parameter, or has no meaning. */
bool lex_skip_tag(struct sql_lexer *lexer);

/* Whether the rest of the text begins with these bytes, which are compared with regard to case. */
static inline bool lex_is_at(const struct sql_lexer *l, const char *bytes)
{
	size_t size = strlen(bytes);

	return (size_t)(l->end - l->at) >= size && memcmp(l->at, bytes, size) == 0;
}
/* Does not skip comments. */
static inline void lex_skip_blanks(struct sql_lexer *l)
{
	while (l->at < l->end && lex_is_blank(*l->at))
		l->at++;
}
/* Skips and returns the longest run of bytes with one of the properties; the result has size 0 if
   there is none. */
static inline struct lex_token lex_take(struct sql_lexer *l, uint8_t properties)
{
	struct lex_token t = { .kind = LEX_WORD, .at = l->at, .text = l->at };

	while (l->at < l->end && lex_bytes[(uint8_t)*l->at] & properties)
		l->at++;
	t.size = t.text_size = (size_t)(l->at - t.at);
	return t;
}

/* Compares without regard to case. */
static inline bool lex_equal(const char *at, size_t size, const char *word)
{
	return size == strlen(word) && strncasecmp(at, word, size) == 0;
}
static inline bool lex_is(const struct lex_token *t, const char *word)
{
	return t->kind == LEX_WORD && lex_equal(t->at, t->size, word);
}
static inline bool lex_is_mark(const struct lex_token *t, char c)
{
	return t->kind == LEX_MARK && *t->at == c;
}

/* Returns the size of the next word at or after *at, and moves *at after the word; 0: there is
   none. */
static inline size_t lex_next_word(const char **at, const char *end, const char **word)
{
	while (*at < end && !lex_is_in_word(**at))
		(*at)++;
	*word = *at;
	while (*at < end && lex_is_in_word(**at))
		(*at)++;
	return (size_t)(*at - *word);
}

#endif
