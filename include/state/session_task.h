#ifndef STATE_SESSION_TASK_H
#define STATE_SESSION_TASK_H

#include "conn/world.h"
#include "pg/frame.h"

/* Answers to queries of the pooler's own: see session_task.c. */

/* An answer to that query. True: it is an error that goes to the client, whose business the end of its server is. */
bool server_task_heard(struct server *server, const struct pg_frame *frame);
/* The ReadyForQuery of the query has come, and the server has no client: goes on to what follows the task. */
void server_task_over(struct server *server);

#endif
