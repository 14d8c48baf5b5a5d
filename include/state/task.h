#ifndef STATE_TASK_H
#define STATE_TASK_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * Server tasks (conn/server_task.h), and the states of a server without a client: see task.c.
 */
extern const struct server_task task_connect_query, task_reset, task_check;
/* After connect_query: stores the role and search_path of the session. */
extern const struct server_task task_note;

/* Sends a query and begins the task. False: the server has ended. */
bool server_run(struct server *server, const struct server_task *task, const char *sql);
/* As server_run, for SQL without a NUL at its end; frees *sql. */
bool server_run_and_free(struct server *server, const struct server_task *task, struct bytes *sql);
/* A message that answers the query of server->task. True: it is an error for the client, because the server ends. */
bool server_task_heard(struct server *server, const struct pg_frame *frame);
/* Whether server_reset_query runs before the server is idle: after a session of its own (`had_session`), or always with
   server_reset_query_always. */
bool server_wants_reset(const struct server *server, bool had_session);
/* The login of the server is over: connect_query runs, or the server is idle. It may end. */
void server_begin(struct server *server);
/* The state of a server after its link has ended: SERVER_BEING_CANCELED, SERVER_TESTED (to be reset, or to wait for listeners) or SERVER_IDLE. */
static inline enum server_state server_next_state(const struct server *s)
{
	if (s->pooled.cancels > 0)
		return SERVER_BEING_CANCELED;
	return (s->needs_reset || s->notifies) ? SERVER_TESTED : SERVER_IDLE;
}
/* Moves a server without a client to this state, and begins the work of the state. The server may end: server_lifetime, close_reason. */
void server_enter(struct server *server, enum server_state next);
/* server_enter for the state of server_next_state. */
void server_release(struct server *server);

#endif
