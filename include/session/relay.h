#ifndef SESSION_RELAY_H
#define SESSION_RELAY_H

#include "session/world.h"

/*
 * The way of a byte: client to server and back. The only code of pgweir that runs for every query.
 */

/* Sizes of the loop's one read buffer, and of a pipeline that is too deep to be taken on before answers come. */
#define RELAY_BUFFER (128 * 1024)
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
/* What the client waits for has come, or may have: it is read again, and what it holds is looked at. */
static inline void relay_client_goes_on(struct client *c)
{
	c->peer.waits_for_room = false;
	peer_read_on(&c->peer);
	peer_come_again(&c->peer);
}
/* The far side's socket took everything: this side may be read again. */
void relay_client_drained(struct client *client);
void relay_server_drained(struct server *server);
/* A cancel request came for a client that still waits in the queue: it gets the error, and what it has sent for
   this request is passed over. */
void relay_refuse_waiting(struct client *client);

#endif
