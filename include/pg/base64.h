#ifndef PG_BASE64_H
#define PG_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Base64 (RFC 4648 section 4) as SCRAM uses it: padded, no blanks, no line breaks.
 */
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)	/* characters that n bytes become */

/* Writes BASE64_SIZE(size) characters and a NUL. */
void base64_encode(char *to, const void *bytes, size_t size);
/* Decodes all of `text` (length characters) into at most `size` bytes and gives their number in *got. False
   for a character that is not base64, wrong padding, bits behind the end that are not zero, or too many bytes. */
bool base64_decode(void *to, size_t size, size_t *got, const char *text, size_t length);

#endif
