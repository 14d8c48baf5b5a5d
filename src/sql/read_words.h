#ifndef SQL_READ_WORDS_H
#define SQL_READ_WORDS_H

#include "sql/sql_lex.h"

/* Words of SQL texts that only read (read_text.c): keywords, and names of functions. */

enum word {
	WORD_NAME, /* not a keyword */
	WORD_AND,
	WORD_ARGUMENTS,
	WORD_ARRAY,
	WORD_AS,
	WORD_ASC,
	WORD_AT,
	WORD_BETWEEN,
	WORD_CASE,
	WORD_CAST,
	WORD_COLLATE,
	WORD_DISTINCT,
	WORD_END,
	WORD_ESCAPE,
	WORD_EXISTS,
	WORD_FETCH,
	WORD_FILTER,
	WORD_FROM,
	WORD_GROUP,
	WORD_GROUPING,
	WORD_IN,
	WORD_INTERVAL,
	WORD_IS,
	WORD_ISNULL,
	WORD_JOIN,
	WORD_JOINED,
	WORD_LATERAL,
	WORD_LIKE,
	WORD_LIMIT,
	WORD_NOT,
	WORD_NULLS,
	WORD_OFFSET,
	WORD_ON,
	WORD_ORDER,
	WORD_OVER,
	WORD_OVERLAPS,
	WORD_PART,
	WORD_PARTITION,
	WORD_QUANTIFIER,
	WORD_REFUSED,
	WORD_ROLLUP,
	WORD_ROW,
	WORD_ROWS,
	WORD_SELECT,
	WORD_SIDE,
	WORD_SIMILAR,
	WORD_SPECIAL,
	WORD_TIME,
	WORD_UNION,
	WORD_USING,
	WORD_VALUE,
	WORD_VALUES,
	WORD_WHEN,
	WORD_WHERE,
	WORD_WINDOW,
	WORD_WITH,
	WORD_WITHIN
};

#define READ_NAME_MOST 63	/* significant bytes of an identifier */

#define READ_PARTS_MOST 4	/* database.schema.table.column */

/* A name with dots between its parts. */
struct read_path {
	struct lex_token parts[READ_PARTS_MOST];
	unsigned count;
	bool has_star;			/* t.* */
};

enum word word_of(const struct lex_token *t);
/* Whether the keyword may also be the name of a column or table. */
bool word_may_be_name(enum word word);
/* Whether the built-in function with this name, of at most READ_NAME_MOST bytes, only reads:
   tbl/read_functions.tbl. */
bool word_is_read_function(const struct lex_token *t);
/* Whether `list`, a value of read_functions or NULL, has the name, with its schema if there is
   one. */
bool word_is_listed(const char *list, const struct read_path *p);

#endif
