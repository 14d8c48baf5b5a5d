#ifndef POOL_HOST_IDENTITY_H
#define POOL_HOST_IDENTITY_H

#include "pool/host.h"

/*
 * Which server an address leads to. Promise: a client gets a session at a host only if the session
 * leads to the server whose role and position are known. See host_identity.c.
 */

/* The server with this identity has answered the question for the role of the host; 0: unknown. */
void host_note_server(struct host *host, uint64_t server_id);
/* A new session of a pool at a host reports which server it is connected to. False: it is another
   server than the watcher's, whose role and position are known. The caller ends the session,
   because its data may be older. */
bool pool_server_identify(struct pool_server *server, uint64_t server_id, usec_t now);
/* The login of this server, which began at `begun_at`, reports in_hot_standby. */
void host_note_login(const struct pool_server *server, const char *standby, usec_t begun_at,
		     usec_t now);

#endif
