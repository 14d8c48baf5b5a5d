/*
 * Reading from a console client over a socket: the number of messages per turn, unread bytes in the socket, and the effect of a waiting command on
 * both. The console is a counter.
 */
#include "conn/world.h"
#include "pg/build.h"
#include "core/world.h"
#include "unit.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
	struct world world;
	struct client client;
	int far;				/* the client's end */
	int messages, gone_on;			/* calls of the console */
	bool waits;				/* the next message is a command that waits */
	bool goes_on;				/* ... for the next turn */
	enum close_reason why;			/* the client has ended */
} scene;

void client_end(struct client *c, enum close_reason why, const char *detail)
{
	(void)detail;
	scene.why = why;
	c->peer.fate = PEER_ENDS;
}

void client_end_bad_header(struct client *c, const uint8_t *at, size_t n)
{
	(void)at;
	(void)n;
	client_end(c, REASON_BAD_HEADER, NULL);
}

static void on_message(void *context, struct client *c, uint8_t type, const uint8_t *body, size_t size)
{
	(void)context;
	(void)body;
	(void)size;
	CHECK_INT(type, 'Q');
	scene.messages++;
	if (scene.waits || scene.goes_on)
		c->console_state = CONSOLE_WAITING;
	if (scene.goes_on)
		peer_come_again(&c->peer);
	scene.waits = false;
}

static void done(void)
{
	scene.client.console_state = CONSOLE_READY;
	flow_unblock(&scene.client.peer, FLOW_HELD);
	peer_come_again(&scene.client.peer);
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

static void on_readable(struct stream *stream)
{
	console_read(LIST_OBJECT(stream, struct client, peer.stream), true);
}

static void on_drained(struct stream *stream) { (void)stream; }

static const struct stream_ops stream_ops = { .on_readable = on_readable, .on_drained = on_drained };

static void begin(void)
{
	int pair[2], size = 1 << 20;

	memset(&scene, 0, sizeof(scene));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
		abort();
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	scene.far = pair[1];
	scene.world.base = event_base_new();
	scene.world.console = &ops;
	scene.world.buffer = malloc(READ_BUFFER);
	list_init(&scene.world.again);
	list_init(&scene.client.peer.again);
	scene.client.peer.world = &scene.world;
	if (!stream_open(&scene.client.peer.stream, scene.world.base, pair[0], &stream_ops))
		abort();
}

static void end(void)
{
	stream_close(&scene.client.peer.stream);
	bytes_free(&scene.client.peer.held);
	if (scene.far >= 0)
		close(scene.far);
	free(scene.world.buffer);
	event_base_free(scene.world.base);
}

static void turn(void)
{
	event_base_loop(scene.world.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	if (!list_is_empty(&scene.client.peer.again)) {
		list_remove(&scene.client.peer.again);
		console_read(&scene.client, false);
	}
}

static void send_queries(int count)
{
	struct bytes out = BYTES_EMPTY;

	for (int i = 0; i < count; i++)
		pg_build_string(&out, 'Q', "SHOW VERSION");
	CHECK_INT(write(scene.far, bytes_front(&out), bytes_size(&out)), bytes_size(&out));
	bytes_free(&out);
}

static int left_in_socket(void)
{
	int size = 0;

	ioctl(scene.client.peer.stream.fd, FIONREAD, &size);
	return size;
}

TEST(four_messages_a_turn)
{
	begin();
	send_queries(22);
	for (int turns = 1; turns <= 5; turns++) {
		turn();
		CHECK_INT(scene.messages, 4 * turns);
	}
	turn();
	CHECK_INT(scene.messages, 22);
	CHECK(list_is_empty(&scene.client.peer.again));
	/* the socket is read again */
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 23);
	end();
}

TEST(the_socket_waits_while_a_message_is_here)
{
	begin();
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

	begin();
	scene.waits = true;
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 1);
	/* a test build has small socket buffers: send until nothing moves */
	for (int i = 0; i < 400; i++) {
		struct bytes out = BYTES_EMPTY;

		for (int n = 0; n < 100; n++)
			pg_build_string(&out, 'Q', "SHOW VERSION");
		if (write(scene.far, bytes_front(&out), bytes_size(&out)) == (ssize_t)bytes_size(&out))
			sent += 100;
		bytes_free(&out);
		turn();
	}
	CHECK(!peer_is_stopped(&scene.client.peer));
	CHECK(left_in_socket() > 0);
	CHECK(bytes_size(&scene.client.peer.held) < 65536 + READ_BUFFER);
	CHECK_INT(scene.messages, 1);
	done();
	while (scene.messages < sent && turns++ < sent)
		turn();
	CHECK_INT(scene.messages, sent);
	CHECK(turns >= (sent - 1) / 4);
	CHECK(!peer_is_stopped(&scene.client.peer));
	end();
}

/* A client's disconnect is noticed while its command waits. */
TEST(client_disconnects_while_its_command_waits)
{
	begin();
	scene.waits = true;
	send_queries(2);
	turn();
	CHECK_INT(scene.messages, 1);
	close(scene.far);
	scene.far = -1;
	turn();
	CHECK_INT(scene.why, REASON_CLIENT_EOF);
	end();
}

/* A resumed answer is continued once a turn, regardless of socket events. */
TEST(answer_over_several_turns)
{
	begin();
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
	CHECK_INT(scene.client.console_state, CONSOLE_READY);
	scene.goes_on = false;
	turn();
	turn();
	CHECK_INT(scene.messages, 2);
	end();
}

TEST(errors_that_end_the_client)
{
	begin();
	CHECK_INT(write(scene.far, "Q\0\0\0\1", 5), 5);
	turn();
	CHECK_INT(scene.why, REASON_BAD_HEADER);
	end();
	begin();
	CHECK_INT(write(scene.far, "Q\0\1\0\1", 5), 5);
	turn();
	CHECK_INT(scene.why, REASON_BAD_HEADER);
	end();
	begin();
	send_queries(1);
	CHECK_INT(write(scene.far, "X\0\0\0\4Q", 6), 6);
	turn();
	CHECK_INT(scene.why, REASON_CLIENT_CLOSE);
	CHECK_INT(scene.messages, 1);
	end();
}

/* A client that does not read its answers is not read. */
TEST(unread_answers)
{
	begin();
	bytes_append(&scene.client.peer.stream.out, "x", 1);
	send_queries(1);
	turn();
	CHECK_INT(scene.messages, 0);
	CHECK(scene.client.peer.blocked & FLOW_ROOM);
	bytes_free(&scene.client.peer.stream.out);
	end();
}

UNIT_MAIN
