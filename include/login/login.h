#ifndef LOGIN_LOGIN_H
#define LOGIN_LOGIN_H

#include "auth/login_state.h"
#include "backend/server_login.h"

/* The login of a client, until its welcome: see login.c. */

/* False: no memory. */
bool login_begin(struct client *client);
void login_free(struct client *client);
/* Handles the client's input. Before the login is over, the client may end. */
void login_read(struct client *client, bool from_socket);
/* The client is authenticated: joins its pool, and gets its welcome now or as soon as the
   parameters of a server are known. */
void login_proven(struct client *client);
/* The client is authenticated and waits for its welcome (CLIENT_WAITING_LOGIN): sends the welcome
   if the parameters of its pool's servers are known, otherwise marks the pool, which opens a
   server. The client is IDLE or has ended if it does not wait any more. */
void login_welcome(struct client *client);

/* The part of this room in the record of a client before the end of its login
   (handover/handover.c). login_unpack() begins its login, and sets in->bad for an invalid value, or
   without memory. */
void login_pack(struct bytes *out, const struct client *client);
void login_unpack(struct unpack *in, struct client *client);

/* ---- clients that get a server before their welcome: replication, session_link ---- */

/* A server was lent to the client: sets the parameters that the client expects. False: the client
   has ended. */
bool login_link_begin(struct server *server, struct client *client);
/* The server has the client's parameters: sends the welcome. False: the client has ended. */
bool login_link_welcome(struct server *server, struct client *client);
/* The server ended before the welcome: queues the client again. */
void login_link_again(struct client *client);

#endif
