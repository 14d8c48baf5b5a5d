/* How a connection comes to its end. */
#include "child.h"
#include "conn/world.h"

TEST(a_connection_ends_once)
{
	for (int to = 0; to < PEER_FATES; to++) {
		CHECK(!peer_may_become(PEER_ENDS, (enum peer_fate)to));
		CHECK(!peer_may_become(PEER_HANDED_OVER, (enum peer_fate)to));
	}
}

TEST(a_server_that_was_stopped_may_go_on)
{
	struct peer peer = { .fate = PEER_STAYS };

	CHECK(!peer_is_stopped(&peer) && !peer_is_ending(&peer));
	peer_become(&peer, PEER_STOPPED);
	CHECK(peer_is_stopped(&peer) && !peer_is_ending(&peer));
	peer_become(&peer, PEER_STAYS);
	CHECK(!peer_is_stopped(&peer));
}

TEST(the_first_reason_holds)
{
	static struct world world;
	struct peer peer = { .world = &world };
	struct child child;
	int report = 0;

	list_init(&world.ending);
	list_init(&peer.node);
	peer_end(&peer, PEER_ENDS, REASON_CLIENT_EOF, "detail");
	CHECK(peer_is_stopped(&peer) && peer_is_ending(&peer));
	CHECK_INT(peer.end_reason, REASON_CLIENT_EOF);
	CHECK_TEXT(peer.end_detail, "detail");
	CHECK(list_first(&world.ending) == &peer.node);
	/* a second end is a fault of ours */
	if (child_fork(&child)) {
		child_report(&child, &report, sizeof(report));
		peer_end(&peer, PEER_HANDED_OVER, REASON_NONE, NULL);
		_exit(0);
	}
	CHECK(child_end(&child, &report, sizeof(report)) != 0);
	mem_free(peer.end_detail);
}

UNIT_MAIN
