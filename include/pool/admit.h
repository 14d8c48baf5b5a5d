#ifndef POOL_ADMIT_H
#define POOL_ADMIT_H

#include "pool/role.h"

/*
 * An administrator's word about hosts: DISABLE HOST, ENABLE HOST and DRAIN HOST. Promise: after
 * DISABLE HOST db1, no database opens a connection at db1 or sends it a transaction, until an
 * administrator says ENABLE HOST db1. See admit.c.
 *
 * Names of hosts are as in the configuration, with or without the port: "db1", "db1:5432".
 */

/* Disables or enables each host with this name. Enabling ends DRAIN HOST of the host, too. False:
   no memory, and a host may not be disabled. */
bool hosts_disable(struct pools *pools, const char *name, bool is_disabled, usec_t now);
/* After an online restart: the old process had disabled the host with this key. False: no memory,
   or no key. */
bool host_restore_disabled(struct pools *pools, const char *key);
/* Call this after a DRAIN HOST has begun or stopped, and after a RELOAD. */
void hosts_admit_anew(struct pools *pools, usec_t now);

#endif
