#ifndef RELAY_FAN_OUT_H
#define RELAY_FAN_OUT_H

#include "conn/world.h"

/*
 * Steps of clients that LISTEN, on their servers and on the listener's: see fan_out.c, and state/notify_server.h.
 */

/* The client, which listens, and its server are at the end of a link, with nothing in doubt. True: it keeps the server for a step of its channels
   to the listener; or the server has become the listener's, and the client has none. */
bool fan_out_moves(struct server *server, struct client *client);
/* The client's ReadyForQuery has come from its server, and what was before it has been sent. Notifications go before it. True: it is withheld until
   the listener has answered (TASK_HEAR). */
bool fan_out_holds_ready(struct server *server, struct client *client);
/* The client's next message may UNLISTEN or begin a transaction: it waits until the server has LISTENed to the client's channels. */
void fan_out_relisten(struct server *server, struct client *client);
/* A task of these steps is over: LISTEN, MARK, UNLISTEN of a server with a client, RELISTEN. */
void fan_out_task_over(struct server *server, enum server_task task);

#endif
