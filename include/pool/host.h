#ifndef POOL_HOST_H
#define POOL_HOST_H

#include "base/clock.h"
#include "base/hash.h"

#include <stdbool.h>

/*
 * A host: one name, address or socket directory of a database's list, and its port. All pools that have it in their lists share the object, so
 * that what one of them finds out about it is known to all. The table is pools->hosts.
 */
struct host {
	UT_hash_handle hh;		/* by key */
	struct host **table;
	int users;			/* holds */
	usec_t unreachable_since;	/* the last attempt to connect to it failed then; 0: none did, or the last one worked */
	char key[];			/* "name:port" */
};

/* The host of that name (of `size` bytes) and port, held, made when there is none; NULL: no memory. */
struct host *host_hold(struct host **table, const char *name, size_t size, int port);
void host_drop(struct host **host);		/* NULL is none */
/* An attempt to connect has worked or failed. */
void host_note(struct host *host, bool works, usec_t now);
/* True when an attempt has failed less than `period` ago, and none has worked since. */
bool host_is_unreachable(const struct host *host, usec_t now, usec_t period);

#endif
