#ifndef BACKEND_WELCOME_H
#define BACKEND_WELCOME_H

#include "base/bytes.h"

/* The ParameterStatus messages of a server's welcome whose parameters are not tracked: see welcome.c. */
struct welcome;

/* Takes the messages over. What `like` (NULL: none) says in the same words is shared with it. Held; NULL: no memory. */
struct welcome *welcome_of(struct bytes *messages, struct welcome *like);
struct welcome *welcome_hold(struct welcome *welcome);
void welcome_drop(struct welcome **welcome);		/* NULL is none */
/* A server with this welcome has reported a parameter. What is true of the server itself, and not only of the session, is what clients are
   welcomed with from now on. */
void welcome_reported(struct welcome *welcome, const char *name, const char *value);
/* The messages as of now. What has been reported since the last call is put in here and not when it comes, because a server may report
   thousands of changes at once. */
const struct bytes *welcome_messages(struct welcome *welcome);

#endif
