#ifndef PREPARED_SEND_H
#define PREPARED_SEND_H

#include "prepared/rewrite.h"

/*
 * The functions that send.c and unnamed.c call in each other.
 */

/* Enters the message, which is forwarded as it is. Returns as prepared_send(). */
enum verdict prepared_forward(const struct prepared_request *request);
/* Sends a Describe of a missing statement in place of the message; answer.c replaces its error
   (OP_TYPES_DIFFER, OP_NAME_TOO_LONG). VERDICT_SWALLOW or VERDICT_NO_MEMORY. */
enum verdict prepared_request_refuse(const struct prepared_request *request, enum op_kind kind,
				     struct prepared_name *name);
/* Whether the last SQL with names was this statement (by number; 0: the unnamed statement), and its
   names have the same statements. */
bool prepared_sql_is_current(const struct prepared_request *request, uint64_t statement);
/* Appends the body of the Parse with the client's value in place of its call of currval or lastval.
   False: it is sent as it is. */
bool prepared_request_fill_values(const struct prepared_request *request, const uint8_t *body,
				  size_t size, struct bytes *filled);
/* Gathers a Flush of pgweir's own. */
static inline void prepared_gather_flush(const struct prepared_request *r)
{
	static const uint8_t flush[PG_HEADER] = { PGC_FLUSH, 0, 0, 0, 4 };

	gather_copy(r->g, flush, sizeof(flush));
}

/* Parse, Close, and Bind or Describe of the unnamed statement. Return as prepared_send(). */
enum verdict prepared_parse_unnamed(const struct prepared_request *request);
enum verdict prepared_change_unnamed(const struct prepared_request *request);
enum verdict prepared_use_unnamed(const struct prepared_request *request);
/* Whether the server has the unnamed statement of the client, or its Parse is in flight. */
static inline bool prepared_server_has_unnamed(const struct client *c, const struct server *s)
{
	return s->unnamed_of == c->peer.id && s->prepared->unnamed_number == c->prepared->number;
}

#endif
