#ifndef PG_STATEMENT_SQL_H
#define PG_STATEMENT_SQL_H

#include "pg/deallocate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where SQL of a client names prepared statements: DEALLOCATE [PREPARE] name, EXECUTE name, EXPLAIN ... EXECUTE name, CREATE TABLE ... AS EXECUTE
 * name. A text is `size` bytes with their NUL among them.
 */
#define SQL_NAMES_MOST 32	/* in one text */
#define SQL_NAME_SIZE 64	/* bytes of a name that count, with a NUL */

struct sql_name {
	size_t at, size;	/* in the text, with its quotes */
	bool drops;		/* by DEALLOCATE */
	uint8_t text_size;	/* with the NUL */
	char text[SQL_NAME_SIZE];	/* as PostgreSQL reads the identifier */
};

/* The names in their order; returns their number. 0 also where there are more than SQL_NAMES_MOST, where the text does not end with a NUL, and where
   the end of a string depends on standard_conforming_strings. */
unsigned statement_sql_read(const uint8_t *text, size_t size, struct sql_name names[SQL_NAMES_MOST]);

/* Reads the name of the database that a text drops or renames: its only statement is DROP DATABASE or ALTER DATABASE ... RENAME. False: it
   does neither. */
bool statement_sql_ends_database(const uint8_t *text, size_t size, char name[SQL_NAME_SIZE]);
/* False for nearly every text, by its first letter: statement_sql_ends_database() says no. */
static inline bool statement_sql_may_end_database(const uint8_t *text, size_t size)
{
	uint8_t first = size > 1 ? text[0] | 0x20 : 'z';

	return first < 'b' || (first == 'd' && (text[1] | 0x20) == 'r');
}

/* The text of a Parse, `size` bytes with its NUL or cut off, may have such a name. Mostly its first letter says no. */
static inline bool statement_sql_may_be_parsed(const uint8_t *text, size_t size)
{
	uint8_t first = size > 0 ? text[0] | 0x20 : 0;

	return (first < 'c' || first > 'e') && first >= 'a' && first <= 'z' ? false : deallocate_or_execute_is_mentioned(text, size);
}

#endif
