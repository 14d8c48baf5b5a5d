#ifndef RELAY_OFFLOAD_H
#define RELAY_OFFLOAD_H

#include "relay/request.h"
#include "relay/retry.h"

/*
 * Single statements outside of transactions that standbys execute (reads = auto): see offload.c.
 */
extern const struct server_task task_read_auto;

/* Sets the facts about a single statement, which these n bytes may be; the client has no server. */
void offload_view(struct client *client, const uint8_t *at, size_t n, struct request_view *view);
/* Carries a decision of request_decide() out. Returns as request_take(). */
enum verdict offload_take(struct client *client, enum request_decision decision, const uint8_t *at,
			  size_t n);
/* The request is not for a standby any more, and asks nothing: DIRECT, or the step of a held BEGIN.
   */
void offload_end(struct client *client);
/* The client, in a step of REQUEST_IN_STATEMENT, has a server, and *n bytes to send. True: the
   client waits for its server, which is asked or must answer first; or the pair has ended. False:
   *n bytes may be sent. */
#define REQUEST_IN_STATEMENT \
	(REQUEST_IN(ASKING) | REQUEST_IN(ASKING_ALL) | REQUEST_IN(DOUBTED) | REQUEST_IN(OFFLOADED))
bool offload_blocks(struct client *client, size_t *n);
/* The beginning of the answer of a standby, as retry_look(). */
enum retry_verdict offload_look(struct server *server, const uint8_t *at, size_t n);
/* The server has answered a statement with OFFLOADED. `is_whole`: nothing has arrived after the
   answer. Otherwise the client waits for the rest, because the server is not free before. */
void offload_over(struct server *server, bool is_whole);
/* The connection to the server is lost. True: the primary gets the statement, as after
   retry_lost(). */
bool offload_lost(struct server *server);
/* The server is lost, or its host is; it may have executed the request, of which nothing was
   forwarded. True: the request is one statement that may only read. It is taken back as by
   retry_take_back(), and its client waits for another server, which is asked whether the statement
   only reads; otherwise the client ends with REASON_OUTCOME_UNKNOWN. */
bool offload_doubt(struct server *server, enum close_reason why);

/* The statement of the client is for a standby, and not all of its bytes have been sent. */
static inline bool offload_is_incomplete(const struct client *c)
{
	return c->request->step == REQUEST_OFFLOADED && c->request->sent < c->request->size;
}
/* The server executes the statement of its client, and is not the primary. */
static inline bool offload_is_away(const struct server *s)
{
	const struct client *c = client_of(s->pooled.link);
	const struct roles *roles = s->pooled.pool->database->roles;

	return c->request->step == REQUEST_OFFLOADED && roles && s->pooled.host != roles->primary;
}

#endif
