#ifndef AUTH_AUTH_H
#define AUTH_AUTH_H

#include "auth/client_address.h"
#include "auth/login_state.h"

/* Authentication of a client. tbl/auth_method.tbl lists the methods. */

/* The start-up packet has named user and database: chooses the method and begins it. The client may
   wait for a look-up, or end. */
void auth_begin(struct client *client);
/* The look-up of the user is over (login->wait): begins the method. The client may end. */
void auth_looked_up(struct client *client);
/* Handles the body of a PasswordMessage, SASLInitialResponse or SASLResponse. The client may
   end. */
void auth_message(struct client *client, const uint8_t *body, size_t size);

#endif
