#ifndef PG_MEANING_H
#define PG_MEANING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SQL of a client that can change the meaning of other texts in its session: SET, RESET and set_config of search_path, role and of any parameter
 * that is not known to be harmless. A text is `size` bytes with their NUL among them, or is cut off. Effects of functions and DO blocks are not seen.
 */

/* The text of a Query is one SET of a harmless parameter. */
bool meaning_query_keeps(const uint8_t *text, size_t size);
/* The text of a Parse is neither SET nor RESET, or sets or resets a harmless parameter. */
bool meaning_parse_keeps(const uint8_t *text, size_t size);
/* The text has set_config for a parameter that is not known to be harmless, or not known at all. */
#define MEANING_SHORTEST sizeof("SELECT set_config($1,$2,$3)")	/* bytes of such a text */
bool meaning_is_configured(const uint8_t *text, size_t size);

#endif
