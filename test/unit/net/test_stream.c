/* Streams without TLS. epoll_ctl calls are counted, because the steady state must make none. */
#include "ends.h"

#include <sys/epoll.h>
#include <sys/syscall.h>

static int epoll_ctls;

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	epoll_ctls++;
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

static int option_of(int fd, int name)
{
	int value = 0;
	socklen_t size = sizeof value;

	getsockopt(fd, SOL_SOCKET, name, &value, &size);
	return value;
}

TEST(steady_state_makes_no_epoll_ctl)
{
	struct end a, b;
	char buffer[8];

	REQUIRE(two_ends(&a, &b, false));
	SETTLE;
	epoll_ctls = 0;
	for (int i = 1; i <= 100; i++) {
		struct iovec pieces[2] = { { block, 2 }, { block + 2, 3 } };

		REQUIRE(stream_write(&a.stream, pieces, 2));
		CHECK_INT(stream_unsent(&a.stream), 0);
		CHECK(a.stream.out.data == NULL);
		stream_set_reading(&a.stream, false);
		UNTIL(b.readable == i);
		REQUIRE(stream_read(&b.stream, buffer, sizeof buffer) == 5);
		CHECK(memcmp(buffer, block, 5) == 0);
		stream_set_reading(&a.stream, true);
	}
	CHECK_INT(stream_read(&b.stream, buffer, sizeof buffer), STREAM_AGAIN);
	CHECK_INT(epoll_ctls, 0);
	CHECK_INT(a.drained + a.readable, 0);
	two_ends_close(&a, &b);
}

TEST(reading_is_deregistered_lazily)
{
	struct end a, b;

	REQUIRE(two_ends(&a, &b, false));
	SETTLE;
	stream_set_reading(&b.stream, false);
	epoll_ctls = 0;
	REQUIRE(stream_write_bytes(&a.stream, block, 10));
	SETTLE;
	CHECK_INT(b.readable, 0);
	CHECK_INT(epoll_ctls, 1);	/* one epoll_ctl to deregister, then none */
	CHECK_INT(b.stream.armed, 0);
	b.drain_reads = true;
	stream_set_reading(&b.stream, true);
	CHECK_INT(b.got, 0);		/* never inside the call */
	UNTIL(b.got == 10);
	CHECK_INT(epoll_ctls, 2);
	two_ends_close(&a, &b);
}

TEST(unsent_bytes_are_queued_in_order)
{
	struct end a, b;
	size_t total = 0;

	REQUIRE(two_ends(&a, &b, true));
	b.drain_reads = true;
	while (stream_unsent(&a.stream) == 0) {
		REQUIRE(stream_write_bytes(&a.stream, block, 4096));
		total += 4096;
	}
	CHECK(a.stream.armed & EV_WRITE);
	/* While output is queued, new bytes are appended without a system call; pieces are split anywhere. */
	for (int i = 0; i < 20; i++) {
		struct iovec pieces[3] = { { block, 1000 }, { block + 1000 % 256, 0 }, { block + 1000 % 256, 24 + 3 * 1024 } };
		size_t before = stream_unsent(&a.stream);

		REQUIRE(stream_write(&a.stream, pieces, 3));
		CHECK_INT(stream_unsent(&a.stream), before + 4096);
		total += 4096;
	}
	CHECK_INT(a.drained, 0);
	UNTIL(a.drained == 1);
	CHECK_INT(stream_unsent(&a.stream), 0);
	CHECK(a.stream.out.data == NULL);	/* an idle stream has no buffer */
	CHECK_INT(a.stream.armed, EV_READ);
	UNTIL(b.got == total);
	CHECK(!b.garbled);
	two_ends_close(&a, &b);
}

TEST(eof_follows_the_last_bytes)
{
	struct end a, b;

	REQUIRE(two_ends(&a, &b, false));
	REQUIRE(stream_write_bytes(&a.stream, block, 300));
	stream_close(&a.stream);
	CHECK_INT(a.stream.fd, -1);
	b.drain_reads = true;
	UNTIL(b.last == STREAM_EOF);
	CHECK_INT(b.got, 300);
	CHECK(!b.garbled);
	CHECK(!stream_write_bytes(&a.stream, block, 1));
	CHECK_INT(stream_read(&a.stream, block, 1), STREAM_FAILED);
	two_ends_close(&a, &b);
}

