#ifndef STATE_SERVER_IDENTITY_H
#define STATE_SERVER_IDENTITY_H

#include "conn/server_task.h"

/*
 * Which server a connection leads to. An address may lead to several servers: for example the
 * address of a service or a load balancer, a name, or a virtual address that moves. A connection to
 * a host with a role is used only if it leads to the server whose role and position the watcher
 * asks for.
 */

/* When the postmaster started, in microseconds: no two servers of a cluster have the same value,
   and a restart changes it. */
#define SERVER_IDENTITY \
	"(extract(epoch from pg_catalog.pg_postmaster_start_time()) operator(pg_catalog.*) " \
	"1000000)::pg_catalog.int8"

extern const struct server_task task_identity;

#endif
