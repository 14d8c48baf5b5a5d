#ifndef AUTH_DISPLACE_H
#define AUTH_DISPLACE_H

#include "conn/client.h"

/* Room for one more login, where there are too many (max_login_clients, max_client_conn, max_auth_queue). */

/* Ends another login (with `why`) to make room for this client's. Chosen is the first of: a login that has failed and waits for its
   refusal; a login at the site with the most logins in progress, if that site has more than the client's site; a login at another address of
   the client's site, if that address has more than the client's address; a login that has been silent for more than a second, at a site (or at
   an address of the client's site) with as many logins. False: no such login exists. */
bool displace_login(struct client *client, enum close_reason why);

#endif
