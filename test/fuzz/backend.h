#ifndef BACKEND_H
#define BACKEND_H

#include "base/bytes.h"

/*
 * A small PostgreSQL for fuzz targets: it reads messages and answers each as the real one would, at once, and without knowing SQL. The
 * first letter of a text says what becomes of it:
 *
 *	B C	begins, ends a transaction		E	fails
 *	G H	COPY from, to the client		D	forgets all that is prepared (DISCARD ALL)
 *	(empty)	EmptyQueryResponse			else	one row with the text in it
 *
 * set_config('NAME',E'VALUE' in a text is reported by ParameterStatus.
 */
#define BACKEND_NAMES 32
#define BACKEND_TYPES 8
#define BACKEND_PID 4711
#define BACKEND_KEY "key!"

struct backend_name {
	char *name, *text;
};

struct backend {
	struct bytes in;		/* not a whole message yet */
	bool has_begun;			/* the start-up message has come */
	bool has_ended;			/* Terminate, or a CancelRequest */
	char status;			/* I T E */
	bool skips, copies, in_query;	/* to Sync; reads COPY data, in a Query */
	struct backend_name statements[BACKEND_NAMES], portals[BACKEND_NAMES];
	uint8_t types[4 * BACKEND_TYPES];	/* of the parameters of the statement without a name */
	size_t type_count;
};

void backend_init(struct backend *b);
void backend_free(struct backend *b);
/* Takes what a client sends, of any length, and appends the answers. */
void backend_take(struct backend *b, const uint8_t *data, size_t size, struct bytes *out);

#endif
