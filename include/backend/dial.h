#ifndef BACKEND_DIAL_H
#define BACKEND_DIAL_H

#include "backend/server_info.h"

/*
 * Opening a server connection: name, connect, TLS, start-up, password, parameters.
 */
/* Opens a server for the pool, in session mode with the start-up parameters of the client (NULL: with none), and with those in `kept`
   (name\0value\0 ...; NULL: none). */
void dial_begin(struct pool *pool, struct world *world, const struct client *client, const struct bytes *kept);
/* Opens the connection that carries a cancel request for `target`; `connected` is called when it stands.
   Gives the connection (LOGIN, is_cancel), or NULL. */
struct server *dial_for_cancel(struct server *target, void (*connected)(struct server *carrier));
void dial_connected(struct server *server, const char *error);
void dial_secured(struct server *server, const char *error);
void dial_read(struct server *server, bool from_socket);
/* The way to the server that is being tried does not work: another address or host is tried, or, when there
   is none, the server ends. For what may be otherwise elsewhere; a server with a final answer (a refused
   password) ends with server_end. */
void dial_give_way(struct server *server, enum close_reason why, const char *detail);
/* About ten times a second: server_connect_timeout, and each way's part of it. */
void dial_tick(struct server *server);
void dial_free(struct server *server);

#endif
