/* A server whose client has left in a transaction or a query: the messages that end them. */
#include "relay/release.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "client_gone=finish\nclient_gone_timeout=30\n")

static struct house_end *near, *far;
static struct server *server;

/* The client leaves in a transaction, after this message, and the server has not answered yet. */
static bool leave(uint8_t type, const char *body, size_t size)
{
	struct client *client;

	whole_open(INI);
	client = whole_in_transaction(&near, &far);
	server = whole_last_server();
	whole_server_got(far);
	if (!client || !server)
		return false;
	whole.holds_answers = true;
	if (type)
		whole_say(near, type, body, size);
	whole_server_got(far);
	house_hang_up(near);
	house_settle(&whole);
	return true;
}

TEST(transaction_is_rolled_back)
{
	REQUIRE(leave(0, NULL, 0));
	CHECK_INT(server->pooled.state, SERVER_FINISHING);
	CHECK_TEXT(whole_server_got(far), "Q(ROLLBACK)");
	CHECK(!server->pooled.link && list_is_empty(&whole.world->peers.clients));
	/* one step at a time */
	finish_continue(server);
	finish_tick(server);
	CHECK_TEXT(whole_server_got(far), "");
	whole_close();
}

TEST(query_ends_first)
{
	REQUIRE(leave('Q', "SELECT 1", sizeof("SELECT 1")));
	CHECK_INT(server->pooled.state, SERVER_FINISHING);
	finish_continue(server);
	CHECK_TEXT(whole_server_got(far), "");
	whole_close();
}

TEST(server_closes_at_the_limit)
{
	REQUIRE(leave('Q', "SELECT 1", sizeof("SELECT 1")));
	finish_tick(server);
	CHECK(!peer_is_ending(&server->peer));
	whole.world->now = server->pooled.since + 30 * USEC;
	finish_tick(server);
	CHECK_INT(server->peer.end_reason, REASON_CLIENT_GONE);
	whole_close();
}

UNIT_MAIN
