#ifndef AUTH_DISPLACE_H
#define AUTH_DISPLACE_H

#include "conn/client.h"

/* Room for one more login, where there are too many (max_login_clients, max_client_conn, max_auth_queue). */

/* Ends a login (with `why`) in favour of this client's: one that has failed and waits for its refusal; else one of the
   site with most logins in progress, if these are more than the client's site has, or of the client's own site, at an address with more than
   the client's; else one of a site (of its own: of an address) with as many, with a client that has been silent for more than a second. False:
   there is none. */
bool displace_login(struct client *client, enum close_reason why);

#endif
