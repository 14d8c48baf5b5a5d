#ifndef SESSION_RELAY_H
#define SESSION_RELAY_H

#include "session/world.h"

/*
 * The way of a byte: client to server and back. The only code of pgweir that runs for every query.
 */

/* Sizes of the loop's one read buffer, and of a pipeline that is too deep to be taken on before answers come. */
#define RELAY_BUFFER (128 * 1024)
#define RELAY_DEEPEST 65536

/* Takes what the client has sent: what it holds, then, with from_socket, what the socket has. The client may be
   gone afterwards. */
void relay_from_client(struct client *client, bool from_socket);
/* The same for a server. */
void relay_from_server(struct server *server, bool from_socket);
/* The far side's socket took everything: this side may be read again. */
void relay_client_drained(struct client *client);
void relay_server_drained(struct server *server);
/* A cancel request came for a client that still waits in the queue: it gets the error, and what it has sent for
   this request is passed over. */
void relay_refuse_waiting(struct client *client);

#endif
