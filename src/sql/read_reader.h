#ifndef SQL_READ_READER_H
#define SQL_READ_READER_H

#include "base/inline.h"
#include "sql/read_text.h"
#include "sql/read_words.h"

/*
 * The reader of texts that only read: see read_text.c. Functions return false if the text is
 * refused. A function take_x() reads tokens after the current one, and step_x() reads the current
 * one.
 */
#define READ_DEPTH_MOST 64

enum expects {
	EXPECTS_QUERY,			/* SELECT, VALUES, WITH, or a query in parentheses */
	EXPECTS_CTE, EXPECTS_CTE_AS, EXPECTS_CTE_OR_QUERY,
	EXPECTS_ROW_OF_VALUES, EXPECTS_END_OF_VALUES,
	EXPECTS_OPERAND,
	EXPECTS_OPERATOR,		/* after an operand */
	EXPECTS_END_OF_COLUMN,		/* after an alias in the select list */
	EXPECTS_RELATION,
	EXPECTS_ALIAS,			/* after a relation */
	EXPECTS_JOIN,			/* after an alias of a relation, or after the whole query */
	EXPECTS_NAME, EXPECTS_END_OF_NAME,
	EXPECTS_WINDOW_NAME, EXPECTS_WINDOW, EXPECTS_FRAME
};

enum frame_kind {
	FRAME_QUERY,
	FRAME_LIST,			/* (a, b); a query is possible */
	FRAME_ARGUMENTS,		/* of a function */
	FRAME_SPECIAL,			/* ... with words between them: extract(year FROM a) */
	FRAME_CAST,
	FRAME_JOINS,			/* FROM (a JOIN b ON ...); a query is possible */
	FRAME_NAMES,
	FRAME_WINDOW,
	FRAME_INDEX,			/* [ ] */
	FRAME_CASE
};

enum clause {
	CLAUSE_LIST,
	CLAUSE_FROM,
	CLAUSE_ON,
	CLAUSE_GROUP,
	CLAUSE_ORDER,
	CLAUSE_LIMIT,
	CLAUSE_WINDOW,
	CLAUSE_OTHER
};

struct frame {
	uint8_t kind, clause, then;	/* `then`: expected after the frame */
};

struct query_reader {
	struct sql_lexer lexer;
	const char *text, *functions;
	struct read_names *names;
	struct frame *top, frames[READ_DEPTH_MOST];
	enum expects expects;
	/* the current token as a keyword; WORD_NAME for anything else */
	enum word word;
};

static inline bool expect(struct query_reader *r, enum expects expects)
{
	r->expects = expects;
	return true;
}

static inline bool open_frame(struct query_reader *r, enum frame_kind kind, enum clause clause,
			      enum expects inside, enum expects then)
{
	if (++r->top == r->frames + READ_DEPTH_MOST)
		return false;
	*r->top = (struct frame){ (uint8_t)kind, (uint8_t)clause, (uint8_t)then };
	return expect(r, inside);
}

static inline bool close_frame(struct query_reader *r)
{
	r->expects = r->top->then;
	return r->top-- > r->frames;
}

/* Makes the verdict no if the token may mean something else: U&"a" and U&'a'; $$a$$; backslashes in
   strings without E; characters that are not ASCII in words, and in strings with escapes, because a
   part of such a character may look like a backslash. */
static inline void reader_check(struct query_reader *r, const struct lex_token *t)
{
	bool is_checked = t->kind == LEX_WORD || (t->kind == LEX_STRING && *t->at != '\'');

	for (size_t i = 0; is_checked && i < t->size; i++)
		if (lex_bytes[(uint8_t)t->at[i]] & BYTE_NOT_ASCII)
			r->lexer.is_uncertain = true;
	if ((t->kind == LEX_STRING &&
	     (*t->at == '$' || (*t->at == '\'' && memchr(t->at, '\\', t->size)))) ||
	    (t->size == 1 && (*t->at | 0x20) == 'u' && *r->lexer.at == '&' &&
	     (r->lexer.at[1] == '"' || r->lexer.at[1] == '\'')))
		r->lexer.is_uncertain = true;
}

