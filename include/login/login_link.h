#ifndef LOGIN_LOGIN_LINK_H
#define LOGIN_LOGIN_LINK_H

#include "login/login.h"

/* Clients that have a server before they are welcomed: see login_link.c. */

/* The client is to have its server first: of replication, or by session_link. It has its pool, and its replication is known. */
static inline bool login_link_is_wanted(const struct client *c) { return c->replication || pool_links_at_login(c->policy.pool); }
/* The client is authenticated and has joined its pool: it waits in the queue. */
void login_link_queue(struct client *client);
/* The server that was lent to it is gone without it: it waits for another one. */
void login_link_again(struct client *client);
/* The server is lent to a client that has not been welcomed yet: sets what the client believes its parameters to be. False: the client
   has ended. */
bool login_link_begin(struct server *server, struct client *client);
/* The server has these parameters: the client is welcomed. False: it has ended. */
bool login_link_welcome(struct server *server, struct client *client);

#endif
