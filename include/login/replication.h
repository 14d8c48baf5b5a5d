#ifndef LOGIN_REPLICATION_H
#define LOGIN_REPLICATION_H

#include "login/login.h"
#include "pg/startup.h"

/* Replication connections: see replication.c. */

/* Looks for `replication` in a start-up packet, before the other parameters are used: sets login->replication. False: invalid
   value; the client has ended. */
bool replication_ask(struct client *client, const struct pg_startup *packet);
/* Keeps a start-up parameter for the client's server. False: too many, or no memory; the client has ended. */
bool replication_keep(struct client *client, const char *name, const char *value);

/* The client is authenticated and about to join its pool: assigns the number for its dedicated server. */
void replication_mark(struct client *client);
/* A server for a replication client has failed to log in, with this text: sends the error to the client, unless the client
   waits for another attempt. */
void replication_server_failed(struct server *server, enum login_failure failure, const char *text);

#endif
