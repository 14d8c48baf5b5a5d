#ifndef SQL_COMMANDS_H
#define SQL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SQL texts of clients that can change the role of the session, or the meaning of other texts: SET,
 * RESET and set_config of role, session_authorization, search_path, and of any parameter that is
 * not known to be harmless. A text is `size` bytes that contain their NUL, or the beginning of a
 * longer text. Functions and DO blocks are not read.
 */
enum {
	SET_KEEPS_ROLE = 1,
	SET_KEEPS_MEANING = 2,
	SET_IS_LOCAL = 4		/* SET LOCAL: the end of the transaction undoes it */
};

/* Returns the bits that hold if the text of a Query is one SET, with the command tag SET; 0 for any
   other command. */
unsigned set_query_keeps(const uint8_t *text, size_t size);
/* SET_KEEPS_ROLE and SET_KEEPS_MEANING for the text of a Parse, which has only one statement; both
   bits if that is neither SET nor RESET. */
unsigned set_parse_keeps(const uint8_t *text, size_t size);
/* Whether the text may change the meaning of other texts by set_config: it calls set_config for a
   parameter outside of the harmless ones, or with a computed name; or it has an escaped identifier,
   which may be set_config. */
#define MEANING_SHORTEST sizeof("SELECT set_config($1,$2,$3)")	/* bytes of such a text */
bool meaning_is_configured(const uint8_t *text, size_t size);

/* Whether the text, which has at least three bytes, begins with these three letters in either
   case. */
static inline bool role_begins(const uint8_t *text, const char word[3])
{
	return (text[0] | 0x20) == word[0] && (text[1] | 0x20) == word[1] &&
	       (text[2] | 0x20) == word[2];
}

/* Whether it is certain, as for nearly every text, that set_parse_keeps() returns both bits for the
   whole text. */
static inline bool role_parse_surely_keeps(const uint8_t *text, size_t size)
{
	uint8_t first = size > 3 ? text[0] | 0x20 : 0;

	return (first >= 'a' && first <= 'q') || (first >= 't' && first <= 'z') ||
	       (first == 's' && role_begins(text, "sel"));
}

/*
 * SQL commands of clients that name or drop prepared statements, and commands that end a database.
 * A text is `size` bytes that contain their NUL, or the beginning of a longer text. Commands in
 * functions and DO blocks are not found.
 */

/* Whether the text has the word DEALLOCATE or DISCARD, also as a part of another word, a string or
   a comment; or the text is truncated. With `or_execute`: or the text has the word EXECUTE, so that
   statement_sql_read() may find a name. */
bool deallocate_is_mentioned(const uint8_t *text, size_t size, bool or_execute);

/* deallocate_is_mentioned() of the text of a Parse, which has only one statement: the first letter
   decides for most texts. */
static inline bool deallocate_may_be_parsed(const uint8_t *text, size_t size)
{
	uint8_t first = size > 0 ? text[0] | 0x20 : 0;

	return (first < 'a' || first > 'z' || first == 'd') &&
	       deallocate_is_mentioned(text, size, false);
}

/* Whether a text, which may be truncated, begins with DEALLOCATE, or with another word with this
   letter before it. */
static inline bool deallocate_begins(const uint8_t *text, size_t size)
{
	return size > 0 && (text[0] | 0x20) == 'd' && deallocate_is_mentioned(text, size, false);
}

/*
 * Names of prepared statements in DEALLOCATE [PREPARE] name, EXECUTE name, EXPLAIN ... EXECUTE name
 * and CREATE TABLE ... AS EXECUTE name.
 */
#define SQL_NAMES_MOST 32	/* in one text */
#define SQL_NAME_SIZE 64	/* significant bytes of a name, and a NUL */

struct sql_name {
	size_t at, size;	/* in the text, with its quotes */
	bool drops;		/* the command is DEALLOCATE */
	uint8_t text_size;	/* with the NUL */
	char text[SQL_NAME_SIZE];	/* the identifier as PostgreSQL reads it */
};

/* Reads the names in their order; returns their number. Returns 0 also if there are more than
   SQL_NAMES_MOST, if the text does not end with a NUL, or if the end of a string depends on
   standard_conforming_strings. */
unsigned statement_sql_read(const uint8_t *text, size_t size,
			    struct sql_name names[SQL_NAMES_MOST]);

/* Whether statement_sql_read() may find a name in this text of a Parse, which may be truncated. The
   first letter decides for most texts. */
static inline bool statement_sql_may_be_parsed(const uint8_t *text, size_t size)
{
	uint8_t first = size > 0 ? text[0] | 0x20 : 0;

	return (first < 'c' || first > 'e') && first >= 'a' && first <= 'z'
		       ? false
		       : deallocate_is_mentioned(text, size, true);
}

/* Reads the name of the database in DROP DATABASE or ALTER DATABASE ... RENAME, at the beginning of
   the text. False: the text is neither. */
bool statement_sql_ends_database(const uint8_t *text, size_t size, char name[SQL_NAME_SIZE]);
/* Whether statement_sql_ends_database() can be true. The first letter decides for nearly every
   text. */
static inline bool statement_sql_may_end_database(const uint8_t *text, size_t size)
{
	uint8_t first = size > 1 ? text[0] | 0x20 : 'z';

	return first < 'b' || (first == 'd' && (text[1] | 0x20) == 'r');
}

#endif
