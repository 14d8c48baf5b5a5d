#ifndef LOGIN_LOGIN_H
#define LOGIN_LOGIN_H

#include "auth/login_state.h"

/* What a client does until it is welcomed: see login.c. */

/* False: no memory. */
bool login_begin(struct client *client);
void login_free(struct client *client);
void login_read(struct client *client, bool from_socket);
void login_secured(struct client *client, const char *error);
/* After the secret or TLS has authenticated it: joins the pool, is welcomed now or as soon as a server's parameters are known. */
void login_proven(struct client *client);
/* The whole welcome: its parameters (client->params), those that are not tracked (whole ParameterStatus messages), key and
   ReadyForQuery. `pid` is the process id in its key; 0: one is drawn. The client may be gone afterwards. */
void login_welcome(struct client *client, const struct bytes *untracked, uint32_t pid);
/* What the client has asked for, over these defaults. Held; NULL: no memory. */
const struct params *login_params(const struct client *client, const struct params *defaults);

#endif
