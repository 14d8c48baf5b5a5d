#ifndef RELAY_RETRY_H
#define RELAY_RETRY_H

#include "relay/request.h"

/*
 * Requests that another server executes in place of the first server: see retry.c. Only clients
 * that ask for a role have a struct request.
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

/* The kind of request that an error answers, and its consequence: tbl/retry_error.tbl. Example:
   25006 as the answer of the former primary. */
enum error_of { ERROR_OF_READ, ERROR_OF_UNREAD, ERROR_OF_PRIMARY, ERROR_OF_STANDBY };
enum resend {
	RESEND_NEVER,			/* the client gets the error */
	RESEND_ON_PRIMARY, RESEND_ELSEWHERE, RESEND_IF_MOVED
};
enum resend retry_resend(enum error_of of, const struct pg_error *error);

/* Whether retry_look() would return RETRY_PASS: the client has answers of its transaction, or these
   n bytes contain the end of a statement other than BEGIN, before any error. */
static inline bool retry_passes(const struct server *s, const struct client *c, const uint8_t *at,
				size_t n)
{
	const uint8_t *end = at + n;
	uint32_t size;

	if (c->request->kept.end == 0 || ledger_is_empty(&s->ledger))
		return false;
	if ((c->request->repeat != REPEAT_WHOLE && c->request->repeat != REPEAT_UNSENT) ||
	    n > RETRY_MOST)
		return true;
	for (; end - at >= PG_HEADER && *at != PGS_ERROR &&
	       pg_frame_is_here(at, (size_t)(end - at), &size);
	     at += PG_HEADER + (size_t)size) {
		if (*at == PGS_COMPLETE && size != sizeof("BEGIN") &&
		     size != sizeof("START TRANSACTION"))
			return true;
		if (*at == PGS_READY && c->request->begin_is != BEGIN_SENT)
			return true;
	}
	return false;
}
/* Examines the first n bytes of the answer to a whole request, before anything of it is forwarded.
   The bytes begin with a message. */
enum retry_verdict retry_look(struct server *server, const uint8_t *at, size_t n);
/* The connection is lost. True: the server has executed nothing of the request; the link is over,
   as after RETRY_TAKEN. Otherwise the caller ends the server and its client. */
bool retry_lost(struct server *server);
/* Ends the link so that another server can get the request, before anything of the answer is
   forwarded: the request becomes the next input of the client and has this step, and the server
   ends for this reason. False: no memory, or the client must keep its server, and nothing has
   happened. The caller decides when the client continues: client_resume(). */
bool retry_take_back(struct server *server, enum close_reason why, enum request_step step);
/* The host of the server is silent, closed, or not the primary any more: takes a read back, and its
   client goes on with another host. False: the request may do more than read, or its answer has
   begun, and nothing has happened. */
bool retry_recall(struct server *server, enum close_reason why);
/* For roles_decide(): evidence about hosts has arrived. A client with AWAITS_VERDICT gets the
   answer of its server, or waits
   for another server. */
void retry_judge(struct client *client);
/* The server of the client ends for this reason. Returns the reason that the client gets. */
enum close_reason retry_loss(const struct client *client, const struct server *server,
			     enum close_reason why);
/* Frees the answer that is held back, and forgets its host. */
void retry_forget_host(struct request *request);
/* Whether the client can go to another server: no state in its session, such as a temporary table,
   and no unfinished message keeps it here. */
bool retry_may_leave(const struct client *client, const struct server *server);

#endif
