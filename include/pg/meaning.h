#ifndef PG_MEANING_H
#define PG_MEANING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SQL texts of clients that can change the role of the session, or the meaning of other texts: SET, RESET and set_config of role,
 * session_authorization, search_path, and of any parameter that is not known to be harmless. A text is `size` bytes that contain their NUL, or the
 * beginning of a longer text. Functions and DO blocks are not read.
 */
enum {
	SET_KEEPS_ROLE = 1,
	SET_KEEPS_MEANING = 2
};

/* Returns both bits if the text of a Query is one SET, with the command tag SET, that keeps both; 0 for any other command. */
unsigned set_query_keeps(const uint8_t *text, size_t size);
/* The same for the text of a Parse, which has only one statement; returns both bits if that is neither SET nor RESET. */
unsigned set_parse_keeps(const uint8_t *text, size_t size);
/* The text calls set_config for a parameter that is not known to be harmless, or with a name that is not a constant; or it has an escaped identifier,
   which may be set_config. */
#define MEANING_SHORTEST sizeof("SELECT set_config($1,$2,$3)")	/* bytes of such a text */
bool meaning_is_configured(const uint8_t *text, size_t size);

/* SQL of the operator, with a NUL, has a word that sets a role. */
bool role_is_mentioned(const char *sql);

/* The text, which has at least three bytes, begins with these three letters in either case. */
static inline bool role_begins(const uint8_t *text, const char word[3])
{
	return (text[0] | 0x20) == word[0] && (text[1] | 0x20) == word[1] && (text[2] | 0x20) == word[2];
}

/* False: set_query_keeps() is 0. */
static inline bool role_query_may_keep(const uint8_t *text, size_t size)
{
	return size > 3 && role_begins(text, "set");
}

/* True, as for nearly every text: set_parse_keeps() returns both bits for the whole text. */
static inline bool role_parse_surely_keeps(const uint8_t *text, size_t size)
{
	uint8_t first = size > 3 ? text[0] | 0x20 : 0;

	return (first >= 'a' && first <= 'q') || (first >= 't' && first <= 'z') || (first == 's' && role_begins(text, "sel"));
}

#endif
