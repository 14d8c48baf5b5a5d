#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "conn/world.h"

/*
 * The way of a byte: client to server and back. The only code of pgweir that runs for every query.
 */

/* Maximum number of messages in a pipeline: further messages wait for answers. */
#define RELAY_DEEPEST 65536
/* Maximum number of full reads in a turn; with more connections that stream, each has one smaller
   read of at least RELAY_LEAST_PIECE bytes. */
#define RELAY_READS 16
#define RELAY_LEAST_PIECE (16 * 1024)

/* Processes the input of the client: the held bytes, then, with from_socket, the socket's. The
   client is not ending; it may be afterwards. */
void relay_from_client(struct client *client, bool from_socket);
/* Processes the input of the server: the held bytes, then, with from_socket, the socket's. The
   server is not ending; it may be afterwards. */
void relay_from_server(struct server *server, bool from_socket);
/* Whether the connection that is being read may read once more in this turn: it has done so
   `rounds` times, each time in full. */
bool relay_one_more(struct world *world, int64_t rounds);
/* A walk over the read buffer has examined `count` messages; `is_cut`: it has left others for the
   next turn, because its share is used up. Small numbers are not counted. */
void relay_looked_at_many(struct world *world, uint32_t count, bool is_cut);
static inline void relay_looked(struct world *w, uint32_t count, bool is_cut)
{
	if (count >= LEAST_LOOKS || is_cut)
		relay_looked_at_many(w, count, is_cut);
}
/* A turn begins: computes the share of each connection from the number of streams in the last
   turn. */
void relay_share_turn(struct world *world);
static inline void relay_begin_turn(struct world *w)
{
	if (w->share.is_limited)
		relay_share_turn(w);
	w->loop.turns++;
}
/* The server's socket has taken everything that waited: the client may be read again. */
void relay_client_drained(struct client *client);
void relay_server_drained(struct server *server);

/* resume.c */
/* Sends bytes that the old process could not send. While the peer does not accept them, its
   partner is not read: reading might end both connections before these bytes are sent. A broken
   socket is noticed when it is read. */
void relay_send_rest(struct peer *peer, const struct bytes *rest);
/* Wakes all peers with input. All sockets are read, which also restores the state of clients that
   must not be read yet. */
void relay_resume(struct list *peers);
#endif
