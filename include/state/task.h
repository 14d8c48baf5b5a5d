#ifndef STATE_TASK_H
#define STATE_TASK_H

#include "conn/world.h"

/*
 * Server tasks (conn/server_task.h). Promise: a server executes one query of pgweir's own at a
 * time, and the client does not see it. See task.c.
 */

/* Sends a query and begins the task. False: the server has ended. */
bool server_run(struct server *server, const struct server_task *task, const char *sql);
/* Sends this SQL, which has no NUL at its end, and begins the task; frees *sql. False: the server
   has ended. */
bool server_run_and_free(struct server *server, const struct server_task *task, struct bytes *sql);

#endif
