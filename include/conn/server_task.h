#ifndef CONN_SERVER_TASK_H
#define CONN_SERVER_TASK_H

#include "pg/frame.h"
#include "pool/pool.h"

/*
 * A query of pgweir's own on a server; the client does not see the answer. Example: task_params
 * sets the parameters of the next client. The file that begins a task has its struct server_task.
 * server->task is the current task, NULL for none: a task begins only after the previous one has
 * ended.
 */
struct server;

/* The next step after the end of a task. */
enum task_end {
	/* nothing: the server has ended, or its next task has begun */
	TASK_END_NOTHING,
	TASK_END_RELEASE,		/* the server has no client: server_release() */
	TASK_END_RESUME,		/* the messages of the client continue */
	/* the state of the client is known: the server is released, or else continues with the
	   messages of the client */
	TASK_END_LINK,
	TASK_END_RESTORE,		/* the server gets the state of the client next */
	TASK_END_RESTORED,		/* the server has the state of the client */
	TASK_END_PARTED			/* the server has ended, and its client gets another one */
};

struct server_task {
	const char *name;		/* in SHOW SERVERS */
	const char *description;	/* in the log after a failure */
	unsigned states;		/* TASK_IN() bits: states of the server during the task */
	/* on_row reads the values: rows are collected before it is called */
	bool reads_rows;
	bool keeps_error;		/* the message of an error is kept in server->task_words */
	bool ends_alone;		/* may end after the client has left */
	/* a cancel request of the client is sent to the server during the task */
	bool is_cancelable;
	/* the server answers requests of the client during the task */
	bool serves_client;
	/* the server ends for it after a failure, unless REASON_NONE */
	enum close_reason failure;
	/* A DataRow of the answer; NULL: rows are ignored. */
	void (*on_row)(struct server *server, const struct pg_frame *row);
	/* The task is over, and server->task is NULL. `failed`: an error, or the server is in a
	   transaction. NULL: TASK_END_RELEASE. */
	enum task_end (*on_done)(struct server *server, bool failed);
};
#define TASK_IN(state) (1u << SERVER_##state)

/* The only writer of server->task: a task begins, or ends (NULL). */
void server_task_to(struct server *server, const struct server_task *task);
/* server->task is over: calls on_done. */
enum task_end server_task_end(struct server *server);

#endif
