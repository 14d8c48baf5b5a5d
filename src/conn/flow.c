/*
 * The flow of a connection's input: the reasons why its socket is not read.
 *
 * Invariant: an open socket is read exactly when peer->blocked is 0.
 */
#include "conn/flow.h"

#include "base/assert.h"
void flow_block(struct peer *peer, unsigned bits)
{
	peer->blocked |= (uint8_t)bits;
	stream_set_reading(&peer->stream, false);
}

void flow_unblock_set(struct peer *peer, unsigned bits)
{
	peer->blocked &= (uint8_t)~bits;
	if (peer->blocked == 0 && !peer_is_stopped(peer))
		stream_set_reading(&peer->stream, true);
}

void flow_check(const struct peer *peer)
{
	ASSERT(peer->stream.phase != STREAM_OPEN || (peer->blocked == 0) == peer->stream.reading);
}
