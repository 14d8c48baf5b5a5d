#ifndef CONN_FLOW_H
#define CONN_FLOW_H

#include "base/inline.h"
#include "conn/peer.h"

/*
 * Why the socket of a connection is not read. Each reason is a bit of peer->blocked; these functions are the only writers. The socket
 * is read exactly when no bit is set.
 */
enum flow_block {
	FLOW_ROOM = 1,		/* bytes for the other side of the link, or without a link for the client itself, wait to be sent */
	FLOW_ANSWERS = 2,	/* the client's next message must not go to the server before earlier answers have come */
	FLOW_HELD = 4,		/* the connection holds as many bytes as it may before the event that it waits for */
	FLOW_READY = 8,		/* server: a ReadyForQuery is withheld until the listener has answered (state/notify_client.c) */
	FLOW_SUSPENDED = 16,	/* SUSPEND */
	FLOW_TLS_TURN = 32,	/* client: its TLS handshake waits for its turn (login/handshake.c) */
	FLOW_KEY = 64,		/* server: a SCRAM key is being derived */
	FLOW_EOF = 128		/* cancel request: the client has closed its half */
};

/* Sets bits: the socket is not read from now on. */
void flow_block(struct peer *peer, unsigned bits);
/* The part of flow_unblock for a peer that has one of the bits. */
void flow_unblock_set(struct peer *peer, unsigned bits);
/* Clears bits. If none is left, the socket is read again, and input that TLS has decrypted already is announced. Nothing for a
   connection that is ending. */
static ALWAYS_INLINE void flow_unblock(struct peer *peer, unsigned bits)
{
	if (peer->blocked & bits)
		flow_unblock_set(peer, bits);
}
/* Asserts that the socket is read exactly when nothing blocks it. */
void flow_check(const struct peer *peer);

#endif
