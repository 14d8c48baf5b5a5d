/* Events of connections, by the state of the connection; and the setup of new connections. */
#include "core/lifecycle.h"

#include "auth/login_state.h"
#include "base/mem.h"
#include "cancel/cancel_inside.h"
#include "pg/build.h"
#include "unit.h"
#include "whole.h"

#include <sys/socket.h>
#include <unistd.h>

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")
#define FEW_INI WHOLE_INI("pool_size=1", "max_login_clients=2\n")
#define FULL_INI WHOLE_INI("pool_size=1", "max_client_conn=2\n")
#define ANSWER "T D C(SELECT 1) Z(I)"

static struct house_end *near, *far;
static struct client *client;
static struct server *server;
static int other_end;

/* A new connection as the kernel delivers it, from an IP address. */
static bool open_one(bool is_unix)
{
	struct address remote;
	int fds[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	if (is_unix)
		CHECK(address_from_unix(&remote, "@there", 5432));
	else
		CHECK(address_from_ip(&remote, "10.1.2.3", 4321));
	other_end = fds[0];
	return dispatch_ops.accepted(whole.world, fds[1], &remote, is_unix, 6432);
}

/* Earlier messages are ignored. */
static bool is_closed(void)
{
	char words[200];
	ssize_t n;

	do
		n = recv(other_end, words, sizeof(words), 0);
	while (n > 0);
	return n == 0;
}

static void hello(struct bytes *out)
{
	static const char *const pairs[] = { "user", "u", "database", "d" };

	pg_build_startup(out, 3u << 16, pairs, 4);
}

/* ---- a new connection ---- */

TEST(state_of_a_new_connection)
{
	uint64_t last;

	whole_open(INI);
	last = whole.world->peers.last_id;
	CHECK(open_one(false));
	client = whole_last_client();
	REQUIRE(client);
	CHECK(client->peer.is_client && client->peer.id == last + 1);
	CHECK_INT(client->pooled.state, CLIENT_STARTUP);
	CHECK(client->login && client->login_facts.is_counted);
	CHECK_INT(client->login_facts.since, whole.world->now);
	CHECK_INT(client->peer.connected_at, whole.world->now_wall);
	CHECK_INT(client->peer.remote.family, AF_INET);
	house_settle(&whole);
	CHECK(!is_closed());
	close(other_end);
	house_settle(&whole);
	CHECK(list_is_empty(&whole.world->peers.clients));
	whole_close();
}

TEST(unix_socket_connection_has_a_user)
{
	whole_open(INI);
	CHECK(open_one(true));
	client = whole_last_client();
	REQUIRE(client);
	CHECK_INT(client->peer.remote.family, AF_UNIX);
	CHECK_INT(client->peer.remote.u.peer.uid, getuid());
	close(other_end);
	whole_close();
}

/* tcp_defer_accept: the first data is available at accept. */
TEST(available_data_is_read_at_accept)
{
	struct bytes out = BYTES_EMPTY;
	struct address remote;
	int fds[2];

	whole_open(INI);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	hello(&out);
	CHECK(send(fds[0], bytes_front(&out), bytes_size(&out), 0) == (ssize_t)bytes_size(&out));
	bytes_free(&out);
	CHECK(address_from_ip(&remote, "10.1.2.3", 4321));
	CHECK(dispatch_ops.accepted(whole.world, fds[1], &remote, false, 6432));
	client = whole_last_client();
	REQUIRE(client);
	CHECK(client->pooled.state != CLIENT_STARTUP);
	close(fds[0]);
	whole_close();
}

TEST(out_of_memory_closes_the_connection)
{
	int failed = 1;

	whole_open(INI);
	for (int more = 0; failed > 0 && more < 20; more++) {
		bool opened;

		whole_memory_ends(more);
		opened = open_one(false);
		failed = whole_memory_is_back();
		house_settle(&whole);
		CHECK(opened == (failed == 0));
		CHECK(is_closed() == (failed > 0));
		CHECK(list_is_empty(&whole.world->peers.clients) == (failed > 0));
		close(other_end);
	}
	CHECK_INT(failed, 0);
	whole_close();
}

/* ---- too many that log in ---- */

static void check_crowd(const char *ini, enum close_reason why)
{
	struct house_end *ends[3];

	whole_open(ini);
	for (int i = 0; i < 3; i++) {
		ends[i] = house_connect(&whole);
		house_settle(&whole);
	}
	CHECK_INT(whole.world->pools->ended[why], 1);
	CHECK_INT(ends[0]->is_gone + ends[1]->is_gone + ends[2]->is_gone, 1);
	whole_close();
}

TEST(too_many_logins)
{
	check_crowd(FEW_INI, REASON_MAX_LOGIN_CLIENTS);
	check_crowd(FULL_INI, REASON_MAX_CLIENT_CONN);
}

/* ---- where events go ---- */

TEST(stopped_client)
{
	whole_open(INI);
	client = whole_login(&near);
	REQUIRE(client);
	far = house_server(&whole);
	if (far)
		whole_server_got(far);
	peer_come_again(&client->peer);
	peer_become(&client->peer, PEER_STOPPED);
	house_send(&whole, near, "Q\0\0\0\10one", 9);
	CHECK(list_is_empty(&client->peer.again));
	client->peer.stream.ops->on_readable(&client->peer.stream);
	CHECK(!client->pooled.link && bytes_size(&client->peer.held) == 0);
	CHECK_INT(client->pooled.state, CLIENT_IDLE);
	peer_become(&client->peer, PEER_STAYS);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(near), ANSWER);
	whole_close();
}

/* Data after a cancel request is ignored. */
TEST(client_with_a_cancel_request)
{
	whole_open(INI);
	client = whole_login(&near);
	REQUIRE(client);
	near = house_connect(&whole);
	house_settle(&whole);
	client = whole_last_client();
	client->cancel_request = mem_try(sizeof(*client->cancel_request));
	pool_client_become(whole.world->pools, &client->pooled, CLIENT_WAITING_CANCEL, whole.world->now);
	house_send(&whole, near, "Q\0\0\0\10one", 9);
	house_settle(&whole);
	CHECK(!near->is_gone && bytes_size(&near->got) == 0);
	CHECK_INT(bytes_size(&client->peer.held), 0);
	whole_close();
}

/* ---- servers ---- */

TEST(stopped_server)
{
	char byte;

	whole_open(INI);
	REQUIRE(whole_in_transaction(&near, &far));
	server = whole_last_server();
	house_send(&whole, far, "N\0\0\0\5", 6);
	peer_become(&server->peer, PEER_STOPPED);
	server->peer.stream.ops->on_readable(&server->peer.stream);
	CHECK(recv(near->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
	peer_become(&server->peer, PEER_STAYS);
	house_settle(&whole);
	CHECK(bytes_size(&near->got) - near->seen == 6);
	near->seen = bytes_size(&near->got);
	whole_close();
}

TEST(server_that_logs_in)
{
	struct bytes out = BYTES_EMPTY;

	whole_open(INI);
	whole.servers_answer = false;
	near = house_connect(&whole);
	house_settle(&whole);
	hello(&out);
	house_send(&whole, near, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	server = whole_last_server();
	far = house_server(&whole);
	REQUIRE(server && far && server->pooled.state == SERVER_LOGIN);
	/* a message that is not allowed during login */
	house_send(&whole, far, "D\0\0\0\4", 5);
	house_settle(&whole);
	CHECK(far->is_gone);
	whole_close();
}

UNIT_MAIN
