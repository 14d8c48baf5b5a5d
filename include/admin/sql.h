#ifndef ADMIN_SQL_H
#define ADMIN_SQL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The lexical rules of SQL that the console needs: statements separated by semicolons, comments, 'strings', "identifiers",
 * words and signs. Pure functions without allocation; the text may contain any byte and need not end in a NUL.
 */
struct sql_span {
	const char *at;
	size_t size;
};

enum sql_token {
	SQL_END,		/* only blanks and comments are left */
	SQL_WORD,		/* unquoted: up to a blank, a quote, ';', '=' or a comment */
	SQL_IDENTIFIER,		/* "in double quotes" */
	SQL_STRING,		/* 'in single quotes' */
	SQL_SIGN,		/* ; or = */
	SQL_BAD			/* an unterminated quote or comment, up to the end of the text */
};

/* Returns the next token of *rest; `out` is its text including quotes; *rest moves after it. */
enum sql_token sql_next_token(struct sql_span *rest, struct sql_span *out);

/* Returns the next non-empty statement of *rest, without its semicolon and without surrounding blanks and comments; *rest moves
   after the semicolon. False: no more statements. With an unterminated quote or comment, the whole rest belongs to the
   statement. */
bool sql_next_statement(struct sql_span *rest, struct sql_span *out);

#endif
