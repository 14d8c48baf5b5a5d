#ifndef SQL_SIGNAL_TEXT_H
#define SQL_SIGNAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Texts that end or cancel one session by its number:
 *
 *	SELECT pg_terminate_backend(1234567890)
 *	SELECT pg_catalog.pg_cancel_backend($1::int);
 */
enum signal_of { SIGNAL_CANCEL, SIGNAL_TERMINATE };

struct signal_text {
	enum signal_of of;
	size_t name_at, name_size;	/* the function as it is written, with its schema */
	size_t at, size;		/* its argument */
	uint32_t pid;			/* the number; 0: the argument is $1 */
};

/* Reads a text, which may end with a NUL. False: the text is another one. */
bool signal_text_read(const uint8_t *text, size_t size, struct signal_text *out);
/* such texts, and DEALLOCATE of a name of pgweir's, have more bytes */
#define SIGNAL_SHORTEST 27
/* Whether signal_text_read() can be true: three bytes decide. */
static inline bool signal_text_may_be(const uint8_t *text, size_t size)
{
	return size > SIGNAL_SHORTEST && size < 120 && text[9] == '_' && (text[8] | 0x20) == 'g' &&
	       (text[7] | 0x20) == 'p';
}

/* The value of the parameter for which the text that begins with SIGNAL_PREPARED has the result
   true. */
#define SIGNAL_DONE (-2147483647)
/* The beginning of that text. */
#define SIGNAL_PREPARED "SELECT CASE $1::int WHEN -2147483647 THEN true ELSE "

#endif
