/* A client connection: its single end with the first reason, the messages to the client, and its name in the log. */
#include "conn/client.h"

#include "conn/world.h"
#include "logins.h"
#include "whole.h"

#include <fcntl.h>
#include <unistd.h>

#define INI WHOLE_INI("", "")

static struct house_end *end;

TEST(client_is_adopted)
{
	struct client *c;
	int fds[2];

	whole_open(INI);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	c = client_adopt(whole.world, fds[1]);
	REQUIRE(c && c == whole_last_client());
	CHECK(c->peer.is_client && c->peer.world == whole.world && c->peer.id == 0);
	CHECK_INT(c->pooled.state, CLIENT_STARTUP);
	CHECK(!c->pooled.link && !c->pooled.pool && !c->login);
	client_end(c, REASON_CLIENT_EOF, NULL);
	house_settle(&whole);
	CHECK(!whole_last_client());
	close(fds[0]);
	whole_close();
}

TEST(out_of_memory)
{
	int fds[2];

	whole_open(INI);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	whole_memory_ends(0);
	CHECK(!client_adopt(whole.world, fds[1]));
	CHECK(whole_memory_is_back() > 0);
	/* its socket is closed */
	CHECK(fcntl(fds[1], F_GETFD) == -1);
	CHECK(!whole_last_client());
	close(fds[0]);
	whole_close();
}

TEST(client_name_in_the_log)
{
	char text[256], want[64];
	struct client *c;

	whole_open(INI);
	house_connect(&whole);
	c = whole_last_client();
	snprintf(want, sizeof(want), "C-0x%llx: (nodb)/(nouser)@127.0.0.1:40000", (unsigned long long)c->peer.id);
	CHECK_TEXT(client_text(c, text, sizeof(text)), want);
	REQUIRE(whole_login(&end));
	c = whole_last_client();
	snprintf(want, sizeof(want), "C-0x%llx: d/u@127.0.0.1:40001", (unsigned long long)c->peer.id);
	CHECK_TEXT(client_text(c, text, sizeof(text)), want);
	whole_close();
}

TEST(first_end_reason_is_kept)
{
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	client_end(c, REASON_ADMIN_KILL, NULL);
	client_end(c, REASON_CLIENT_EOF, NULL);
	CHECK_INT(c->peer.end_reason, REASON_ADMIN_KILL);
	CHECK_INT(c->peer.ended_in, CLIENT_IDLE);
	CHECK(peer_is_ending(&c->peer) && c->pooled.state == CLIENT_DEAD);
	/* the client gets the error from the reap, not earlier */
	CHECK(!end->is_gone);
	house_settle(&whole);
	CHECK(end->is_gone);
	CHECK_TEXT(whole_client_got(end), "E(08P01 admin forced disconnect)");
	whole_close();
}

TEST(error_message_includes_the_detail)
{
	whole_open(INI);
	REQUIRE(whole_login(&end));
	client_end(whole_last_client(), REASON_QUERY_WAIT_PINNED, "a pin");
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 query_wait_timeout (a pin))");
	whole_close();
}

/* A client with a server counts until the reap, and neither socket is read. */
TEST(client_with_a_server_ends)
{
	struct house_end *server;
	struct client *c;
	struct server *s;

	whole_open(INI);
	REQUIRE(c = whole_in_transaction(&end, &server));
	s = server_of(c->pooled.link);
	client_end(c, REASON_CLIENT_IDLE, NULL);
	CHECK_INT(c->pooled.state, CLIENT_ACTIVE);
	CHECK(peer_is_stopped(&s->peer) && !peer_is_ending(&s->peer));
	CHECK_INT(c->peer.ended_in, CLIENT_ACTIVE);
	house_settle(&whole);
	CHECK(end->is_gone && server->is_gone);
	whole_close();
}

TEST(messages_to_the_client)
{
	struct bytes out = BYTES_EMPTY;
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	pg_build(&out, 'Z', "I", 1);
	CHECK(client_send(c, &out));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "Z(I)");
	/* without memory for the message, the client ends */
	out.failed = true;
	CHECK(!client_send(c, &out));
	CHECK_INT(c->peer.end_reason, REASON_NO_MEMORY);
	out.failed = false;
	CHECK(!client_send(c, &out));
	bytes_free(&out);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 out of memory)");
	whole_close();
}

TEST(handed_over_client_is_removed)
{
	struct client *c;

	whole_open(INI);
	REQUIRE(c = whole_login(&end));
	client_hand_over(c);
	CHECK_INT(c->pooled.state, CLIENT_DEAD);
	house_settle(&whole);
	CHECK(end->is_gone);
	CHECK_TEXT(whole_client_got(end), "");
	whole_close();
}

TEST(invalid_message_headers)
{
	static const uint8_t at[] = { 0x51, 0, 0xff, 1, 2, 3, 4, 5, 6, 7 };

	whole_open(INI);
	REQUIRE(whole_login(&end));
	client_end_bad_header(whole_last_client(), at, 5);
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 bad packet header: '5100ff0102')");
	/* at most eight bytes of the header */
	REQUIRE(whole_login(&end));
	client_end_bad_header(whole_last_client(), at, sizeof(at));
	house_settle(&whole);
	CHECK_TEXT(whole_client_got(end), "E(08P01 bad packet header: '5100ff0102030405')");
	whole_close();
}

TEST(clients_of_a_shutdown)
{
	struct client c = { .peer = { .world = NULL } };
	struct world w = { .drain.since = 100 };

	c.peer.world = &w;
	c.peer.remote.family = AF_INET;
	c.login_facts.since = 101;
	CHECK(client_is_in_time(&c));
	c.peer.remote.family = AF_UNIX;
	CHECK(!client_is_in_time(&c));
	c.login_facts.since = 100;
	CHECK(client_is_in_time(&c));
}

UNIT_MAIN
