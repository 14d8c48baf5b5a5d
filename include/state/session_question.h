#ifndef STATE_SESSION_QUESTION_H
#define STATE_SESSION_QUESTION_H

#include "conn/world.h"
#include "pg/frame.h"

/* The query about the session of a client with keeps_state. Promise: an answer that is incomplete or too large changes nothing. See
   session_question.c. */
struct client_session;

/* How the server is asked for a fact (tbl/session_fact.tbl). */
enum session_ask { ASK_NOT, ASK_PARAMETERS, ASK_EXISTS, ASK_CHANNELS, ASK_ROLE };

/* The content of an answer. */
struct session_answer {
	struct bytes pairs;		/* of parameters: name and value in turn, each with its NUL */
	size_t count;
	unsigned pins;			/* facts that the session still has */
	struct bytes channels;		/* names of the channels that the session LISTENs to, each with its NUL */
	int channel_count;
	char *role, *first_role;	/* notes (server_session.h) of the current role, and of the role at the start of the session; NULL: not received */
	bool is_too_much;		/* some parameters could not be kept */
	bool are_channels_too_many;	/* some channels could not be kept, or one has a malformed name */
	bool is_incomplete;		/* another process has received a part of it */
	int tries;			/* number of failed queries */
};

/* Whether a text of the client has named this parameter, which has a dot. Such parameters are asked for by name. */
bool session_asks_for(const struct client_session *state, const char *name);
/* Adds the parameter. names.failed: no memory. */
void session_will_ask_for(struct client_session *state, const char *name);
/* Appends the SQL that asks the server for the facts in doubt, without a NUL. Creates session.answer, or clears session.answer for another
   try. False: no memory. */
bool session_question_sql(struct server *server, struct bytes *sql);
/* A DataRow of the answer. */
void session_question_row(struct server *server, const struct pg_frame *row);
/* Frees the answer. */
void session_question_forget(struct server *server);
/* After a handover: task_state is under way, and the other process may have received the first part of the answer. False: no memory. */
bool session_question_take_over(struct server *server);

enum session_taking { SESSION_TAKEN, SESSION_TOO_MUCH, SESSION_NO_MEMORY };
/* The answer is complete: sets server->params to the values of the session, and client->params to the values of the client. Without success they
   do not change. */
enum session_taking session_learn(struct server *server, struct client *client);

#endif
