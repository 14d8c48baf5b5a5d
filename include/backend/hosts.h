#ifndef BACKEND_HOSTS_H
#define BACKEND_HOSTS_H

#include "backend/server_login.h"

/*
 * Hosts of a database. Promise: a dial tries each host of the list once; a host that has failed within server_login_retry is tried after the others.
 */

/*
 * A host: a name, address or socket directory, and its port. All pools with this host in their lists share the object, so that a failure that one
 * pool finds is known to all pools. The table is pools->hosts.
 */
struct host {
	UT_hash_handle hh;		/* by key */
	struct host **table;
	int users;			/* references */
	usec_t unreachable_since;	/* when connecting to the host failed last; 0 after a success, and before the first failure */
	char key[];			/* "name:port" */
};

/* The knowledge of a pool about the hosts of its list; all zeros: none. Part of struct server_info. */
struct hosts {
	unsigned count;			/* of places */
	unsigned next;			/* place in the list that the next dial begins with */
	struct host_place *places;	/* in the order of the list */
	struct dead_address *dead;	/* the last addresses that did not work; NULL: none so far */
};
void hosts_clear(struct hosts *hosts);

/* The present host has accepted the connection, works, or does not work: later dials consider it. */
enum host_note { HOST_REACHED, HOST_WORKS, HOST_FAILS };
void hosts_note(struct server *server, enum host_note note);
/* The same for the address that is tried, one of the addresses of the host. Returns whether this is a change. */
bool hosts_note_address(struct server *server, bool works);
/* Moves addresses that did not work to the end of dial->addresses. */
void hosts_order_addresses(struct server *server);

#endif
