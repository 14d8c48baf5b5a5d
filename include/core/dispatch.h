#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

#include "core/world.h"

/*
 * Passes the events of a connection to the room that handles its state: see dispatch.c.
 */

/* Opens a client for a connection that was accepted on a socket with this port. False: refused, or no memory; the descriptor is
   closed, or will be closed in the reap. */
bool client_open(struct world *world, int fd, const struct address *remote, bool is_unix, uint16_t port);
/* Handles the input of the connection: the socket may be readable (`from_socket`), or received bytes can be handled now. */
void client_readable(struct client *client, bool from_socket);
void server_readable(struct server *server, bool from_socket);

/* Handles the input of a console client after its login. */
void console_read(struct client *client, bool from_socket);

/* Argument for world_new. */
extern const struct world_ops dispatch_ops;

#endif
