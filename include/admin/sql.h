#ifndef ADMIN_SQL_H
#define ADMIN_SQL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The little of SQL's lexical rules that the console needs: statements separated by semicolons,
 * comments, 'strings', "identifiers", words and signs. Pure: no allocation, nothing but the
 * arguments is touched; bytes are 0..255, no NUL needed.
 */
struct sql_span {
	const char *at;
	size_t size;
};

enum sql_token {
	SQL_END,		/* nothing but blanks and comments is left */
	SQL_WORD,		/* bare: anything up to a blank, a quote, ';', '=' or a comment */
	SQL_IDENTIFIER,		/* "in double quotes" */
	SQL_STRING,		/* 'in single quotes' */
	SQL_SIGN,		/* one of ; = */
	SQL_BAD			/* a quote or comment that does not end; everything left belongs to it */
};

/* The next token of *rest, in `out` as it is written (quotes included); *rest moves behind it. */
enum sql_token sql_next_token(struct sql_span *rest, struct sql_span *out);

/* The next statement of *rest that is not empty, without its semicolon and without blanks and
   comments around it; *rest moves behind the semicolon. False when there is none. A quote or
   comment that does not end makes all the rest part of the statement. */
bool sql_next_statement(struct sql_span *rest, struct sql_span *out);

/* What a token stands for: quotes taken off, doubled ones made single. Writes at most raw.size
   bytes to `to`, no NUL; returns how many. */
size_t sql_unquote(enum sql_token token, struct sql_span raw, char *to);

#endif
