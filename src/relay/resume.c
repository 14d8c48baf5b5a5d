/*
 * A new process continues the connections of the process that it has replaced
 * (handover/handover.c): first the bytes that the old process could not send, then the input that
 * the old process had read and not handled. Until the handover is complete, neither is touched.
 */
#include "relay/relay.h"

void relay_send_rest(struct peer *peer, const struct bytes *rest)
{
	struct client *c = peer->is_client ? LIST_OBJECT(peer, struct client, peer) : NULL;
	struct server *s = peer->is_client ? NULL : LIST_OBJECT(peer, struct server, peer);

	if (peer_is_stopped(peer) ||
	    !stream_write_bytes(&peer->stream, bytes_front(rest), bytes_size(rest)))
		return;
	if (stream_unsent(&peer->stream) == 0) {
		if (c)
			relay_client_drained(c);
		else
			relay_server_drained(s);
	} else if (c && c->pooled.link) {
		flow_block(&server_of(c->pooled.link)->peer, FLOW_ROOM);
	} else if (s && s->pooled.link && !s->pooled.link->is_internal) {
		flow_block(&client_of(s->pooled.link)->peer, FLOW_ROOM);
	}
}

void relay_resume(struct list *peers)
{
	LIST_EACH(node, peers) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);
		const struct client *c = peer->is_client ? LIST_OBJECT(peer, struct client, peer)
							 : NULL;

		if (bytes_size(&peer->held) == 0)
			continue;
		/* The input may contain complete messages that the relay has left there. The input
		   of a client in the queue stays until the client gets a server. */
		if (peer->is_client)
			peer->held_first = (c->pooled.state == CLIENT_IDLE ||
					    c->pooled.state == CLIENT_ACTIVE) &&
					   !c->console.is_connected;
		else
			peer->held_first = LIST_OBJECT(peer, struct server, peer)->pooled.link !=
					   NULL;
		peer_come_again(peer);
	}
}
