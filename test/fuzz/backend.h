#ifndef BACKEND_H
#define BACKEND_H

#include "base/bytes.h"

/*
 * A small PostgreSQL for fuzz targets: it reads messages and answers each like a real server, at once, without a parser for SQL. The first letter of
 * a text determines the effect:
 *
 * - B C: begins, ends a transaction
 * - E: fails
 * - G H: COPY from, to the client
 * - D: forgets all prepared statements (DISCARD, DEALLOCATE)
 * - A: the rest is the command tag: ALISTEN
 * - W: sets work_mem to the rest (w: one row with its value)
 * - (empty): EmptyQueryResponse
 * - other: one row with the text
 *
 * set_config('NAME',E'VALUE' in a text is reported by ParameterStatus, but work_mem is set. The query of session_state = full returns the effects of
 * the tags: LISTEN, PREPARE and CREATE create an object; UNLISTEN, DEALLOCATE, DROP and DISCARD ALL end it. LISTEN is about the channel c. The
 * pooler's own LISTEN is not recorded; its UNLISTEN * is. Its NOTIFY is sent to this session and left for the other backends (`notified`).
 */
#define BACKEND_NAMES 32
#define BACKEND_TYPES 8
#define BACKEND_PID 4711
#define BACKEND_KEY "key!"
#define BACKEND_VALUE 16

struct backend_name {
	char *name, *text;
};

struct backend {
	struct bytes in;		/* not a whole message yet */
	struct bytes notified;		/* a NotificationResponse that all others are to say, too */
	bool has_begun;			/* the start-up message has come */
	bool has_ended;			/* Terminate, or a CancelRequest */
	char status;			/* I T E */
	unsigned has, had;		/* PIN_ bits: objects of the session; and before the transaction */
	char work_mem[BACKEND_VALUE], work_mem_before[BACKEND_VALUE];	/* empty: as at the login */
	bool skips, copies, in_query;	/* to Sync; reads COPY data, in a Query */
	struct backend_name statements[BACKEND_NAMES], portals[BACKEND_NAMES];
	uint8_t types[4 * BACKEND_TYPES];	/* of the parameters of the statement without a name */
	size_t type_count;
};

void backend_init(struct backend *b);
void backend_free(struct backend *b);
/* Reads bytes of a client, of any length, and appends the answers. */
void backend_take(struct backend *b, const uint8_t *data, size_t size, struct bytes *out);

#endif
