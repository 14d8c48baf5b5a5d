#ifndef SESSION_DISPATCH_H
#define SESSION_DISPATCH_H

#include "session/world.h"

/*
 * Events of connections go to the room that the state of the connection names: see dispatch.c.
 */

/* A connection of a client was accepted on a socket of this port. False: it was refused, or there was no memory; the descriptor is closed
   then, or will be in the reap. */
bool client_open(struct world *world, int fd, const struct address *remote, bool is_unix, uint16_t port);
/* The connection may have something to read (`from_socket`), or holds something that can go on now. */
void client_readable(struct client *client, bool from_socket);
void server_readable(struct server *server, bool from_socket);

/* A client of the console, after its login. */
void console_read(struct client *client, bool from_socket);

/* For world_new. */
extern const struct world_ops dispatch_ops;

#endif
