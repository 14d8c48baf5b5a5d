/*
 * SQL that may make its session forget prepared statements: see deallocate.h.
 *
 * PostgreSQL knows these words in letters of ASCII only, whatever the encoding, and nothing can stand inside of one. A word that is part of
 * another one, of a string or a comment is taken for it all the same.
 */
#include "pg/deallocate.h"

#include <string.h>
#include <strings.h>

#define SHORTEST (sizeof("DISCARD") - 1)

/* In front of `end`, where a NUL stands. */
static bool is_at(const uint8_t *at, const uint8_t *end, const char *word)
{
	size_t size = strlen(word);

	return (size_t)(end - at) >= size && strncasecmp((const char *)at, word, size) == 0;
}

bool deallocate_or_execute_is_mentioned(const uint8_t *text, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;

	if (!end)
		return true;
	for (; (size_t)(end - text) >= SHORTEST; text++) {
		uint8_t letter = *text | 0x20;

		if ((letter == 'd' && (is_at(text, end, "DISCARD") || is_at(text, end, "DEALLOCATE"))) ||
		    (letter == 'e' && (text[1] | 0x20) == 'x' && is_at(text, end, "EXECUTE")))
			return true;
	}
	return false;
}

bool deallocate_is_mentioned(const uint8_t *text, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(text, 0, size) : NULL;

	if (!end)
		return true;
	for (; (size_t)(end - text) >= SHORTEST; text++)
		if ((*text | 0x20) == 'd' && (is_at(text, end, "DISCARD") || is_at(text, end, "DEALLOCATE")))
			return true;
	return false;
}
