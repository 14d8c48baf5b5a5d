#ifndef BACKEND_HOSTS_H
#define BACKEND_HOSTS_H

#include "backend/server_login.h"

/*
 * Which host of a database's list a server connection is opened to, and which is next when that does not work.
 */

/* What a pool knows of the hosts of its list; all zeros: nothing. Lives with the pool's server info. */
struct hosts {
	unsigned count;			/* of places */
	unsigned next;			/* place in the list that the next dial begins with */
	struct host_place *places;	/* in the order of the list */
	struct dead_address *dead;	/* the last addresses that were found not to work; NULL: none so far */
};
void hosts_clear(struct hosts *hosts);

/* Puts the list into the order in which this dial tries it, and its first host into dial->host. False: no
   memory. */
bool hosts_begin(struct server *server);
/* Puts the next host into dial->host. False: there is none; the database may have been given another list
   meanwhile. */
bool hosts_next(struct server *server);
/* How many are still to be tried, without the present one. */
unsigned hosts_left(const struct server *server);
/* The present one has taken the connection. */
void hosts_note_reached(struct server *server);
/* The present one does not work, or does: for dials to come. */
void hosts_note(struct server *server, bool works);
/* The same for the address that is being tried, one of perhaps several that the host has. True: that is news. */
bool hosts_note_address(struct server *server, bool works);
/* Puts those of dial->addresses that were found not to work behind the others. */
void hosts_order_addresses(struct server *server);

#endif
