#ifndef LOGIN_LOGIN_LINK_H
#define LOGIN_LOGIN_LINK_H

#include "login/login.h"

/* Clients that get a server before their welcome: see login_link.c. */

/* Whether the client gets its server before the welcome: for replication, or because of session_link. Its pool and its
   replication mode must be set. */
static inline bool login_link_is_wanted(const struct client *c) { return c->replication || pool_links_at_login(c->pooled.pool); }
/* The client is authenticated and has joined its pool: puts it into the queue. */
void login_link_queue(struct client *client);
/* The server that was lent to the client ended before the welcome: queues the client again. */
void login_link_again(struct client *client);
/* A server was lent to a client before its welcome: sets the parameters that the client expects. False: the client has ended. */
bool login_link_begin(struct server *server, struct client *client);
/* The server has the client's parameters: sends the welcome. False: the client has ended. */
bool login_link_welcome(struct server *server, struct client *client);

#endif
