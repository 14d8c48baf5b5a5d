#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "conn/world.h"

/*
 * The way of a byte: client to server and back. The only code of pgweir that runs for every query.
 */

/* A pipeline with so many messages is too deep: no more is taken on before answers come. */
#define RELAY_DEEPEST 65536
/* So many full reads may be in a turn; where more connections stream, each has one, and smaller ones, down to the least. */
#define RELAY_READS 16
#define RELAY_LEAST_PIECE (16 * 1024)
/* So many messages may be looked at one by one in a turn; where more connections send them, each has a share, down to the least. */
#define RELAY_LOOKS 4096
#define RELAY_LEAST_LOOKS 32

/* Takes what the client has sent: what it holds, then, with from_socket, what the socket has. It is not ending; it may be afterwards. */
void relay_from_client(struct client *client, bool from_socket);
/* The same for a server. */
void relay_from_server(struct server *server, bool from_socket);
/* Whether the connection that is being read may read once more in this turn: it has done so `rounds` times, each time in full. */
bool relay_one_more(struct world *world, int64_t rounds);
/* A walk over the read buffer has looked at so many of the world's looks_each; `is_cut`: it has left others for the next turn, because it
   may look at no more. Few are not counted. */
void relay_looked_at_many(struct world *world, uint32_t count, bool is_cut);
static inline void relay_looked(struct world *w, uint32_t count, bool is_cut)
{
	if (count >= RELAY_LEAST_LOOKS)
		relay_looked_at_many(w, count, is_cut);
}
/* A turn begins: what each connection may have in it follows from how many had much to pass on in the one before. */
void relay_share_turn(struct world *world);
static inline void relay_begin_turn(struct world *w)
{
	if (w->is_shared)
		relay_share_turn(w);
}
/* The far side's socket took everything: this side may be read again. */
void relay_client_drained(struct client *client);
void relay_server_drained(struct server *server);
#endif
