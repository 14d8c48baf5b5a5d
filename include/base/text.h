#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies at most size-1 bytes and terminates. False when it was cut. */
bool text_copy(char *to, size_t size, const char *from);
/* True when the strings are equal without regard to ASCII case. */
bool text_equal_fold(const char *a, const char *b);
/* True when `text` begins with `prefix`. */
bool text_starts(const char *text, const char *prefix);
/* True when `name` is one of the names of a list, compared exactly, or ASCII case folded.
   Commas and blanks separate names, so `a b` has the names a and b, and not the name "a b";
   a name with blanks or commas in it stands in double quotes. */
bool text_list_has(const char *list, const char *name, bool fold);
/* Of `count` names the one nearest to `text` by edit distance, or NULL when none is
   within a third of its length (at least 2). For "did you mean". */
const char *text_nearest(const char *text, const char *const *names, size_t count);
/* Reads a whole decimal number; false on anything else or overflow. */
bool text_to_int64(const char *text, int64_t *value);
/* Writes the two lowercase hex digits per byte and a NUL: to has 2*size+1 bytes. */
void text_hex(char *to, const void *bytes, size_t size);
/* Reads a whole file of at most `limit` bytes into a NUL-terminated string that the
   caller frees with mem_free; *size (may be NULL) is its length. NULL with errno
   (EFBIG: longer than the limit). */
char *text_read_file(const char *path, size_t limit, size_t *size);

#endif
