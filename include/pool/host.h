#ifndef POOL_HOST_H
#define POOL_HOST_H

#include "base/clock.h"
#include "base/hash.h"

#include <stdbool.h>

/*
 * A host: a name, address or socket directory from the host list of a database, and its port. All pools with this host in their
 * lists share the object, so that a failure that one pool finds is known to all pools. The table is pools->hosts.
 */
struct host {
	UT_hash_handle hh;		/* by key */
	struct host **table;
	int users;			/* references held with host_hold */
	usec_t unreachable_since;	/* when connecting to the host failed last; 0 after a success, and before the first failure */
	char key[];			/* "name:port" */
};

/* Returns the host with this name (`size` bytes) and port, and adds a reference. Creates the host if needed. NULL: no memory. */
struct host *host_hold(struct host **table, const char *name, size_t size, int port);
void host_drop(struct host **host);		/* drops a reference; *host may be NULL */
/* Records whether an attempt to connect to the host succeeded. */
void host_note(struct host *host, bool works, usec_t now);
/* Returns whether the last attempt to connect failed less than `period` ago. */
bool host_is_unreachable(const struct host *host, usec_t now, usec_t period);

#endif
