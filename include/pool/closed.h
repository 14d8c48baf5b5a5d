#ifndef POOL_CLOSED_H
#define POOL_CLOSED_H

#include "pool/role.h"

/*
 * Which hosts are closed to which databases, because of DISABLE HOST and DRAIN HOST (pool/admit.h).
 */

/* Whether an administrator has closed the host to the database. DRAIN HOST moves the clients of a
   database with roles and several hosts, and ends the clients of other databases (pool/drain.h). */
static inline bool host_is_closed_to(const struct host *host, const struct database *database)
{
	return host->is_disabled ||
	       (host->is_drained && database->roles && database->roles->count > 1);
}
/* Whether each host of the database is closed to it. */
bool hosts_are_closed(const struct database *database);
bool host_is_named(const struct host *host, const char *name);
/* Whether the database lists a host with this name; NULL: whether any database does, or the host is
   disabled. */
bool host_is_listed(const struct pools *pools, const struct database *database, const char *name);

#endif
