/* What a new process does with bytes and input of the connections that it takes over. */
#include "relay/relay.h"

#include "in_transaction.h"
#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

/* Whether the connection will be read in the next step "again". */
static bool comes_again(const struct peer *peer)
{
	return !list_is_empty(&peer->again);
}

TEST(unsent_bytes_are_sent_and_the_partner_stays_readable)
{
	static const char row[] = "Z\0\0\0\5T";
	struct bytes rest = BYTES_EMPTY;

	REQUIRE(begin_in_transaction(INI));
	bytes_append(&rest, row, sizeof(row) - 1);
	relay_send_rest(&client->peer, &rest);
	CHECK_INT(server->peer.blocked & FLOW_ROOM, 0);
	bytes_free(&rest);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), "Z(T)");
	whole_close();
}

TEST(a_full_socket_keeps_the_partner_from_being_read)
{
	struct bytes rest = BYTES_EMPTY;

	REQUIRE(begin_in_transaction(INI));
	/* more than the buffers of the socket hold */
	CHECK(bytes_reserve(&rest, 8 << 20));
	memset(rest.data, 0, 8 << 20);
	rest.end = 8 << 20;
	relay_send_rest(&client->peer, &rest);
	CHECK(stream_unsent(&client->peer.stream) > 0);
	CHECK_INT(server->peer.blocked & FLOW_ROOM, FLOW_ROOM);
	relay_send_rest(&server->peer, &rest);
	CHECK_INT(client->peer.blocked & FLOW_ROOM, FLOW_ROOM);
	bytes_free(&rest);
	house_hang_up(near);
	house_hang_up(far);
	house_settle(&whole);
	whole_close();
}

TEST(held_input_is_read_before_the_socket)
{
	REQUIRE(begin_in_transaction(INI));
	relay_resume(&whole.world->peers.clients);
	CHECK(!comes_again(&client->peer));
	CHECK(peer_hold(&client->peer, (const uint8_t *)"Q\0\0\0\6B\0", 7));
	CHECK(peer_hold(&server->peer, (const uint8_t *)"Z\0", 2));
	relay_resume(&whole.world->peers.clients);
	relay_resume(&whole.world->peers.servers);
	CHECK(client->peer.held_first && comes_again(&client->peer));
	CHECK(server->peer.held_first && comes_again(&server->peer));
	peer_wipe_held(&server->peer);
	server->peer.held_first = false;
	house_settle(&whole);
	CHECK_TEXT(whole_server_got(far), "Q(B)");
	whole_close();
}

UNIT_MAIN
