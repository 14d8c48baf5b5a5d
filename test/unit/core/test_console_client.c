/*
 * Reading from a console client over a socket: the number of messages per turn, unread bytes in the socket, and the effect of a waiting command on
 * both. The console is a counter.
 */
#include "core/lifecycle.h"
#include "pg/build.h"
#include "unit.h"
#include "whole.h"

#include <event2/event.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define INI WHOLE_INI("pool_size=1", "admin_users=admin\n")

static struct {
	struct client *client;
	struct house_end *end;
	const struct console_ops *console;	/* of the world */
	int messages, gone_on;			/* calls of the console */
	bool waits;				/* the next message is a command that waits */
	bool goes_on;				/* ... for the next turn */
} scene;

static void on_message(void *context, struct client *c, uint8_t type, const uint8_t *body, size_t size)
{
	(void)context;
	(void)body;
	(void)size;
	CHECK_INT(type, 'Q');
	scene.messages++;
	if (scene.waits || scene.goes_on)
		c->console.state = CONSOLE_WAITING;
	if (scene.goes_on)
		peer_come_again(&c->peer);
	scene.waits = false;
}

static void done(void)
{
	scene.client->console.state = CONSOLE_READY;
	flow_unblock(&scene.client->peer, FLOW_HELD);
	peer_come_again(&scene.client->peer);
}

static void on_go_on(void *context, struct client *c)
{
	(void)context;
	scene.gone_on++;
	if (scene.goes_on && scene.gone_on < 3)
		peer_come_again(&c->peer);
	else if (scene.goes_on)
		done();
}

static const struct console_ops ops = { .message = on_message, .go_on = on_go_on };

static bool begin(void)
{
	memset(&scene, 0, sizeof(scene));
	whole_open(INI);
	scene.end = house_login(&whole, "admin", "pgbouncer", 0);
	scene.client = whole_last_client();
	scene.console = whole.world->console.ops;
	whole.world->console.ops = &ops;
	return scene.end && scene.client->console.is_connected;
}

static void end(void)
{
	scene.client->console.state = CONSOLE_READY;
	whole.world->console.ops = scene.console;
	whole_close();
}

/* The steps events and again of a turn. */
static void turn(void)
{
	event_base_loop(whole.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	world_again(whole.world);
}

static void send_queries(int count)
{
	struct bytes out = BYTES_EMPTY;

	for (int i = 0; i < count; i++)
		pg_build_string(&out, 'Q', "SHOW VERSION");
	CHECK_INT(write(scene.end->fd, bytes_front(&out), bytes_size(&out)), bytes_size(&out));
	bytes_free(&out);
}

static int left_in_socket(void)
{
	int size = 0;

	ioctl(scene.client->peer.stream.fd, FIONREAD, &size);
	return size;
}

TEST(four_messages_a_turn)
{
	REQUIRE(begin());
	send_queries(22);
	for (int turns = 1; turns <= 5; turns++) {
		turn();
		CHECK_INT(scene.messages, 4 * turns);
	}
	turn();
	CHECK_INT(scene.messages, 22);
	CHECK(list_is_empty(&scene.client->peer.again));
	/* the socket is read again */
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 23);
	end();
}

TEST(the_socket_waits_while_a_message_is_here)
{
	REQUIRE(begin());
	send_queries(6);
	turn();
	send_queries(6);
	CHECK_INT(scene.messages, 4);
	turn();
	CHECK_INT(scene.messages, 6);
	CHECK(left_in_socket() > 0);
	turn();
	CHECK_INT(scene.messages, 10);
	CHECK_INT(left_in_socket(), 0);
	turn();
	CHECK_INT(scene.messages, 12);
	end();
}

/* A command that waits: later input stays in the socket, whatever its size, and is read when the command completes. */
TEST(pipeline_after_a_waiting_command)
{
	int sent = 1, turns = 0;

	REQUIRE(begin());
	scene.waits = true;
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 1);
	/* a test build has small socket buffers: send until nothing moves */
	for (int i = 0; i < 400; i++) {
		struct bytes out = BYTES_EMPTY;

		for (int n = 0; n < 100; n++)
			pg_build_string(&out, 'Q', "SHOW VERSION");
		if (write(scene.end->fd, bytes_front(&out), bytes_size(&out)) == (ssize_t)bytes_size(&out))
			sent += 100;
		bytes_free(&out);
		turn();
	}
	CHECK(!peer_is_stopped(&scene.client->peer));
	CHECK(left_in_socket() > 0);
	CHECK(bytes_size(&scene.client->peer.held) < 65536 + READ_BUFFER);
	CHECK_INT(scene.messages, 1);
	done();
	while (scene.messages < sent && turns++ < sent)
		turn();
	CHECK_INT(scene.messages, sent);
	CHECK(turns >= (sent - 1) / 4);
	CHECK(!peer_is_stopped(&scene.client->peer));
	end();
}

/* A client's disconnect is noticed while its command waits. */
TEST(client_disconnects_while_its_command_waits)
{
	REQUIRE(begin());
	scene.waits = true;
	send_queries(2);
	turn();
	CHECK_INT(scene.messages, 1);
	house_hang_up(scene.end);
	turn();
	CHECK_INT(scene.client->peer.end_reason, REASON_CLIENT_EOF);
	end();
}

/* A resumed answer is continued once a turn, regardless of socket events. */
TEST(answer_over_several_turns)
{
	REQUIRE(begin());
	scene.goes_on = true;
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 1);
	CHECK_INT(scene.gone_on, 0);
	send_queries(1);
	turn();
	CHECK_INT(scene.gone_on, 1);
	turn();
	CHECK_INT(scene.gone_on, 2);
	CHECK(left_in_socket() > 0);
	turn();
	CHECK_INT(scene.gone_on, 3);
	CHECK_INT(scene.client->console.state, CONSOLE_READY);
	scene.goes_on = false;
	turn();
	turn();
	CHECK_INT(scene.messages, 2);
	end();
}

TEST(errors_that_end_the_client)
{
	REQUIRE(begin());
	CHECK_INT(write(scene.end->fd, "Q\0\0\0\1", 5), 5);
	turn();
	CHECK_INT(scene.client->peer.end_reason, REASON_BAD_HEADER);
	end();
	REQUIRE(begin());
	CHECK_INT(write(scene.end->fd, "Q\0\1\0\1", 5), 5);
	turn();
	CHECK_INT(scene.client->peer.end_reason, REASON_BAD_HEADER);
	end();
	REQUIRE(begin());
	send_queries(1);
	CHECK_INT(write(scene.end->fd, "X\0\0\0\4Q", 6), 6);
	turn();
	CHECK_INT(scene.client->peer.end_reason, REASON_CLIENT_CLOSE);
	CHECK_INT(scene.messages, 1);
	end();
}

/* A client that does not read its answers is not read. */
TEST(unread_answers)
{
	REQUIRE(begin());
	bytes_append(&scene.client->peer.stream.out, "x", 1);
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 0);
	CHECK(scene.client->peer.blocked & FLOW_ROOM);
	bytes_free(&scene.client->peer.stream.out);
	end();
}

UNIT_MAIN
