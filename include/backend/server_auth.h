#ifndef BACKEND_SERVER_AUTH_H
#define BACKEND_SERVER_AUTH_H

#include "conn/world.h"
#include "pg/frame.h"

/* What a server that is being opened asks for: see server_auth.c. */

/* An Authentication... message, as a whole. Answers, or takes AuthenticationOk (DIAL_PROVEN); the server may end. */
void server_auth_request(struct server *server, const struct pg_frame *frame);

#endif
