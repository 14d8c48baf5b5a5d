#ifndef RELAY_READS_H
#define RELAY_READS_H

#include "conn/world.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "conn/gather.h"

/*
 * Read-only transactions of clients of a primary that may run on a standby (setting reads): see
 * reads.c.
 */

/* Whether reads_take() must decide about the first of n bytes of input, which begin a message.
   Otherwise the message is the primary's. */
static inline bool reads_decides(struct client *c, const uint8_t *at, size_t n)
{
	const uint8_t *text = at + PG_HEADER, *nul;
	uint8_t letter;

	if (c->reads)
		return c->reads & (READING_BEGIN | READING_HERE) ||
		       (c->pooled.splits && !c->pooled.link && n > PG_HEADER + 1);
	if (c->pooled.link || !c->pooled.splits || n <= PG_HEADER + 1)
		return false;
	nul = *at == PGC_PARSE ? memchr(text, 0, n - PG_HEADER - 1) : NULL;
	text = nul ? nul + 1 : text;
	letter = *text | 0x20;
	c->pooled.target = TARGET_PRIMARY;
	if (*at != PGC_QUERY && !nul)
		return false;
	/* BEGIN, which says more than that; START; blanks and comments */
	return letter == 'b' ? pg_u32_at(at + 1) >= PG_LENGTH_WORD + sizeof("BEGIN READ ONLY")
			     : (letter == 's' && (text[1] | 0x20) == 't') || *text < 'A';
}
/* The status for a ReadyForQuery of pgweir's own, to a client without a server. */
static inline const char *reads_status(const struct client *c)
{
	return !(c->reads & READING_BEGIN) ? "I" : c->reads & READING_FAILED ? "E" : "T";
}
/* Decides where the transaction runs that begins with the message at the front of n bytes; the
   client has no server. VERDICT_PASS: the message is handled as any other, or *used bytes are
   answered; VERDICT_MORE: more must arrive; VERDICT_GONE. */
enum verdict reads_take(struct client *client, const uint8_t *at, size_t n, size_t *used);
/* The server of the client is ready for its next message, this frame: gathers the BEGIN that was
   held back. VERDICT_PASS; VERDICT_WAIT: the last request must be answered first; VERDICT_MORE:
   more of the message must arrive; VERDICT_SWALLOW: a message that fails was gathered instead;
   VERDICT_LATER: the client has left its server; VERDICT_NO_MEMORY. */
enum verdict reads_before(struct client *client, struct server *server,
			  const struct pg_frame *frame, struct gather *gather);
/* The server has answered the failing message that reads_before() has gathered: the client gets the
   error 25001. VERDICT_SWALLOW; VERDICT_INVALID: no memory. */
enum verdict reads_tell_refused(struct client *client);
/* The answer to the first request of a read-only transaction failed on a standby, and was not
   forwarded: the primary is next. */
void reads_failed(struct client *client);

#endif
