#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "conn/world.h"

/*
 * The way of a byte: client to server and back. The only code of pgweir that runs for every query.
 */

/* A pipeline with so many messages is too deep: no more is taken on before answers come. */
#define RELAY_DEEPEST 65536
/* So many connections may have sbuf_loopcnt full reads each in a turn; more of them have one, and smaller ones, down to the least. */
#define RELAY_STREAMS 16
#define RELAY_LEAST_PIECE (16 * 1024)

/* Takes what the client has sent: what it holds, then, with from_socket, what the socket has. It is not ending; it may be afterwards. */
void relay_from_client(struct client *client, bool from_socket);
/* The same for a server. */
void relay_from_server(struct server *server, bool from_socket);
/* Whether the connection that is being read may read once more in this turn: it has done so `rounds` times, each time in full. */
bool relay_one_more(struct world *world, int64_t rounds);
/* A turn begins: what each connection may have in it follows from how many streamed in the one before. */
void relay_share_turn(struct world *world);
static inline void relay_begin_turn(struct world *w)
{
	if (w->streams > 0 || w->streams_before > 0)
		relay_share_turn(w);
}
/* The far side's socket took everything: this side may be read again. */
void relay_client_drained(struct client *client);
void relay_server_drained(struct server *server);
#endif
