#ifndef BACKEND_HOSTS_H
#define BACKEND_HOSTS_H

#include "backend/server_login.h"
#include "pool/host.h"

/*
 * Hosts of a database. Promise: a dial tries each host of the list once; hosts with a failure
 * within server_login_retry are tried after the others.
 */

/* The knowledge of a pool about the hosts of its list, besides pool->places; all zeros: none. Part
   of struct server_info. */
struct hosts {
	unsigned next;			/* place in the list that the next dial begins with */
	/* the last addresses that did not work; NULL: none so far */
	struct dead_address *dead;
};
static inline void hosts_clear(struct hosts *hosts)
{
	mem_free(hosts->dead);
	*hosts = (struct hosts){ .next = 0 };
}

/* The present host has accepted the connection, works, or does not work: later dials consider
   it. */
enum host_note { HOST_REACHED, HOST_WORKS, HOST_FAILS };
void hosts_note(struct server *server, enum host_note note);
/* Notes whether the address that this dial tries works: a host name may have several addresses, and
   later dials begin with the addresses that have worked. Returns whether the note has changed. */
bool hosts_note_address(struct server *server, bool works);
/* Moves addresses that did not work to the end of dial->addresses. */
void hosts_order_addresses(struct server *server);

#endif
