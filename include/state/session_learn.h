#ifndef STATE_SESSION_LEARN_H
#define STATE_SESSION_LEARN_H

#include "conn/world.h"

/* What an answer about parameters (session_question.h) means: see session_learn.c. */

enum session_taking { SESSION_TAKEN, SESSION_TOO_MUCH, SESSION_NO_MEMORY };

/* The server has answered, whole: server->params and client->params become what the session has, and what the client has. SESSION_TOO_MUCH, and without
   memory: they stay what they are. */
enum session_taking session_learn(struct server *server, struct client *client);

#endif
