#ifndef BACKEND_SERVER_AUTH_H
#define BACKEND_SERVER_AUTH_H

#include "conn/world.h"
#include "pg/frame.h"

/* Authentication at a server. Promise: no password is sent to a server if server_require_auth or
   channel binding excludes it. See server_auth.c. */

/* Handles a complete Authentication message during the login at a server. Answers it, or accepts
   AuthenticationOk (DIAL_PROVEN); the server may end. */
void server_auth_request(struct server *server, const struct pg_frame *frame);
/* The server has refused the secret of the user: connects again with the user's other secret.
   False: there is none, or it has been tried. */
bool server_auth_try_other(struct server *server);

#endif
