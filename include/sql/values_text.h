#ifndef SQL_VALUES_TEXT_H
#define SQL_VALUES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * SQL texts that ask for the last value of a sequence and for nothing else: SELECT lastval(),
 * SELECT currval('name'). See values_text.c.
 */
#define VALUES_TEXT_MOST 1000		/* bytes of such a text, without its NUL */

/* Offsets in the text. */
struct values_text {
	size_t call, call_end;		/* the call, from its name to its closing parenthesis */
	size_t argument, argument_end;	/* of currval; equal for lastval */
	bool is_last;			/* lastval */
	/* words follow the call: the column does not have the name of the function */
	bool is_named;
};

/* Reads a text, which ends with the first NUL in `size` bytes. False: it has another shape, or
   there is no NUL. */
bool values_text_read(const uint8_t *text, size_t size, struct values_text *read);

#endif
