#ifndef SQL_USES_H
#define SQL_USES_H

#include "sql/sql_lex.h"

/*
 * The places of an SQL text at which PostgreSQL may run code: see sql_uses.c. The walk reports more
 * than there is, and misses nothing: each function, attribute, cast and operator of the text's
 * parse tree has been reported, and so has each token.
 */
enum sql_use_kind {
	/* name( of a function, a keyword, or a table with columns; also a type with (10, 2) before
	   a literal */
	SQL_USE_CALL,
	SQL_USE_COLUMN,			/* a name after a name and a dot: t.f may be f(t) */
	SQL_USE_FIELD,			/* a name after a value and a dot: (x).f, a[1].f, $1.f */
	SQL_USE_TYPE,			/* x::type, CAST(x AS type), type 'x' */
	SQL_USE_OPERATOR,		/* any operator, also '=' of UPDATE and '*' of SELECT * */
	SQL_USE_COLLATION,		/* COLLATE name */
	SQL_USE_METHOD,			/* TABLESAMPLE name */
	/* only if the walk reports everything */
	/* an unquoted word that is reported as nothing else: LIKE, IN, OVERLAPS and others call
	   operators and functions */
	SQL_USE_WORD,
	SQL_USE_STATEMENT,		/* the first token of a statement */
	SQL_USE_TOKEN			/* each token, in order */
};
struct sql_use {
	enum sql_use_kind kind;
	struct lex_token name;		/* the last part of the name, the operator, or the token */
	struct lex_token before;	/* the token before the whole name; LEX_END: none */
	/* by another schema than pg_catalog; of columns and fields it says nothing */
	bool is_qualified;
};
/* May set is_over of the walk, which ends it. */
typedef void sql_use_seen(void *context, const struct sql_use *use);

/* A walk of a text, which may continue later with the same text and size; zero at first, then only
   `reports_all` and `is_source` may be set. */
struct sql_walk {
	bool reports_all;		/* SQL_USE_WORD and the kinds after it, too */
	bool is_source;			/* see struct sql_lexer */
	/* the ends of tokens are not known: the text may do anything */
	bool is_uncertain;
	bool is_over;
	uint8_t before_kind;		/* the last token */
	size_t at, before, before_size;	/* offsets */
	unsigned depth;			/* of parentheses */
	/* bit i: the parenthesis that has i others inside belongs to CAST */
	uint64_t casts;
};
/* Walks until the text is over or *tokens is not above 0. Each token costs 1, and more if it is
   long. An uncertain walk is over, and has not reported the token that made it so; the walk of a
   truncated text is uncertain and reports nothing. */
void sql_uses_walk(struct sql_walk *walk, const uint8_t *text, size_t size, int64_t *tokens,
		   sql_use_seen *seen, void *context);

/* A token has this many bytes for each unit of its cost. */
#define SQL_USE_BYTES 32

#endif
