/* The end of a connection, held bytes, and the reasons why a socket is not read. */
#include "child.h"
#include "core/lifecycle.h"
#include "unit.h"
#include "whole.h"

#include <string.h>

TEST(connection_ends_once)
{
#define F(id) (1u << PEER_##id)
	static const unsigned moves[] = {
#define PEER_FATE(id, moves) [PEER_##id] = moves,
#include "tbl/peer_fate.tbl"
#undef PEER_FATE
	};

	CHECK_INT(moves[PEER_ENDS], 0);
	CHECK_INT(moves[PEER_HANDED_OVER], 0);
}

TEST(stopped_server_may_resume)
{
	struct peer peer = { .fate = PEER_STAYS };

	list_init(&peer.again);
	CHECK(!peer_is_stopped(&peer) && !peer_is_ending(&peer));
	peer_become(&peer, PEER_STOPPED);
	CHECK(peer_is_stopped(&peer) && !peer_is_ending(&peer));
	peer_become(&peer, PEER_STAYS);
	CHECK(!peer_is_stopped(&peer));
}

TEST(first_end_reason_is_kept)
{
	static struct world world;
	struct peer peer = { .world = &world };
	struct child child;
	int report = 0;

	list_init(&world.peers.ending);
	list_init(&peer.node);
	list_init(&peer.again);
	peer_end(&peer, PEER_ENDS, REASON_CLIENT_EOF, "detail");
	CHECK(peer_is_stopped(&peer) && peer_is_ending(&peer));
	CHECK_INT(peer.end_reason, REASON_CLIENT_EOF);
	CHECK_TEXT(peer.end_detail, "detail");
	CHECK(list_first(&world.peers.ending) == &peer.node);
	/* a second end is a bug and fails the assertion */
	if (child_fork(&child)) {
		child_report(&child, &report, sizeof(report));
		peer_end(&peer, PEER_HANDED_OVER, REASON_NONE, NULL);
		_exit(0);
	}
	CHECK(child_end(&child, &report, sizeof(report)) != 0);
	mem_free(peer.end_detail);
}

/* Returns a peer that holds the rest of "whole rest" after `used` bytes. */
static struct peer hold(size_t used, bool first, size_t *capacity)
{
	struct peer peer = { .held_first = !first };
	struct bytes all = BYTES_EMPTY;

	bytes_append(&all, "whole rest", 10);
	*capacity = all.capacity;
	CHECK(peer_hold_rest_of(&peer, &all, used, first));
	CHECK(!all.data);
	CHECK_INT(peer.held_first, first);
	CHECK_INT(bytes_size(&peer.held), 10 - used);
	CHECK(memcmp(bytes_front(&peer.held), &"whole rest"[used], 10 - used) == 0);
	return peer;
}

TEST(held_bytes_with_complete_messages_are_not_moved)
{
	size_t capacity;
	struct peer peer = hold(6, true, &capacity);

	CHECK_INT(peer.held.start, 6);
	CHECK_INT(peer.held.capacity, capacity);
	bytes_free(&peer.held);
	/* the incomplete first message is kept in place; otherwise only the beginning of the last message is copied */
	peer = hold(0, false, &capacity);
	CHECK_INT(peer.held.capacity, capacity);
	bytes_free(&peer.held);
	peer = hold(6, false, &capacity);
	CHECK_INT(peer.held.start, 0);
	bytes_free(&peer.held);
}

TEST(consumed_bytes_are_not_held)
{
	struct peer peer = { .held_first = true };
	struct bytes all = BYTES_EMPTY;

	bytes_append(&all, "whole", 5);
	CHECK(peer_hold_rest_of(&peer, &all, 5, false));
	CHECK(!peer.held.data && !all.data && !peer.held_first);
}

/* ---- flow ---- */

#define INI WHOLE_INI("", "")

static struct house_end *end;

TEST(socket_is_read_when_the_last_reason_is_gone)
{
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	CHECK(c->peer.stream.reading && c->peer.blocked == 0);
	flow_block(&c->peer, FLOW_ROOM);
	flow_block(&c->peer, FLOW_SUSPENDED);
	CHECK(!c->peer.stream.reading);
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_HELD);
	CHECK(!c->peer.stream.reading);
	flow_unblock(&c->peer, FLOW_SUSPENDED);
	CHECK(c->peer.stream.reading && c->peer.blocked == 0);
	whole_close();
}

TEST(stopped_connection_is_not_read_again)
{
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	flow_block(&c->peer, FLOW_ROOM);
	client_end(c, REASON_CLIENT_EOF, NULL);
	flow_unblock(&c->peer, FLOW_ROOM);
	peer_come_again(&c->peer);
	CHECK(!c->peer.stream.reading && list_is_empty(&c->peer.again));
	house_settle(&whole);
	whole_close();
}

/* RESUME does not read a client whose server is still full. */
TEST(resume_leaves_other_reasons)
{
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	flow_block(&c->peer, FLOW_ROOM);
	world_suspend(whole.world, true);
	CHECK_INT(c->peer.blocked, FLOW_ROOM | FLOW_SUSPENDED);
	world_suspend(whole.world, false);
	CHECK_INT(c->peer.blocked, FLOW_ROOM);
	CHECK(!c->peer.stream.reading);
	flow_unblock(&c->peer, FLOW_ROOM);
	whole_close();
}

TEST(list_is_sorted_by_id)
{
	struct house_end *ends[3];
	struct list *clients;
	uint64_t before = 0;
	int count = 0;

	whole_open(INI);
	clients = &whole.world->peers.clients;
	peers_sort(clients);
	for (int i = 0; i < 3; i++)
		REQUIRE(whole_login(&ends[i]));
	/* 2, 3, 1 */
	struct list *first = clients->next;

	list_remove(first);
	list_append(clients, first);
	/* without memory the list stays as it is */
	whole_memory_ends(0);
	peers_sort(clients);
	CHECK_INT(whole_memory_is_back(), 1);
	CHECK(clients->prev == first);
	peers_sort(clients);
	LIST_EACH(node, clients) {
		const struct peer *peer = LIST_OBJECT(node, struct peer, node);

		CHECK(peer->id > before);
		before = peer->id;
		count++;
	}
	CHECK_INT(count, 3);
	whole_close();
}

UNIT_MAIN
