/*
 * Common parts of client and server connections: the mark that a connection ends, whether its
 * socket is read, and the bytes held between two reads.
 *
 * Invariant: an open socket is read exactly if peer->blocked is 0.
 */
#include "conn/peer.h"

#include "base/assert.h"
#include "base/state.h"
#include "conn/world.h"

#include <string.h>

#define F(id) (1u << PEER_##id)
static const struct state_row fates[PEER_FATES] = {
#define PEER_FATE(id, moves) [PEER_##id] = { moves, NULL },
#include "tbl/peer_fate.tbl"
#undef PEER_FATE
};
#undef F

void peer_enter(struct peer *peer)
{
	struct world_peers *all = &peer->world->peers;

	list_append(peer->is_client ? &all->clients : &all->servers, &peer->node);
}

void peer_number(struct peer *peer) { peer->id = ++peer->world->peers.last_id; }

void peer_connected(struct peer *peer)
{
	peer->connected_at = peer->request_at = peer->world->now_wall;
}

void peer_free(struct peer *peer)
{
	bytes_free(&peer->held);
	list_remove(&peer->again);
	list_remove(&peer->node);
	mem_free(peer->end_detail);
}

void peer_become(struct peer *peer, enum peer_fate fate)
{
	peer->fate = state_move(fates, PEER_FATES, peer->fate, fate);
	if (fate != PEER_STAYS)
		list_remove(&peer->again);
}

void peer_end(struct peer *peer, enum peer_fate fate, enum close_reason why, const char *detail)
{
	peer_become(peer, fate);
	peer->end_reason = (uint8_t)why;
	/* without memory the text of the reason lacks the detail */
	peer->end_detail = detail ? mem_copy_string(detail) : NULL;
	list_remove(&peer->node);
	list_append(&peer->world->peers.ending, &peer->node);
}

static int peer_by_id(const void *a, const void *b)
{
	const struct peer *x = *(struct peer *const *)a, *y = *(struct peer *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

void peers_sort(struct list *list)
{
	struct peer **peers;
	size_t count = 0, i = 0;

	LIST_EACH(node, list)
		count++;
	peers = mem_try((count + 1) * sizeof(*peers));
	if (!peers)
		return;
	LIST_EACH(node, list)
		peers[i++] = LIST_OBJECT(node, struct peer, node);
	qsort(peers, count, sizeof(*peers), peer_by_id);
	for (i = 0; i < count; i++) {
		list_remove(&peers[i]->node);
		list_append(list, &peers[i]->node);
	}
	mem_free(peers);
}

void flow_unblock_set(struct peer *peer, unsigned bits)
{
	peer->blocked &= (uint8_t)~bits;
	if (peer->blocked == 0 && !peer_is_stopped(peer))
		stream_set_reading(&peer->stream, true);
}

bool peer_hold_rest(struct peer *peer, const uint8_t *rest, size_t size)
{
	ASSERT(bytes_size(&peer->held) == 0);
	bytes_append(&peer->held, rest, size);
	return !peer->held.failed;
}

bool peer_hold_rest_of(struct peer *peer, struct bytes *all, size_t used, bool first)
{
	ASSERT(bytes_size(&peer->held) == 0);
	peer->held_first = first;
	/* The beginning of a message must not keep the memory of the whole buffer. Complete
	   messages that wait keep the memory, because copying could repeat many times. */
	if (used > 0 && !first) {
		peer_hold(peer, bytes_front(all) + used, bytes_size(all) - used);
		bytes_free(all);
		return !peer->held.failed;
	}
	bytes_consume(all, used);
	peer->held = *all;
	*all = (struct bytes)BYTES_EMPTY;
	return true;
}

size_t peer_unhold_some(struct peer *peer)
{
	size_t size = bytes_size(&peer->held);

	ASSERT(size <= READ_BUFFER);
	memcpy(peer->world->buffer, bytes_front(&peer->held), size);
	bytes_free(&peer->held);
	return size;
}

size_t peer_unhold_wiped(struct peer *peer)
{
	size_t size = bytes_size(&peer->held);

	if (size > 0)
		memcpy(peer->world->buffer, bytes_front(&peer->held), size);
	bytes_wipe(&peer->held);
	return size;
}

bool peer_hold_more(struct peer *peer, const uint8_t *more, size_t size)
{
	bytes_append(&peer->held, more, size);
	return !peer->held.failed;
}

void peer_hold_all(struct peer *peer, struct bytes all)
{
	bytes_free(&peer->held);
	peer->held = all;
}
