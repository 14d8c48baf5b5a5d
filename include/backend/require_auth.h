#ifndef BACKEND_REQUIRE_AUTH_H
#define BACKEND_REQUIRE_AUTH_H

#include "conf/settings.h"
#include "conn/world.h"

/* Whether a server that is being opened may ask for this method (METHOD_NONE: may let the pooler in without asking): see
   require_auth.c. False: it may not, and the server has ended; the log and the clients that wait for it are told why. */
bool require_auth_allows(struct server *server, enum server_method method);

#endif
