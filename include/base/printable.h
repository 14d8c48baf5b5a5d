#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes texts from peers printable: see printable.c. Each unprintable byte is written as \xNN, for
 * example the escape character as \x1b.
 */

/* Writes the printable form of `size` bytes at `from` to `to`, without a NUL; NULL: writes nothing.
   Returns the size of the printable form, which is `size` if the bytes are printable already. */
size_t printable_write(char *to, const char *from, size_t size);

/* The functions below write at most size - 1 bytes and a NUL; `size` is 16 or more. A long text is
   cut and ends in "...", without splitting a character or a \xNN. Each returns `buf`. */

/* Writes at most `room` bytes, without a NUL; `inside`: in the form of printable_inside(). Returns
   their number. */
size_t printable_copy(char *to, size_t room, const char *from, bool inside);
/* A free text, for example the error message of a server. */
static inline const char *printable_text(const char *from, char *buf, size_t size)
{
	buf[printable_copy(buf, size - 1, from, false)] = '\0';
	return buf;
}
/* For a text between double quotes: a double quote and a backslash are written as \" and \\. */
static inline const char *printable_inside(const char *from, char *buf, size_t size)
{
	buf[printable_copy(buf, size - 1, from, true)] = '\0';
	return buf;
}
/* A name among other fields: unchanged if it is plain (app, my-db.2), otherwise between double
   quotes and in the form of printable_inside() ("a user@b"). Plain characters are letters and
   digits of any script and _$.+#%!*~^- */
const char *printable_name(const char *name, char *buf, size_t size);

/* Room for a name of 63 bytes (PostgreSQL's limit) with its quotes. */
#define PRINTABLE_NAME 80
/* Room for a free text within a line of the log. */
#define PRINTABLE_TEXT 512

#endif
