#ifndef RELAY_LINK_H
#define RELAY_LINK_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * A link: a server lent to a client. It begins with the session's parameters and ends with the release.
 */

/* Both are ACTIVE and linked. True when the client's bytes may flow at once; false when the server is being brought to the
   client's parameters first (or the pair has ended). */
bool link_begin(struct server *server, struct client *client);
/* An empty query: its answer resolves a doubt of the ledger. */
extern const struct server_task task_barrier;
/* The owed answers are unknown: until the answer of this query, all messages of the server belong to its client. */
extern const struct server_task task_leave;

/* A part of it, with session_state = full. */
void link_state_begin(struct server *server, struct client *client);
/* The client's next link, if it began now, would be for a transaction or statement, and end with it. */
bool link_will_share(const struct client *client);
/* The server owes nothing, is at a boundary in both directions and its transaction is over: in
   transaction and statement mode give it back. Does nothing otherwise. */
static inline void link_end_if_over(struct server *server);
/* What the client has made there is known: the link ends, or, where the client has sent a request meanwhile, it goes on with this server, which may not
   have what it wants: after a RESET that is what it began with. */
void link_resume(struct server *server, struct client *client);
/* For the reap: the client ends, and is left to the caller. A server that is clean is reset and kept, any other one ends. */
void link_break(struct server *server);
/* The client keeps the server for nothing that it needs (session_state_may_yield), and the server is given back, if it is clean. */
bool link_yield(struct server *server);
/* True when nothing of the client's is left in the server: no answer owed, no transaction, no half message. */
bool server_is_clean(const struct server *server);
/* The ledger is lost, and outside of a transaction: the server may be told to end, and its client go on with another. */
bool link_may_leave(const struct server *server);
/* Whether the server's next message, of which n > 0 bytes are at `at`, is the answer that a server which is left (task_leave) gives
   behind all others. PG_OK: it is; PG_MORE: it cannot be told yet; PG_BAD: it is not. */
enum pg_verdict link_look_for_reply(const struct server *server, const uint8_t *at, size_t n);
/* That has come, and the client has been given what was before it. The server ends. */
void link_all_said(struct server *server);
/* The ReadyForQuery of server->task has come: does what follows (enum task_end). */
void link_task_over(struct server *server);
/* The client has POST_READY or POST_LINK: see peer_post(). */
void link_posted(struct client *client, unsigned posted);

/* The rest of link_end_if_over: no answer is owed, as far as the ledger knows. */
void link_end_if_clean(struct server *server);
static inline void link_end_if_over(struct server *s)
{
	/* mostly the server has not answered yet */
	if (ledger_depth(&s->ledger) == 0)
		link_end_if_clean(s);
}

#endif
