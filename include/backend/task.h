#ifndef BACKEND_TASK_H
#define BACKEND_TASK_H

#include "conn/world.h"

/*
 * Queries of the pooler's own on a server, and where a server goes that has no client: see task.c.
 */

/* Sends a query; when its ReadyForQuery has come, server_task_over or, while the server is linked, link_task_over is called. False: the
   server has ended. */
bool server_run(struct server *server, enum server_task task, const char *sql);
/* The session is to be reset before the server is idle: after a session of its own (`had_session`), or after each link where
   server_reset_query_always says so. */
bool server_wants_reset(const struct server *server, bool had_session);
/* The state of a server after its link has ended: SERVER_BEING_CANCELED, SERVER_TESTED (to be reset) or SERVER_IDLE. */
static inline enum server_state server_next_state(const struct server *s)
{
	if (s->pooled.cancels > 0)
		return SERVER_BEING_CANCELED;
	return s->needs_reset ? SERVER_TESTED : SERVER_IDLE;
}
/* A server without a client goes to this state, and begins what is done in it. It may end: server_lifetime, close_reason. */
void server_enter(struct server *server, enum server_state next);
/* The same, for the state that server_next_state gives. */
void server_release(struct server *server);

#endif
