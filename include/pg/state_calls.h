#ifndef PG_STATE_CALLS_H
#define PG_STATE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Calls of functions in SQL: see state_calls.c.
 */

/* A name of `size` bytes in lower case: the database has a function of that name, of which it is known what it does. */
typedef bool name_is_known(const void *context, const char *name, size_t size);
/* False: the text may call a function that is neither PostgreSQL's own nor `known` (NULL: none is), or it is cut off. */
bool state_calls_look_up(const uint8_t *text, size_t size, name_is_known *known, const void *context);

#endif
