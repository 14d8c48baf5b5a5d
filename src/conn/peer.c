/*
 * What client and server connections have in common: the mark that one ends, and the bytes that it holds between two reads.
 */
#include "conn/gather.h"

#include "base/assert.h"

#include <string.h>

void peer_end(struct peer *peer, enum peer_fate fate, enum close_reason why, const char *detail)
{
	ASSERT(peer->fate == PEER_STAYS);
	peer->fate = (uint8_t)fate;
	peer->end_reason = (uint8_t)why;
	/* without memory the text goes without it */
	peer->end_detail = detail ? mem_copy_string(detail) : NULL;
	peer->stopped = true;
	list_remove(&peer->node);
	list_append(&peer->world->ending, &peer->node);
}

bool peer_hold_rest(struct peer *peer, const uint8_t *rest, size_t size)
{
	ASSERT(bytes_size(&peer->held) == 0);
	bytes_append(&peer->held, rest, size);
	return !peer->held.failed;
}

size_t peer_unhold_some(struct peer *peer)
{
	size_t size = bytes_size(&peer->held);

	ASSERT(size <= READ_BUFFER);
	memcpy(peer->world->buffer, bytes_front(&peer->held), size);
	bytes_free(&peer->held);
	return size;
}
