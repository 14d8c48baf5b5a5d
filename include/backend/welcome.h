#ifndef BACKEND_WELCOME_H
#define BACKEND_WELCOME_H

#include "base/bytes.h"

/*
 * The ParameterStatus messages of a server's login about parameters that are not tracked. Promise:
 * in_hot_standby has the value that the server has reported last. See server_info.c.
 */
struct welcome {
	int users;			/* references */
	struct bytes messages;
	char *standby;			/* NULL: as in the messages */
};

/* Takes ownership of the messages. If `like` (NULL: none) has equal messages, returns another
   reference to it. NULL: no memory. */
struct welcome *welcome_of(struct bytes *messages, struct welcome *like);
void welcome_drop(struct welcome **welcome);		/* *welcome may be NULL */
/* A server with this welcome has reported a parameter. A parameter of the server itself, not of its
   session, changes the messages. */
bool welcome_reported(struct welcome *welcome, const char *name, const char *value);
/* Returns the messages. Values that were reported since the last call are inserted here, because a
   server may report thousands of changes at once. */
const struct bytes *welcome_messages(struct welcome *welcome);

#endif
