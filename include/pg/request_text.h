#ifndef PG_REQUEST_TEXT_H
#define PG_REQUEST_TEXT_H

#include "pg/frame.h"

#include <string.h>

struct statement;				/* sql/statement.h */

/*
 * The SQL text that a message of a client brings (Query, Parse) or names (Bind): see
 * request_text.c.
 */
struct request_text {
	const uint8_t *at;		/* NULL: the text is unknown, or has not arrived */
	size_t size;			/* with its NUL; without, if the NUL has not arrived */
	const uint8_t *types;		/* of a prepared statement: Int16 count, and the types that
					   Parse declares */
	size_t types_size;		/* 0: they have not arrived */
	const struct statement *statement;	/* that a Bind names; NULL: the unnamed one, or
						   another message */
	bool is_confirmed;		/* the server has not refused the Parse, and no Close is on
					   its way */
};

/* Finds the statement with this name for a client, "" for the unnamed one, and passes its body to
   request_text_set(). Does nothing if the statement is unknown. */
typedef void request_text_finder(const void *client, const char *name, struct request_text *text);

/* Returns the text of a Parse, which follows the name. NULL: the name has not arrived completely.
   */
static inline const uint8_t *request_text_after_name(const uint8_t *body, size_t here)
{
	const uint8_t *nul = here > 0 ? memchr(body, 0, here) : NULL;

	return nul ? nul + 1 : NULL;
}
/* Sets the text to the first of these bytes, and the types to the bytes after its NUL. */
void request_text_set(struct request_text *text, const uint8_t *body, size_t size);
/* Finds the text of a message. Returns false, and text->at is NULL, if the message neither brings
   nor names a text. The text belongs to the message, or to the client that `find` gets; `find` is
   used for Bind only. */
bool request_text_read(const struct pg_frame *frame, request_text_finder *find, const void *client,
		       struct request_text *text);

#endif
