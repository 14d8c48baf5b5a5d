/* Queries of pgweir's own. */
#include "state/server_session.h"
#include "state/task.h"

#include "unit.h"
#include "whole.h"

#define INI WHOLE_INI("pool_size=1", "")

static struct server *server;
static struct house_end *end;

static bool begin(const char *ini)
{
	struct house_end *client;

	whole_open(ini);
	CHECK(whole_login(&client));
	server = whole_last_server();
	end = house_server(&whole);
	CHECK(server && end && server->pooled.state == SERVER_IDLE);
	if (end)
		whole_server_got(end);
	return server && end;
}

/* Another process may have the socket of a server that is stopped. */
TEST(stopped_server_is_asked_nothing)
{
	REQUIRE(begin(INI));
	peer_become(&server->peer, PEER_STOPPED);
	CHECK(!server_run(server, &task_check, ""));
	CHECK(!server->task);
	CHECK(ledger_is_empty(&server->ledger));
	peer_become(&server->peer, PEER_STAYS);
	whole_close();
}

UNIT_MAIN
