#ifndef ADMIN_REFUSAL_H
#define ADMIN_REFUSAL_H

#include "base/bytes.h"

/* The errors of the console. Each row of include/tbl/refusal.tbl has the SQLSTATE and the text. */
enum refusal {
#define REFUSAL(id, sqlstate, text) REFUSAL_##id,
#include "tbl/refusal.tbl"
#undef REFUSAL
	REFUSALS
};

const char *refusal_sqlstate(enum refusal why);
/* Appends the text and a NUL, with the details (NULL: "") in place of %s. A detail longer than 200 bytes is truncated between
   two UTF-8 characters and ends in "...". */
void refusal_text(enum refusal why, const char *first, const char *second, struct bytes *out);

#endif
