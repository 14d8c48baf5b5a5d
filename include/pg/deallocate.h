#ifndef PG_DEALLOCATE_H
#define PG_DEALLOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which SQL of a client may make its session forget prepared statements: DEALLOCATE and DISCARD. The text is not parsed: it may, where it
 * has one of the words. What functions and DO blocks do is not seen. Texts are `size` bytes with their NUL among them, or are cut off.
 */

/* The text of a Query, which can hold several statements. True where it is cut off. */
bool deallocate_is_mentioned(const uint8_t *text, size_t size);

/* The same, or it has the word EXECUTE: it may name a prepared statement (pg/statement_sql.h). */
bool deallocate_or_execute_is_mentioned(const uint8_t *text, size_t size);

/* The text of a Parse, which can hold only one: mostly it is told by its first letter. */
static inline bool deallocate_may_be_parsed(const uint8_t *text, size_t size)
{
	uint8_t first = size > 0 ? text[0] | 0x20 : 0;

	return (first < 'a' || first > 'z' || first == 'd') && deallocate_is_mentioned(text, size);
}

#endif
