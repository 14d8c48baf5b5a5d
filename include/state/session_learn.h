#ifndef STATE_SESSION_LEARN_H
#define STATE_SESSION_LEARN_H

#include "conn/world.h"

/* The effect of an answer about parameters (session_question.h): see session_learn.c. */

enum session_taking { SESSION_TAKEN, SESSION_TOO_MUCH, SESSION_NO_MEMORY };

/* The answer is complete: sets server->params to the values of the session, and client->params to the values of the client. Without success they
   do not change. */
enum session_taking session_learn(struct server *server, struct client *client);

#endif
