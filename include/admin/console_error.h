#ifndef ADMIN_CONSOLE_ERROR_H
#define ADMIN_CONSOLE_ERROR_H

#include "base/bytes.h"

/* The errors of the console. Each row of include/tbl/console_error.tbl has the SQLSTATE and the text. */
enum console_error {
#define CONSOLE_ERROR(id, sqlstate, text) CONSOLE_ERROR_##id,
#include "tbl/console_error.tbl"
#undef CONSOLE_ERROR
	CONSOLE_ERRORS
};

const char *console_error_sqlstate(enum console_error why);
/* Appends the text and a NUL, with the details (NULL: "") in place of %s. A detail longer than 200 bytes is truncated between
   two UTF-8 characters and ends in "...". */
void console_error_text(enum console_error why, const char *first, const char *second, struct bytes *out);

#endif
