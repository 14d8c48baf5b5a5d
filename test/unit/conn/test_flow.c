/* The reasons why the socket of a connection is not read. */
#include "core/world.h"
#include "unit.h"
#include "whole.h"

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
	flow_check(&c->peer);
	CHECK(!c->peer.stream.reading);
	flow_unblock(&c->peer, FLOW_ROOM | FLOW_HELD);
	CHECK(!c->peer.stream.reading);
	flow_check(&c->peer);
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

UNIT_MAIN
