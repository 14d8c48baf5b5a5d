#ifndef STATE_SESSION_QUESTION_H
#define STATE_SESSION_QUESTION_H

#include "conn/world.h"
#include "pg/frame.h"

/* The query about the session of a client with keeps_state. Promise: an incomplete or too large
   answer changes nothing. See session_question.c. */
struct client_session;

/* How the server is asked for a fact (tbl/session_fact.tbl). */
enum session_ask { ASK_NOT, ASK_PARAMETERS, ASK_EXISTS, ASK_CHANNELS, ASK_ROLE };

/* The content of an answer. */
struct session_answer {
	/* of parameters: name and value in turn, each with its NUL */
	struct bytes pairs;
	size_t count;
	unsigned pins;			/* facts that the session still has */
	/* names of the channels that the session LISTENs to, each with its NUL */
	struct bytes channels;
	int channel_count;
	/* notes (server_session.h) of the current role, and of the role at the start of the
	   session; NULL: not received */
	char *role, *first_role;
	bool is_too_much;		/* some parameters could not be kept */
	/* some channels could not be kept, or a name is malformed */
	bool are_channels_too_many;
	int tries;			/* number of failed queries */
};

/* A text of the client has named this parameter, which has a dot: it is asked for by name from now
   on. False: the client has named SESSION_NAMES_MOST others. names.failed: no memory. */
bool session_will_ask_for(struct client_session *state, const char *name);
/* The client's transaction is over. If it may have changed the state of the session, begins
   task_state, which asks for the facts in doubt, or restores start-up parameters. True: a task has
   begun, or the server has ended. If the server has LISTENed for the client, the next step of the
   channels is UNLISTEN. */
bool session_state_ask(struct server *server);
/* The task that asks the server for the state of its client. */
extern const struct server_task task_state;
/* Frees the answer. */
void session_question_forget(struct server *server);
#endif
