#ifndef RELAY_RETRY_H
#define RELAY_RETRY_H

#include "conn/retry.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "pg/message.h"

#include <string.h>

/*
 * A request that another server can execute instead: see retry.c. Only clients that ask for a role
 * have a struct retry.
 */

/* The verdict on the beginning of an answer. */
enum retry_verdict {
	RETRY_PASS,			/* it is the client's */
	/* nothing may be forwarded before more of the answer has arrived */
	RETRY_MORE,
	/* the link is over, and the request is the next input of its client again; the server
	   ends */
	RETRY_TAKEN
};

/* Whose request an error answers, and what follows from it: tbl/retry_error.tbl. */
enum error_of { ERROR_OF_READ, ERROR_OF_UNREAD, ERROR_OF_PRIMARY, ERROR_OF_STANDBY };
enum resend {
	RESEND_NEVER,			/* the client gets the error */
	RESEND_ON_PRIMARY, RESEND_ELSEWHERE, RESEND_IF_MOVED
};
enum resend retry_resend(enum error_of of, const struct pg_error *error);

#define RETRY_SPARE 512			/* bytes of memory that stay for the next request */

/* The server owes nothing: with `sent` 0, nothing is to be forgotten. */
static inline void retry_forget(struct retry *r)
{
	if (r->request.capacity > RETRY_SPARE)
		bytes_free(&r->request);
	r->request.start = r->request.end = 0;
	r->sent = 0;
	r->is_cut = r->is_unsent = false;
}
/* The client may have another link than at the last call. */
static inline void retry_note_link(struct client *c)
{
	if (c->is_retry_linked)
		return;
	c->is_retry_linked = true;
	c->retry->is_bound = false;
	if (c->retry->sent > 0)
		retry_forget(c->retry);
}
/* retry_keep(), if the memory does not suffice. */
void retry_keep_more(struct client *client, const uint8_t *at, size_t n);
/* The server of the client gets these bytes of its request, at least one. */
static inline void retry_keep(struct client *c, const uint8_t *at, size_t n)
{
	struct retry *r = c->retry;

	retry_note_link(c);
	if (r->sent == 0) {
		r->is_first = server_of(c->pooled.link)->status == 'I' && !r->is_bound;
		r->sent_in = c->peer.world->loop.turns;
	}
	r->sent += n;
	/* the capacity doubles up to RETRY_MOST; 0: is_cut */
	if (n > r->request.capacity - r->request.end) {
		retry_keep_more(c, at, n);
		return;
	}
	memcpy(r->request.data + r->request.end, at, n);
	r->request.end += n;
}
/* The client has got a reply of pgweir itself, before retry_keep() of the messages. */
void retry_replied(struct client *client);
/* The server of the client has answered all that it got. */
static inline void retry_answered(struct client *c)
{
	c->is_retry_linked = true;
	retry_forget(c->retry);
	c->retry->is_bound = server_of(c->pooled.link)->session.doubts;
}
/* Whether retry_look() would return RETRY_PASS: the client has answers of its transaction, or these
   n bytes contain the end of a statement other than BEGIN, before any error. */
static inline bool retry_passes(const struct server *s, const struct client *c, const uint8_t *at,
				size_t n)
{
	const uint8_t *end = at + n;
	uint32_t size;

	if (c->retry->request.end == 0 || !c->is_retry_linked || ledger_is_empty(&s->ledger))
		return false;
	if (!c->retry->is_first || n > RETRY_MOST)
		return true;
	for (; end - at >= PG_HEADER && *at != PGS_ERROR &&
	       pg_frame_is_here(at, (size_t)(end - at), &size);
	     at += PG_HEADER + (size_t)size) {
		if ((*at == PGS_COMPLETE && size != sizeof("BEGIN") &&
		     size != sizeof("START TRANSACTION")) ||
		    (*at == PGS_READY && !(c->reads & READING_SENT)))
			return true;
	}
	return false;
}
/* The answer to a request with is_first begins with these n bytes, between two messages; nothing of
   it was forwarded. */
enum retry_verdict retry_look(struct server *server, const uint8_t *at, size_t n);
/* The connection is lost. True: the server has executed nothing of the request; the link is over,
   as after RETRY_TAKEN. Otherwise the caller ends the server and its client. */
bool retry_lost(struct server *server);
/* Takes the link apart: the request becomes the next input of the client, and the server ends for
   this reason. For a request with is_first of which nothing was forwarded. False: no memory, or the
   client must keep its server, and nothing has happened. The caller decides when the client
   continues: client_resume(). */
bool retry_take_back(struct server *server, enum close_reason why);
/* The host of the server is silent, closed, or not the primary any more: takes a read back, as
   retry_take_back(), and its client goes on with another host. False: the request may do more than
   read, or its answer has begun, and nothing has happened. */
bool retry_recall(struct server *server, enum close_reason why);
/* For roles_decide(): evidence about hosts has arrived. A client with pooled.is_held gets the
   answer of its server, or is not held any more. */
void retry_judge(struct client *client);
/* The server of the client ends for this reason. Returns the reason that the client gets. */
enum close_reason retry_loss(const struct client *client, const struct server *server,
			     enum close_reason why);
void retry_free(struct client *client);

#endif
