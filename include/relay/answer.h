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
	ANSWER_AGAINST_MODE,	/* a ReadyForQuery that leaves a transaction open in statement mode */
	ANSWER_ALL_SAID		/* the reply that the link waited for: the server has nothing more to say */
};

/* Looks at the message at the front of n bytes, which is left in *frame. PG_OK: *answer says what becomes of it; PG_MORE: more of it is
   needed to tell; PG_BAD: the server may not say this now. */
enum pg_verdict answer_look(struct server *server, const uint8_t *at, size_t n, struct pg_frame *frame, enum answer *answer);
/* The client's answers at the front of n bytes that are here as a whole, and of which their types say all, are crossed off. Bytes of them. */
size_t answer_pass_plain(struct server *server, struct client *client, const uint8_t *at, size_t n);
/* The rule of statement mode is broken as soon as a statement leaves a transaction open. */
bool answer_breaks_statement_mode(const struct server *server);

#endif
