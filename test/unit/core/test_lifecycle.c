/* Console commands for all connections: SUSPEND, and the conditions of a shutdown. */
#include "core/lifecycle.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=2", "")

static struct house_end *near, *far;
static struct client *client;
static struct server *server;

static bool begin(void)
{
	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	whole_client_got(near);
	whole_server_got(far);
	return client && server;
}

/* ---- all of them ---- */

TEST(all_sessions_end_silently)
{
	REQUIRE(begin());
	world_end_sessions(whole.world, REASON_ADMIN_KILL, true);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "");
	CHECK(near->is_gone);
	whole_close();
}

/* ---- SUSPEND ---- */

/* Input that was read but not forwarded. */
TEST(held_input_is_not_flushed)
{
	REQUIRE(begin());
	whole.holds_answers = true;
	whole_query(near, "one");
	server->peer.held_first = true;
	peer_come_again(&server->peer);
	CHECK(world_unflushed(whole.world, false) > 0);
	CHECK_INT(world_unflushed(whole.world, true), 0);
	CHECK(peer_is_ending(&server->peer));
	CHECK_INT(server->peer.end_reason, REASON_SUSPEND_TIMEOUT);
	house_settle(&whole);
	CHECK(near->is_gone && far->is_gone);
	whole.holds_answers = false;
	whole_close();
}

/* ---- the shutdown ---- */

TEST(shutdown_waits_for_clients)
{
	REQUIRE(begin());
	CHECK(!world_is_over(whole.world));
	CHECK_INT(world_drain_left(whole.world), 0);
	world_drain(whole.world, DRAIN_WAIT_CLIENTS);
	CHECK_INT(whole.world->drain.step, DRAIN_WAIT_CLIENTS);
	CHECK_INT(world_drain_left(whole.world), 1);
	CHECK(!world_is_over(whole.world));
	house_hang_up(near);
	house_settle(&whole);
	CHECK_INT(world_drain_left(whole.world), 0);
	whole_close();
}

TEST(shutdown_waits_for_servers)
{
	REQUIRE(begin());
	world_drain(whole.world, DRAIN_WAIT_SERVERS);
	CHECK_INT(world_drain_left(whole.world), 1);
	CHECK(!world_is_over(whole.world));
	/* the transaction ends, and the server is not kept */
	whole_query(near, "C");
	CHECK(far->is_gone);
	CHECK_INT(world_drain_left(whole.world), 0);
	CHECK(world_is_over(whole.world));
	whole_close();
}

TEST(gentler_shutdown_has_no_effect)
{
	REQUIRE(begin());
	world_drain(whole.world, DRAIN_NOW);
	CHECK(world_is_over(whole.world));
	world_drain(whole.world, DRAIN_WAIT_CLIENTS);
	CHECK_INT(whole.world->drain.step, DRAIN_NOW);
	whole_close();
}

UNIT_MAIN
