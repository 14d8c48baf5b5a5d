#ifndef LOGIN_LOGIN_H
#define LOGIN_LOGIN_H

#include "auth/login_state.h"

/* The login of a client, until its welcome: see login.c. */

/* False: no memory. */
bool login_begin(struct client *client);
void login_free(struct client *client);
void login_read(struct client *client, bool from_socket);
void login_secured(struct client *client, const char *error);
/* The client is authenticated: joins its pool, and gets its welcome now or as soon as the parameters of a server are known. */
void login_proven(struct client *client);
/* Sends the complete welcome: the client's parameters (client->params), the untracked ones (as ParameterStatus messages), the
   cancel key and ReadyForQuery. `pid` is the process id in the key; 0: a random one. The client may end. */
void login_welcome(struct client *client, const struct bytes *untracked, uint32_t pid);
/* Returns the parameters that the client asked for, merged over these defaults, with a reference. NULL: no memory. */
const struct params *login_params(const struct client *client, const struct params *defaults);

#endif
