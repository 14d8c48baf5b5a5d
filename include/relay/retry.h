#ifndef RELAY_RETRY_H
#define RELAY_RETRY_H

#include "conn/retry.h"
#include "conn/world.h"

/*
 * A request that another server can execute instead: see retry.c. Only clients that ask for a role have a struct retry.
 */

/* The verdict on the beginning of an answer. */
enum retry_verdict {
	RETRY_PASS,			/* it is the client's */
	RETRY_MORE,			/* nothing may be forwarded before more of the answer has arrived */
	RETRY_TAKEN			/* the link is over, and the request is the next input of its client again; the server ends */
};

/* The server of the client gets these bytes of its request. */
void retry_keep(struct client *client, const uint8_t *at, size_t n);
/* The client has got a reply of pgweir itself, before retry_keep() of the messages. */
void retry_replied(struct client *client);
/* The server owes nothing any more. */
void retry_answered(struct client *client);
/* The answer to a request with is_first begins with these n bytes, between two messages; nothing of it was forwarded. */
enum retry_verdict retry_look(struct server *server, const uint8_t *at, size_t n);
/* The connection is lost. True: the server has executed nothing of the request; the link is over, as after RETRY_TAKEN. Otherwise the caller ends the
   server and its client. */
bool retry_lost(struct server *server);
/* Takes the link apart: the request becomes the next input of the client, and the server ends for this reason. For a request with is_first of which
   nothing was forwarded. False: no memory, or the client must keep its server, and nothing has happened. The caller decides when the client continues:
   client_resume(). */
bool retry_take_back(struct server *server, enum close_reason why);
/* For roles_decide(): evidence about hosts has arrived. A client with pooled.is_held gets the answer of its server, or is not held any more. */
void retry_judge(struct client *client);
/* The server of the client ends for this reason. Returns the reason that the client gets. */
enum close_reason retry_loss(const struct client *client, const struct server *server, enum close_reason why);
void retry_free(struct client *client);

#endif
