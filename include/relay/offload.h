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
/* Carries a decision of request_decide() out. VERDICT_PASS: the message is handled as any other;
   VERDICT_WAIT: the client waits for a server, which is asked first; VERDICT_GONE. */
enum verdict offload_take(struct client *client, enum request_decision decision, const uint8_t *at,
			  size_t n);
/* The request is not for a standby any more, and no question is to be asked for it: the step
   becomes DIRECT, or BEGIN_HELD if a BEGIN is held. */
void offload_end(struct client *client);
/* Before the bytes of a client in a step of REQUEST_IN_STATEMENT are sent to its server. True: they
   wait, because the server gets a question first, or has not answered the statement yet; or the
   pair has ended. False: the first *n bytes may be sent. */
#define REQUEST_IN_STATEMENT \
	(REQUEST_IN(ASKING) | REQUEST_IN(ASKING_ALL) | REQUEST_IN(DOUBTED) | REQUEST_IN(OFFLOADED))
bool offload_blocks(struct client *client, size_t *n);
/* Examines the beginning of the answer of a standby, with the parameters and results of
   retry_look(). */
enum retry_verdict offload_look(struct server *server, const uint8_t *at, size_t n);
/* The server has answered a statement in step OFFLOADED. `is_whole`: nothing has arrived after the
   answer. Otherwise the client waits for the rest, because only then is the server free. */
void offload_over(struct server *server, bool is_whole);
/* The connection to the server is lost. True: the primary gets the statement, as after
   retry_lost(). */
bool offload_lost(struct server *server);
/* The server or its host is lost after it may have executed the request, and the client has no part
   of the answer. True: the request is one statement that may only read. It is taken back as by
   retry_take_back(), and the next server is asked whether the statement only reads. If it does,
   that server executes it; if not, the client ends with REASON_OUTCOME_UNKNOWN, because the
   statement may have been executed. */
bool offload_doubt(struct server *server, enum close_reason why);

/* Whether the client's statement is for a standby and some of its bytes have not been sent. */
static inline bool offload_is_incomplete(const struct client *c)
{
	return c->request->step == REQUEST_OFFLOADED && c->request->sent < c->request->size;
}
/* Whether a server other than the primary executes the statement of its client. */
static inline bool offload_is_away(const struct server *s)
{
	const struct client *c = client_of(s->pooled.link);
	const struct roles *roles = s->pooled.pool->database->roles;

	return c->request->step == REQUEST_OFFLOADED && roles && s->pooled.host != roles->primary;
}

#endif
