#ifndef BACKEND_HOSTS_H
#define BACKEND_HOSTS_H

#include "backend/server_login.h"

/*
 * A host: a name, address or socket directory, and its port. All pools with this host in their lists share the object, so that a
 * failure that one pool finds is known to all pools. The table is pools->hosts.
 */
struct host {
	UT_hash_handle hh;		/* by key */
	struct host **table;
	int users;			/* references held with host_hold */
	usec_t unreachable_since;	/* when connecting to the host failed last; 0 after a success, and before the first failure */
	char key[];			/* "name:port" */
};

/* Returns the host with this name and port, and adds a reference. Creates the host if needed. NULL: no memory. */
struct host *host_hold(struct host **table, const char *name, int port);
void host_drop(struct host **host);		/* drops a reference; *host may be NULL */

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
