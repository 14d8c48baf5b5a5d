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

#endif
