#ifndef BACKEND_SESSION_STATE_H
#define BACKEND_SESSION_STATE_H

#include "conn/world.h"
#include "pg/frame.h"

/*
 * The state of a client's session that goes with it from server to server: see session_state.c. The client is one with keeps_state, and
 * has this server.
 */
#define SESSION_NAMES_MOST 100		/* parameters with a dot that one client may name */

/* What only a client has that keeps_state. */
struct client_session {
	const struct params *first;	/* what a RESET leads to: what it began with */
	struct bytes names;		/* that it has named, with a dot, each with its NUL */
	int count;
	bool calls;			/* it has prepared a statement that sets parameters without a command tag that says so */
};

/* In a pool with session_state = full the server is lent to the client. */
void session_state_begin(struct server *server, struct client *client);
/* A Query or Parse goes to the server; of its SQL the first `size` bytes are here. */
void session_state_text(struct server *server, struct client *client, const uint8_t *text, size_t size, bool is_parse);
/* A command tag of the client's says that parameters may have been set, or, `is_reset`, have been reset. */
void session_state_told(struct server *server, bool is_reset);
/* Begins TASK_STATE, which asks for them. False: the server has ended. */
bool session_state_ask(struct server *server);
/* A DataRow of the answer. */
void session_state_row(struct server *server, const struct pg_frame *row);
/* The answer is complete: the server and the client have these parameters now. False: it is asked once more, or the server has ended. */
bool session_state_learn(struct server *server);
/* Frees what has come of the answer. */
void session_state_forget(struct server *server);
/* After a hand-over: makes this the client's session, with a hold on `first`; `names` are `size` bytes. False: it cannot be so, or there is no
   memory. */
bool session_state_restore(struct client *client, const struct params *first, const char *names, size_t size, bool calls);
/* The same: TASK_STATE is under way, and the first part of the answer may have come to the other process. False: no memory. */
bool session_state_is_asked_elsewhere(struct server *server);
void session_state_free(struct client *client);

#endif
