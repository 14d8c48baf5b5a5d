/*
 * The end of connections: messages to both sides, reuse of the server, and release of resources. Between mark and reap, the connection exists but is
 * stopped.
 */
#include "auth/login_state.h"
#include "backend/server_info.h"
#include "base/mem.h"
#include "cancel/cancel.h"
#include "pool/close_reason.h"
#include "core/lifecycle.h"
#include "unit.h"
#include "whole.h"

#include <sys/socket.h>

#define INI WHOLE_INI("pool_size=1", "")

/* Ends the client and reaps. Returns the messages to the client. */
static const char *end_client(struct client *c, struct house_end *end, enum close_reason why, const char *detail)
{
	client_end(c, why, detail);
	world_reap(whole.world);
	house_settle(&whole);
	CHECK(end->is_gone);
	return whole_client_got(end);
}

static void check_no_client(void)
{
	CHECK(list_is_empty(&whole.world->peers.clients) && list_is_empty(&whole.world->peers.ending));
	CHECK_INT(whole.world->pools->clients, 0);
}

/* ---- messages to the client ---- */

TEST(marked_connection_exists_until_the_reap)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	client_end(c, REASON_ADMIN_KILL, NULL);
	CHECK(!list_is_empty(&whole.world->peers.ending) && peer_is_ending(&c->peer));
	CHECK(c->peer.stream.phase == STREAM_OPEN);
	CHECK_INT(c->pooled.state, CLIENT_DEAD);
	CHECK_INT(c->peer.ended_in, CLIENT_IDLE);
	/* the first reason is kept */
	client_end(c, REASON_CLIENT_EOF, NULL);
	CHECK_INT(c->peer.end_reason, REASON_ADMIN_KILL);
	world_reap(whole.world);
	CHECK(list_is_empty(&whole.world->peers.ending));
	check_no_client();
	whole_close();
}

TEST(disconnected_client_gets_no_error)
{
	static const enum close_reason silent[] = {
		REASON_CLIENT_CLOSE, REASON_CLIENT_EOF, REASON_CANCEL_DONE, REASON_CANCEL_UNKNOWN, REASON_CANCEL_IDLE, REASON_CANCEL_LOST,
		REASON_CANCEL_CROWD, REASON_CANCEL_FAILED, REASON_CANCEL_WAIT_TIMEOUT, REASON_TLS_HANDSHAKE, REASON_TERMINATE_FIRST,
	};

	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		struct house_end *end;

		whole_open(INI);
		end = house_connect(&whole);
		CHECK_TEXT(end_client(whole_last_client(), end, silent[i], "x"), "");
		whole_close();
	}
}

TEST(client_that_got_the_error_gets_no_second)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	c->error_sent = true;
	CHECK_TEXT(end_client(c, end, REASON_ADMIN_KILL, NULL), "");
	whole_close();
}

TEST(pending_output_precedes_the_error)
{
	static const char *const pairs[] = { "user", "u", "database", "d" };
	struct house_end *end;
	struct bytes out = BYTES_EMPTY;
	struct client *c;

	whole_open(INI);
	/* the welcome would contain NegotiateProtocolVersion, and the server that the client waits for does not answer */
	whole.servers_answer = false;
	end = house_connect(&whole);
	pg_build_startup(&out, 3 << 16 | 9, pairs, 4);
	house_send(&whole, end, bytes_front(&out), bytes_size(&out));
	bytes_free(&out);
	house_settle(&whole);
	c = whole_last_client();
	REQUIRE(c && c->pooled.state == CLIENT_WAITING_LOGIN && c->login);
	CHECK_TEXT(whole_client_got(end), "");
	CHECK_TEXT(end_client(c, end, REASON_ADMIN_KILL, NULL), "v E(57P01 admin forced disconnect)");
	whole_close();
}

TEST(unread_input_does_not_reset_the_connection)
{
	struct house_end *end;
	struct client *c;
	char got[200];

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	client_end(c, REASON_ADMIN_KILL, NULL);
	/* sent before the client could know */
	CHECK(send(end->fd, "Q\0\0\0\6x\0", 7, MSG_NOSIGNAL) == 7);
	world_reap(whole.world);
	CHECK(recv(end->fd, got, sizeof(got), 0) > 0);
	CHECK_INT(recv(end->fd, got, sizeof(got), 0), 0);
	whole_close();
}

TEST(waiting_client_gets_the_last_login_error)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	server_end(whole_last_server(), REASON_CLIENT_EOF, NULL);
	house_settle(&whole);
	pool_login_failed(c->pooled.pool, FAILURE_PASSING, whole.world->now);
	((struct server_info *)c->pooled.pool->server_info)->failure.text = mem_copy_string("no room");
	client_end(c, REASON_QUERY_WAIT_TIMEOUT, NULL);
	world_reap(whole.world);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 query_wait_timeout{The last login at the server failed: no room, 0.0 ms ago})");
	whole_close();
}

TEST(close_reasons_are_counted)
{
	struct house_end *end;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	end_client(c, end, REASON_ADMIN_KILL, NULL);
	CHECK_INT(whole.world->pools->ended[REASON_ADMIN_KILL], 1);
	whole_close();
}

/* ---- the server of a client that ends ---- */

