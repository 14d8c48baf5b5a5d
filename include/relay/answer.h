#ifndef RELAY_ANSWER_H
#define RELAY_ANSWER_H

#include "conn/world.h"
#include "pg/message.h"

/*
 * What becomes of a server's messages, for the relay.
 */
enum answer {
	ANSWER_RELAY,		/* it goes to the client */
	ANSWER_DROP,		/* it goes nowhere */
	ANSWER_BROKEN,		/* the server may not say this now, or there is no memory (then the server's close_reason says so) */
	ANSWER_LAST_WORDS,	/* an error that nothing asked for: the server is about to end */
	ANSWER_READY,		/* the client's ReadyForQuery: with it a query, perhaps a transaction, is over, and it goes to the client */
	ANSWER_HELD_BACK,	/* what becomes of one that waits for notifications: it goes to the client later, and what is behind it is not looked at yet */
	ANSWER_AGAINST_MODE,	/* what becomes of one that leaves a transaction open in statement mode: the client is refused */
	ANSWER_ALL_SAID		/* the reply that the link waited for: the server has nothing more to say */
};

/* Looks at the message at the front of n bytes, which is left in *frame. PG_OK: *answer says what becomes of it; PG_MORE: more of it is
   needed to tell; PG_BAD: the server may not say this now. */
/* An ErrorResponse that comes now may be told the client in other words. */
static inline bool answer_may_be_told(const struct server *s)
{
	return ledger_head_is_marked(&s->ledger) || (s->pooled.link && !s->pooled.link->is_internal && client_of(s->pooled.link)->names_sql);
}
enum pg_verdict answer_look(struct server *server, const uint8_t *at, size_t n, struct pg_frame *frame, enum answer *answer);

#endif
