#ifndef PG_ERROR_H
#define PG_ERROR_H

#include "pg/frame.h"

#include <stdbool.h>

/* The fields of an ErrorResponse or NoticeResponse that the pooler reads; each "" when the
   server left it out. Pointers into the body. */
struct pg_error {
	const char *severity;	/* field V, else S */
	const char *sqlstate;	/* field C */
	const char *message;	/* field M */
	const char *detail;	/* D */
	const char *hint;	/* H */
};

/* Never PG_MORE: the body is whole. PG_BAD, and every text "", when a field does not end or the
   list of fields does not end where the body does. */
enum pg_verdict pg_error_read(const uint8_t *body, size_t size, struct pg_error *out);

/* Whether the n bytes from the front of an ErrorResponse's body say FATAL or PANIC, which decides what the end of the connection behind
   it means. */
bool pg_error_is_fatal(const uint8_t *body, size_t n);

#endif
