/* Obsolete server connections: which connections are obsolete, and which of them are closed at once. */
#include "backend/retire.h"

#include "backend/server_login.h"
#include "unit.h"
#include "whole.h"

#include <sys/socket.h>

#define INI WHOLE_INI("pool_size=2", "")

static struct server *server;

/* A server that is idle or in a transaction. */
static bool begin(bool in_use)
{
	struct house_end *client, *end;

	whole_open(INI);
	CHECK(in_use ? whole_in_transaction(&client, &end) : whole_login(&client));
	server = whole_last_server();
	CHECK(server);
	return server;
}

/* A server that is being opened. */
static bool begin_login(void)
{
	whole_open(INI);
	whole.servers_answer = false;
	CHECK(!house_login(&whole, "u", "d", 0));
	server = whole_last_server();
	CHECK(server && server->pooled.state == SERVER_LOGIN);
	return server && server->dial;
}

static const char *fate(void)
{
	if (peer_is_ending(&server->peer))
		return "ends";
	return server->pooled.close_reason == REASON_OBSOLETE ? "is marked" : "stays";
}

/* The dialled host name now has these addresses. */
static const char *moved_to(const char *name, const char *ip)
{
	struct address address;
	const struct dns_answer answer = { .count = 1, .addresses = &address };

	CHECK(address_from_ip(&address, ip, 0));
	retire_moved(whole.world, name, &answer);
	return fate();
}

/* ---- other settings ---- */

TEST(other_settings)
{
	REQUIRE(begin(false));
	retire_servers(whole.world, true, false);
	CHECK_TEXT(fate(), "ends");
	whole_close();
	REQUIRE(begin(true));
	retire_servers(whole.world, true, false);
	CHECK_TEXT(fate(), "is marked");
	whole_close();
	/* the server might still send a password over the old connection */
	REQUIRE(begin_login());
	retire_servers(whole.world, true, false);
	CHECK_TEXT(fate(), "ends");
	whole_close();
}

TEST(tls_settings_do_not_affect_unix_sockets)
{
	REQUIRE(begin(false));
	server->peer.remote.family = AF_UNIX;
	retire_servers(whole.world, true, false);
	CHECK_TEXT(fate(), "stays");
	retire_servers(whole.world, true, true);
	CHECK_TEXT(fate(), "ends");
	whole_close();
}

TEST(connection_with_a_cancel_request_is_kept)
{
	REQUIRE(begin(true));
	server->pooled.is_cancel = true;
	retire_servers(whole.world, true, true);
	CHECK_TEXT(fate(), "stays");
	server->pooled.is_cancel = false;
	whole_close();
}

TEST(marked_server_is_closed_when_idle)
{
	REQUIRE(begin(false));
	retire_servers(whole.world, false, false);
	CHECK_TEXT(fate(), "stays");
	server->pooled.close_reason = REASON_OBSOLETE;
	retire_servers(whole.world, false, false);
	CHECK_TEXT(fate(), "ends");
	whole_close();
}

/* ---- other addresses ---- */

TEST(other_addresses)
{
	REQUIRE(begin(false));
	CHECK_TEXT(moved_to("127.0.0.1", "10.0.0.9"), "ends");
	whole_close();
	REQUIRE(begin(true));
	CHECK_TEXT(moved_to("127.0.0.1", "10.0.0.9"), "is marked");
	whole_close();
}

TEST(own_address_is_among_the_new_addresses)
{
	REQUIRE(begin(false));
	CHECK_TEXT(moved_to("127.0.0.1", "127.0.0.1"), "stays");
	whole_close();
}

TEST(another_name)
{
	REQUIRE(begin(false));
	CHECK_TEXT(moved_to("example.org", "10.0.0.9"), "stays");
	whole_close();
}

/* If each DNS answer differs, the query of one dial would otherwise end all others. */
TEST(dial_is_closed_only_after_a_while)
{
	REQUIRE(begin_login());
	CHECK_TEXT(moved_to("127.0.0.1", "10.0.0.9"), "is marked");
	whole_close();
}

TEST(dial_that_waits_for_this_dns_answer)
{
	enum dial_step step;

	REQUIRE(begin_login());
	step = server->dial->step;
	server->dial->step = DIAL_NAME;
	CHECK_TEXT(moved_to("127.0.0.1", "10.0.0.9"), "stays");
	server->dial->step = step;
	whole_close();
}

UNIT_MAIN
