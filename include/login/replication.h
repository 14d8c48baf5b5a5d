#ifndef LOGIN_REPLICATION_H
#define LOGIN_REPLICATION_H

#include "login/login.h"
#include "pg/startup.h"

/* Replication connections: see replication.c. */

/* Looks for `replication` in a start-up packet, before anything else of it is taken: login->replication. False: its value
   cannot be; the client has ended. */
bool replication_ask(struct client *client, const struct pg_startup *packet);
/* Keeps a start-up parameter for the client's own server. False: too many, or no memory; the client has ended. */
bool replication_keep(struct client *client, const char *name, const char *value);

/* The client is authenticated and is about to join its pool: it will want a server of its own. */
void replication_mark(struct client *client);
/* A server that was opened for such a client has failed to log in, with this text: the client gets it, unless it is to wait for another
   attempt. */
void replication_server_failed(struct server *server, enum login_failure failure, const char *text);

#endif