/* Takes the next token as lex_next(), and faster. */
static ALWAYS_INLINE struct lex_token reader_next(struct query_reader *r)
{
	const char *begin = r->lexer.at, *at;
	struct lex_token t;
	uint8_t p;

	/* the NUL at the end has no properties */
	while (lex_is_blank(*begin))
		begin++;
	at = begin;
	if (lex_is_in_word(*at) && !((*at | 0x20) == 'e' && at[1] == '\'')) {
		while ((p = lex_bytes[(uint8_t)*at]) & (BYTE_IN_WORD | BYTE_DOLLAR))
			at++;
		if (!(p & BYTE_NOT_ASCII) && !(at - begin == 1 && (*begin | 0x20) == 'u')) {
			r->lexer.at = at;
			return (struct lex_token){ LEX_WORD, begin, (size_t)(at - begin), begin,
						   (size_t)(at - begin) };
		}
	} else if (*at == ',' || *at == '(' || *at == ')' || *at == '=' || *at == '.') {
		r->lexer.at = at + 1;
		return (struct lex_token){ LEX_MARK, at, 1, at, 1 };
	}
	t = lex_next(&r->lexer);
	reader_check(r, &t);
	return t;
}

/* Returns the first byte of the next token, or NUL. */
static inline char peek(struct query_reader *r)
{
	struct sql_lexer ahead;
	struct lex_token t;

	while (lex_is_blank(*r->lexer.at))
		r->lexer.at++;
	if (*r->lexer.at != '-' && *r->lexer.at != '/')
		return *r->lexer.at;
	ahead = r->lexer;
	t = lex_next(&ahead);
	return t.kind == LEX_END ? '\0' : *t.at;
}

/* Takes the next token if it is this mark, or this word. */
static inline bool take_mark(struct query_reader *r, char mark)
{
	bool follows = peek(r) == mark;

	if (follows)
		reader_next(r);
	return follows;
}
static inline bool take_word(struct query_reader *r, const char *word)
{
	struct sql_lexer ahead = r->lexer;
	struct lex_token t = lex_next(&ahead);

	if (!lex_is(&t, word))
		return false;
	r->lexer = ahead;
	return true;
}

static inline bool begin_clause(struct query_reader *r, enum clause clause, enum expects expects)
{
	r->top->clause = (uint8_t)clause;
	return expect(r, expects);
}

/* Whether the token is a name that can be reported. reader_next() checks words. */
static inline bool is_plain(const struct lex_token *t)
{
	for (size_t i = 0; t->kind == LEX_QUOTED_WORD && i < t->text_size; i++)
		if (lex_bytes[(uint8_t)t->text[i]] & BYTE_NOT_ASCII || t->text[i] == '"' ||
		    t->text[i] == '\'' || t->text[i] == '\\')
			return false;
	return t->text_size > 0 && t->text_size <= READ_NAME_MOST;
}

static inline bool begins(const struct lex_token *t, const char *prefix)
{
	size_t size = strlen(prefix);

	return t->text_size >= size && (*t->text | 0x20) == *prefix &&
	       strncasecmp(t->text, prefix, size) == 0;
}

static inline bool is_identifier(const struct lex_token *t)
{
	return t->kind == LEX_QUOTED_WORD || (t->kind == LEX_WORD && !lex_is_digit(*t->at));
}

static inline bool report(struct query_reader *r, enum read_name_kind kind,
			  const struct lex_token *t)
{
	if (r->names->count == READ_NAMES_MOST || !is_plain(t))
		return false;
	r->names->list[r->names->count++] = (struct read_name){ (uint16_t)(t->text - r->text),
								(uint8_t)t->text_size,
								(uint8_t)kind };
	return true;
}

/* read_text.c */
bool reader_begin_query(struct query_reader *r, enum word word);
bool reader_take_clause(struct query_reader *r, enum word word);
bool reader_take_window_part(struct query_reader *r, enum word word);
bool reader_step_end(struct query_reader *r, const struct lex_token *t);

/* read_expression.c */
bool reader_take_path(struct query_reader *r, struct lex_token first, struct read_path *p);
bool reader_take_call(struct query_reader *r, const struct read_path *p, enum expects then);
bool reader_step_operand(struct query_reader *r, const struct lex_token *t);
bool reader_step_operator(struct query_reader *r, const struct lex_token *t);

#endif
