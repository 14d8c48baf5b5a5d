#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stddef.h>

/*
 * Texts of peers, made fit to be printed: see printable.c. What is not printable is written as \xNN for each of its bytes, for
 * example the escape character as \x1b.
 */

/* How many bytes the `size` bytes at `from` take when they are made printable: `size` when they are so already. */
size_t printable_size(const char *from, size_t size);
/* Writes them to `to`, which has room for printable_size() bytes. No NUL is added. */
void printable_write(char *to, const char *from, size_t size);

/* The three below write at most size - 1 bytes and a NUL, `size` being 16 or more. A text that does not fit ends in "...". No
   character and no \xNN is cut. Each returns `buf`. */

/* A free text, such as the error message of a server. */
const char *printable_text(const char *from, char *buf, size_t size);
/* What the caller puts between double quotes: \" and \\ stand for a double quote and a backslash. */
const char *printable_inside(const char *from, char *buf, size_t size);
/* A name, where others stand around it: as it is when it is plain (app, my-db.2), else between double quotes and as
   printable_inside() writes it ("a user@b"). Plain are letters and digits of any script and the characters _$.+#%!*~^- */
const char *printable_name(const char *name, char *buf, size_t size);

/* Room for a name of 63 bytes, the most that PostgreSQL takes, with its quotes. */
#define PRINTABLE_NAME 80
/* Room for a free text within a line of the log. */
#define PRINTABLE_TEXT 512

#endif
