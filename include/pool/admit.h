#ifndef POOL_ADMIT_H
#define POOL_ADMIT_H

#include "pool/role.h"

/*
 * An administrator's word about hosts: DISABLE HOST, ENABLE HOST and DRAIN HOST. Promise: a host
 * that is closed to a database gets no new transaction and no new connection of it, and only an
 * administrator changes that. See admit.c.
 *
 * Names of hosts are as in the configuration, with or without the port: "db1", "db1:5432".
 */

/* Disables or enables each host with this name. Enabling ends DRAIN HOST of the host, too. False:
   no memory, and a host may not be disabled. */
bool hosts_disable(struct pools *pools, const char *name, bool is_disabled, usec_t now);
/* The host with this key was disabled in the process before this one. False: no memory, or no
   key. */
bool host_restore_disabled(struct pools *pools, const char *key);
/* Call this after a DRAIN HOST has begun or stopped, and after a RELOAD. */
void hosts_admit_anew(struct pools *pools, usec_t now);
/* Whether an administrator's word keeps the database from the host. DRAIN HOST moves the clients of
   a database with roles and several hosts, and ends the clients of other databases
   (pool/drain.h). */
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
