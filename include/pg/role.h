#ifndef PG_ROLE_H
#define PG_ROLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Which SQL of a client may leave its session under another role: SET ROLE, SET SESSION AUTHORIZATION, and RESET of either. The
 * text is not parsed: where it is not plain, the answer is that it may. What functions and DO blocks do is not seen. Texts are
 * `size` bytes that end with their NUL, or are cut off.
 */

/* The text of a Query is one SET, with the tag SET, and leaves the role of the session as it is. */
bool role_query_keeps(const uint8_t *text, size_t size);
/* The text of a Parse, which can hold only one statement, leaves the role as it is, or is neither SET nor RESET. */
bool role_parse_keeps(const uint8_t *text, size_t size);
/* SQL of the operator's, which ends with a NUL, has a word in it that roles are set with. */
bool role_is_mentioned(const char *sql);

static inline bool role_begins(const uint8_t *text, const char word[3])
{
	return (text[0] | 0x20) == word[0] && (text[1] | 0x20) == word[1] && (text[2] | 0x20) == word[2];
}

/* False: role_query_keeps would not say yes. */
static inline bool role_query_may_keep(const uint8_t *text, size_t size)
{
	return size > 3 && role_begins(text, "set");
}

/* True: role_parse_keeps would say yes. It is so for nearly every text. */
static inline bool role_parse_surely_keeps(const uint8_t *text, size_t size)
{
	uint8_t first = size > 3 ? text[0] | 0x20 : 0;

	return (first >= 'a' && first <= 'q') || (first >= 't' && first <= 'z') || (first == 's' && role_begins(text, "sel"));
}

#endif