TEST(server_with_pending_answers_gets_no_terminate)
{
	struct house_end *end, *server;
	struct client *c;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	server = house_server(&whole);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	whole_server_got(server);
	end_client(c, end, REASON_ADMIN_KILL, NULL);
	CHECK(list_is_empty(&whole.world->peers.servers));
	CHECK(server->is_gone);
	CHECK_TEXT(whole_server_got(server), "");
	whole_close();
}

/* ---- a server that ends ---- */

TEST(server_error_is_not_repeated)
{
	struct house_end *end, *server;
	struct client *c;

	whole_open(INI);
	c = whole_in_transaction(&end, &server);
	REQUIRE(c);
	server_of(c->pooled.link)->said_fatal = true;
	server_end(server_of(c->pooled.link), REASON_SERVER_CRASHED, NULL);
	world_reap(whole.world);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "");
	CHECK(end->is_gone);
	whole_close();
}

TEST(no_error_is_sent_within_a_message)
{
	struct house_end *end, *server;
	struct client *c;

	whole_open(INI);
	c = whole_in_transaction(&end, &server);
	REQUIRE(c);
	whole.holds_answers = true;
	whole_query(end, "SELECT 1");
	/* a row of 100 bytes begins */
	house_send(&whole, server, "D\0\0\0\144\0\1xxx", 10);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), " (10 bytes)");
	CHECK(server_of(c->pooled.link)->peer.passing > 0);
	server_end(server_of(c->pooled.link), REASON_QUERY_TIMEOUT, NULL);
	world_reap(whole.world);
	house_settle(&whole);
	CHECK(end->is_gone);
	CHECK_INT(bytes_size(&end->got) - end->seen, 0);
	whole_close();
}

/* A new, unused server that fails counts as a failed login, so that no other is opened at once. */
static bool fails_the_pool(usec_t age, bool lent, bool was_ended, enum close_reason why)
{
	struct house_end *end;
	struct client *c;
	struct server *s;
	struct pool *pool;
	bool failed;

	whole_open(INI);
	c = whole_login(&end);
	pool = c ? c->pooled.pool : NULL;
	s = whole_last_server();
	CHECK(pool && s && s->pooled.opened > 0 && !s->pooled.lent);
	if (lent)
		whole_ask(end, "SELECT 1");
	s->was_ended = was_ended;
	whole.world->now += age;
	server_end(s, why, NULL);
	world_reap(whole.world);
	failed = pool->login_failed;
	whole.world->now -= age;
	whole_close();
	return failed;
}

TEST(unused_server_that_fails_counts_as_failed_login)
{
	CHECK(fails_the_pool(0, false, false, REASON_SERVER_CRASHED));
	CHECK(fails_the_pool(USEC - 1, false, false, REASON_SERVER_CRASHED));
	CHECK(!fails_the_pool(USEC, false, false, REASON_SERVER_CRASHED));
	CHECK(!fails_the_pool(0, true, false, REASON_SERVER_CRASHED));
	/* an administrator has closed the server: nothing suggests that the next one fails */
	CHECK(!fails_the_pool(0, false, true, REASON_SERVER_CRASHED));
	/* the server did not fail in this case either */
	CHECK(!fails_the_pool(0, false, false, REASON_ADMIN_KILL));
}

/* ---- several ---- */

TEST(handed_over_connection_is_closed_silently)
{
	struct house_end *end, *server;
	struct client *c;

	whole_open(INI);
	c = whole_in_transaction(&end, &server);
	REQUIRE(c);
	server_hand_over(server_of(c->pooled.link));
	world_reap(whole.world);
	house_settle(&whole);
	CHECK(end->is_gone && server->is_gone);
	CHECK_TEXT(whole_client_got(end), "");
	CHECK_TEXT(whole_server_got(server), "");
	check_no_client();
	CHECK(list_is_empty(&whole.world->peers.servers));
	CHECK_INT(whole.world->pools->ended[REASON_NONE], 0);
	whole_close();
}

TEST(many_connections_end_at_once)
{
	struct house_end *end, *server, *other;
	struct client *c;

	whole_open(INI);
	c = whole_in_transaction(&end, &server);
	REQUIRE(c);
	REQUIRE(whole_login(&other));
	whole_query(other, "SELECT 1");			/* waits for the server */
	CHECK_INT(whole_last_client()->pooled.state, CLIENT_WAITING);
	server_end(server_of(c->pooled.link), REASON_SERVER_CRASHED, NULL);
	client_end(whole_last_client(), REASON_QUERY_WAIT_TIMEOUT, NULL);
	house_connect(&whole);
	client_end(whole_last_client(), REASON_CLIENT_EOF, NULL);
	world_reap(whole.world);
	check_no_client();
	CHECK(list_is_empty(&whole.world->peers.servers));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 server conn crashed?)");
	CHECK_TEXT(whole_client_got(other), "E(08P01 query_wait_timeout{0 of 1 server connections are in use (pool_size of the database)})");
	whole_close();
}

TEST(cancel_key_is_removed)
{
	struct house_end *end;
	struct client *c;
	uint8_t key[CANCEL_KEY_LONG];
	uint32_t pid;
	size_t size;

	whole_open(INI);
	c = whole_login(&end);
	REQUIRE(c);
	pid = c->cancel_key.pid;
	size = c->cancel_key.size;
	memcpy(key, c->cancel_key.secret, size);
	CHECK(cancel_find(whole.world, pid, key, size) == c);
	end_client(c, end, REASON_ADMIN_KILL, NULL);
	CHECK(!cancel_find(whole.world, pid, key, size));
	whole_close();
}

UNIT_MAIN
