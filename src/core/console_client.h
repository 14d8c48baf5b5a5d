#ifndef CORE_CONSOLE_CLIENT_H
#define CORE_CONSOLE_CLIENT_H

#include "conn/world.h"

/* A console client that has logged in has an event, or is on world->peers.again: passes its
   messages to the console. The socket may be readable (`from_socket`). The client may end. */
void console_client_read(struct client *client, bool from_socket);

#endif
