#ifndef CONN_SERVER_TASK_H
#define CONN_SERVER_TASK_H

#include "pool/pool.h"

struct server;

/* The pooler's own work on a server, one at a time: see server_task.c. */
enum server_task {
#define SERVER_TASK(id, shown, words, states) TASK_##id,
#include "tbl/server_task.tbl"
#undef SERVER_TASK
	SERVER_TASKS
};

/* The only writer of server->task: it begins while there is none, or is over (TASK_NONE). */
void server_task_to(struct server *server, enum server_task task);
/* As SHOW has it; NULL: there is none. */
const char *server_task_name(enum server_task task);
/* The name of the task in the log when it has failed: "server_reset_query". */
const char *server_task_words(enum server_task task);
/* Whether a server in this state may have it. */
bool server_task_fits(enum server_task task, enum server_state state);

#endif
