#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Copies at most size-1 bytes and terminates. False: truncated. */
bool text_copy(char *to, size_t size, const char *from);
/* Whether the strings are equal, ignoring ASCII case. */
bool text_equal_fold(const char *a, const char *b);
/* Whether `text` begins with `prefix`. */
static inline bool text_starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}
/* Whether `name` is one of the names of a list, compared exactly or ignoring ASCII case. Names are
   separated by commas and blanks, so `a b` has the names a and b, but not the name "a b"; a name
   with blanks or commas is enclosed in double quotes. */
bool text_list_has(const char *list, const char *name, bool fold);
/* Returns the name that is nearest to `text` by edit distance, or NULL if no name is within a third
   of its length (at least 2). For "did you mean". */
const char *text_nearest(const char *text, const char *const *names, size_t count);
/* Parses a decimal number; false for any other text or overflow. */
bool text_to_int64(const char *text, int64_t *value);
/* Writes two lowercase hex digits per byte and a NUL: `to` has room for 2*size+1 bytes. */
void text_hex(char *to, const void *bytes, size_t size);
/* Opens a file for reading; the caller closes it. -1 with errno. A named pipe is refused (ENOTSUP):
   opening and reading it would wait for a writer, while nothing else happens in this process. */
int text_open_file(const char *path);
/* Reads a file of at most `limit` bytes into a NUL-terminated string, which the caller frees with
   mem_free; *size (may be NULL) is its length. NULL with errno (EFBIG: longer than the limit). */
char *text_read_file(const char *path, size_t limit, size_t *size);

#endif
