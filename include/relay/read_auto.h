#ifndef RELAY_READ_AUTO_H
#define RELAY_READ_AUTO_H

#include "pool/role.h"
#include "relay/retry.h"

/*
 * Single statements outside of transactions that standbys execute (reads = auto): see read_auto.c.
 */
extern const struct server_task task_read_auto;

/* The client, which has a struct retry, sends these *n bytes next. Without a server it gets a
   target: a standby, if the bytes are one statement that only reads. True: the client waits for its
   server, which reads for it, or is asked about the statement first; or the pair has ended. False:
   *n bytes may be sent, at most the rest of a statement for a standby. */
bool read_waits(struct client *client, const uint8_t *at, size_t *n);
/* Whether read_waits() may do more than return false. */
static inline bool read_decides(const struct client *c)
{
	return c->retry->step != AUTO_NOT || (!c->pooled.link && c->pooled.splits_statements);
}
/* The beginning of the answer of a standby, as retry_look(). */
enum retry_verdict read_look(struct server *server, const uint8_t *at, size_t n);
/* The server has answered a statement with AUTO_AWAY. `is_whole`: nothing has arrived after the
   answer. Otherwise the client waits for the rest, because the server is not free before. */
void read_over(struct server *server, bool is_whole);
/* The connection to the server of a client with a struct retry is lost. True: the primary gets the
   statement, as after retry_lost(). */
bool read_lost(struct server *server);

/* The server is lost, or its host is; it may have executed the request, of which nothing was
   forwarded. True: the request is one statement that may only read. It is taken back as by
   retry_take_back(), and its client waits for another server, which is asked whether the statement
   only reads; otherwise the client ends with REASON_OUTCOME_UNKNOWN. */
bool read_doubt(struct server *server, enum close_reason why);

/* The statement of the client is for a standby, and not all of its bytes have been sent. */
static inline bool read_is_incomplete(const struct client *c)
{
	return c->retry->step == AUTO_AWAY && c->retry->sent < c->retry->size;
}
/* The server of the client has its statement. */
static inline bool read_is_sent(const struct client *c)
{
	return c->retry->step == AUTO_AWAY && c->pooled.link && !read_is_incomplete(c);
}
/* The server executes the statement of its client, and is not the primary. */
static inline bool read_is_away(const struct server *s)
{
	const struct client *c = client_of(s->pooled.link);
	const struct roles *roles = s->pooled.pool->database->roles;

	return c->retry->step == AUTO_AWAY && roles && s->pooled.host != roles->primary;
}

#endif