TEST(reset_with_pending_output_is_reported_once)
{
	struct end a, b;

	REQUIRE(two_ends(&a, &b, true));
	stream_set_reading(&a.stream, false);
	while (stream_unsent(&a.stream) == 0)
		REQUIRE(stream_write_bytes(&a.stream, block, 4096));
	CHECK_INT(a.stream.armed, EV_READ | EV_WRITE);	/* writing does not change the registration for reading */
	reset(&b.stream);
	/* An owner that does not read is still told that the output is empty... */
	UNTIL(a.drained == 1);
	CHECK(a.stream.out.data == NULL);
	CHECK(!stream_write_bytes(&a.stream, block, 1));
	CHECK(a.stream.error == ECONNRESET || a.stream.error == EPIPE);
	/* ... the loop does not spin on the dead socket ... */
	SETTLE;
	CHECK_INT(a.drained, 1);
	CHECK_INT(a.readable, 0);
	CHECK_INT(a.stream.armed, 0);
	/* ... and the next read reports the error. */
	a.drain_reads = true;
	stream_set_reading(&a.stream, true);
	UNTIL(a.readable > 0);
	CHECK_INT(a.last, STREAM_FAILED);
	CHECK(strstr(stream_error(&a.stream), "reset") || strstr(stream_error(&a.stream), "pipe"));
	two_ends_close(&a, &b);
}

TEST(data_before_a_reset_is_read)
{
	struct end a, b;
	int pair[2];
	char buffer[32];

	set_up();
	memset(&a, 0, sizeof a);
	memset(&b, 0, sizeof b);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	REQUIRE(stream_open(&a.stream, base, pair[0], &ops) && stream_open(&b.stream, base, pair[1], &ops));
	REQUIRE(stream_write_bytes(&b.stream, "FATAL", 5));
	stream_close(&b.stream);
	CHECK(!stream_write_bytes(&a.stream, block, 10));
	CHECK_INT(stream_read(&a.stream, buffer, sizeof buffer), 5);
	CHECK_INT(stream_read(&a.stream, buffer, sizeof buffer), STREAM_FAILED);
	CHECK_INT(a.stream.error, EPIPE);
	two_ends_close(&a, &b);
}

TEST(connect)
{
	struct end a, b;
	struct address to, nobody;
	struct socket_options options = { .keepalive = true };
	int listening = socket(AF_INET, SOCK_STREAM, 0), fd;

	set_up();
	memset(&a, 0, sizeof a);
	memset(&b, 0, sizeof b);
	REQUIRE(address_from_ip(&to, "127.0.0.1", 0));
	REQUIRE(bind(listening, &to.u.any, to.size) == 0);
	REQUIRE(getsockname(listening, &to.u.any, &to.size) == 0);
	/* Bound and not listening: refused. */
	REQUIRE(stream_connect(&a.stream, base, &to.u.any, to.size, &options, &ops));
	CHECK_INT(a.connected, 0);
	UNTIL(a.connected == 1);
	CHECK_TEXT(a.problem, "connect failed");
	CHECK_TEXT(stream_error(&a.stream), strerror(ECONNREFUSED));
	CHECK_INT(stream_read(&a.stream, block, 1), STREAM_FAILED);
	SETTLE;
	CHECK_INT(a.connected, 1);
	stream_close(&a.stream);

	REQUIRE(listen(listening, 5) == 0);
	REQUIRE(stream_connect(&a.stream, base, &to.u.any, to.size, &options, &ops));
	CHECK_INT(option_of(a.stream.fd, SO_KEEPALIVE), 1);
	CHECK(!stream_write_bytes(&a.stream, block, 1));
	CHECK_INT(stream_read(&a.stream, block, 1), STREAM_AGAIN);
	UNTIL(a.connected == 2);
	CHECK_TEXT(a.problem, "");
	fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
	REQUIRE(stream_open(&b.stream, base, fd, &ops));
	REQUIRE(stream_write_bytes(&b.stream, block, 7));
	a.drain_reads = true;
	UNTIL(a.got == 7);
	close(listening);

	REQUIRE(address_from_unix(&nobody, "@pgweir-nobody-is-here", 1));
	two_ends_close(&a, &b);
	set_up();
	CHECK(!stream_connect(&a.stream, base, &nobody.u.any, nobody.size, NULL, &ops));
	CHECK_INT(errno, ECONNREFUSED);
	CHECK_INT(a.stream.fd, -1);
	stream_close(&a.stream);
	tear_down();
}

static void close_on_readable(struct stream *stream)
{
	stream_close(stream);
	free(stream);
}

TEST(a_callback_may_close_and_free_its_stream)
{
	static const struct stream_ops closing = { .on_readable = close_on_readable, .on_drained = close_on_readable };
	struct stream *stream;
	int pair[2];
	static unsigned char sink[65536];

	set_up();
	for (int drained = 0; drained < 2; drained++) {
		stream = malloc(sizeof *stream);
		REQUIRE(stream && tcp_pair(pair, true));
		REQUIRE(stream_open(stream, base, pair[0], &closing));
		/* Readable and, the second time, writable in the same turn of the loop. */
		if (drained)
			REQUIRE(stream_write_bytes(stream, block, sizeof block));
		else
			REQUIRE(write(pair[1], "x", 1) == 1);
		/* The other end reads until the stream is closed. */
		alarm(20);
		while (recv(pair[1], sink, sizeof sink, MSG_DONTWAIT) != 0)
			event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
		alarm(0);
		close(pair[1]);
	}
	CHECK_INT(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	tear_down();
}

UNIT_ALONE
