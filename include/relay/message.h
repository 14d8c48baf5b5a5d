#ifndef RELAY_MESSAGE_H
#define RELAY_MESSAGE_H

#include "conn/gather.h"
#include "pg/message.h"

/*
 * Messages of clients and servers: see message.c.
 */
enum step {
	STEP_PASS,		/* it goes on to the server, entered in the ledger */
	STEP_DROP,		/* it goes nowhere */
	STEP_MORE,		/* more of it is needed to tell */
	STEP_WAIT,		/* not now: when the client has a server, or that server has answered */
	STEP_LATER,		/* not now: in the next turn, because it has had its share of this one */
	STEP_BROKEN,		/* the server's socket is broken */
	STEP_GONE		/* the client has ended, or the server */
};
/* How far a walk over the read buffer came, and why it ended. */
struct walk { size_t used; enum step step; };

/* A message of this type may be one for request_take_without_server. */
static inline bool request_may_need_no_server(uint8_t type)
{
	return pg_client_messages[type].phases & PG_COPY && pg_client_messages[type].taken_by != TAKEN_BY_TERMINATE;
}
/* Answers the messages at the front of n bytes that need no server, of a client without a server: Sync, Flush, and complete messages left over
   from a COPY. All answers are sent in one write. False: the client has ended. */
bool request_take_without_server(struct client *client, const uint8_t *at, size_t n, size_t *used);
/* Takes the next frame; it may lend the client a server. If the frame passes, its first `skip` bytes have been replaced by gathered bytes. */
enum step request_take(struct client *client, const struct pg_frame *frame, struct gather *gather, size_t *skip);
/* Takes the complete messages at the front of n bytes that may pass unread, and that the caller then sends. The client is between two messages and
   is not being refused. STEP_PASS: as far as that goes; STEP_WAIT (none has been taken) or STEP_GONE. */
struct walk request_pass_plain(struct client *client, const uint8_t *at, size_t n);
/* Gives the client the local replies that are due (prepared_local_reply), between two messages of its server, as far as it takes
   that: READ_BUFFER bytes that it does not take are enough. The rest goes when it has taken them. False: the client has ended. */
bool request_send_local_replies(struct client *client, struct server *server);

/* The verdict on a server's message. */
enum answer {
	ANSWER_RELAY,		/* it goes to the client */
	ANSWER_DROP,		/* it goes nowhere */
	ANSWER_BROKEN,		/* the server may not say this now, or there is no memory (then the server's close_reason says so) */
	ANSWER_LAST_WORDS,	/* an error that nothing asked for: the server is about to end */
	ANSWER_READY,		/* the client's ReadyForQuery: with it a query, perhaps a transaction, is over, and it goes to the client */
	ANSWER_HELD_BACK,	/* a ReadyForQuery that waits for notifications: it goes to the client later, and later messages are not read yet */
	ANSWER_AGAINST_MODE,	/* a ReadyForQuery that leaves a transaction open in statement mode: the client is refused */
	ANSWER_ALL_SAID		/* the reply that the link waited for: the server has nothing more to say */
};

/* Reads the message at the front of n bytes into *frame. PG_OK: *answer is its verdict; PG_MORE: more bytes are needed; PG_BAD: the server must
   not send this now. */
/* An ErrorResponse that comes now may be told the client in other words. */
static inline bool answer_may_be_told(const struct server *s)
{
	return ledger_head_is_marked(&s->ledger) || (s->pooled.link && !s->pooled.link->is_internal && client_of(s->pooled.link)->names_sql);
}
enum pg_verdict answer_look(struct server *server, const uint8_t *at, size_t n, struct pg_frame *frame, enum answer *answer);

#endif
