#ifndef ENDS_H
#define ENDS_H

/*
 * For the tests of streams: two streams that are each other's peer in one loop. A test waits by running the loop until a condition holds; an alarm
 * ends a program that waits forever. The bytes sent count up, so that a reader detects a lost, duplicated or misplaced byte.
 */
#include "net/stream.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/address.h"
#include "unit.h"

struct end {
	struct stream stream;		/* first member: callbacks convert the pointer to struct end */
	int readable, drained, connected, secured, asked;
	bool holds_steps;		/* request_step refuses */
	bool drain_reads;		/* on_readable reads until no data is left */
	size_t got, limit;		/* bytes read; stop at each `limit` (0: none) */
	unsigned char sum;		/* the next expected byte */
	bool garbled;
	ssize_t last;
	char problem[200];
};

static struct event_base *base;
static unsigned char block[256 * 1024];

static void take(struct end *end, const unsigned char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (data[i] != end->sum++)
			end->garbled = true;
	end->got += size;
}

static void on_readable(struct stream *stream)
{
	struct end *end = (struct end *)stream;
	unsigned char buffer[65536];

	end->readable++;
	if (!end->drain_reads)
		return;
	do {
		size_t size = end->limit ? end->limit : sizeof buffer;

		end->last = stream_read(stream, buffer, size);
		if (end->last > 0)
			take(end, buffer, (size_t)end->last);
	} while (end->last > 0 && (stream_has_buffered(stream) || end->limit));
}

static void on_drained(struct stream *stream)
{
	((struct end *)stream)->drained++;
}

static void on_connected(struct stream *stream, const char *error)
{
	struct end *end = (struct end *)stream;

	end->connected++;
	snprintf(end->problem, sizeof end->problem, "%s", error ? error : "");
}

static void on_secured(struct stream *stream, const char *error)
{
	struct end *end = (struct end *)stream;

	end->secured++;
	snprintf(end->problem, sizeof end->problem, "%s", error ? error : "");
}

static bool request_step(struct stream *stream)
{
	struct end *end = (struct end *)stream;

	end->asked++;
	return !end->holds_steps;
}

static const struct stream_ops ops = { on_readable, on_drained, on_connected, on_secured, request_step };

#define UNTIL(cond)                                                                              \
	do {                                                                                     \
		alarm(20);                                                                       \
		while (!(cond))                                                                  \
			event_base_loop(base, EVLOOP_ONCE);                                      \
		alarm(0);                                                                        \
	} while (0)
/* Handles everything that is ready now, and everything that becomes ready as a result. */
#define SETTLE                                                                                   \
	do {                                                                                     \
		for (int settle = 0; settle < 5; settle++)                                       \
			event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK);                    \
	} while (0)

static void set_up(void)
{
	struct event_config *config = event_config_new();

	base = event_base_new_with_config(config);
	event_config_free(config);
	for (size_t i = 0; i < sizeof block; i++)
		block[i] = (unsigned char)i;
}

static void tear_down(void)
{
	event_base_free(base);
	base = NULL;
}

/* A connected pair of loopback TCP sockets; `small`: with minimal send and receive buffers. */
static bool tcp_pair(int pair[2], bool small)
{
	struct address a;
	int listening = socket(AF_INET, SOCK_STREAM, 0), least = 1;

	if (!address_from_ip(&a, "127.0.0.1", 0) || bind(listening, &a.u.any, a.size) != 0)
		return false;
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (small) {
		setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
	}
	if (listen(listening, 1) != 0 || getsockname(listening, &a.u.any, &a.size) != 0)
		return false;
	if (connect(pair[0], &a.u.any, a.size) != 0 && errno != EINPROGRESS)
		return false;
	pair[1] = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
	close(listening);
	return pair[1] >= 0;
}

static bool two_ends(struct end *a, struct end *b, bool small)
{
	int pair[2];

	set_up();
	memset(a, 0, sizeof *a);
	memset(b, 0, sizeof *b);
	return tcp_pair(pair, small) && stream_open(&a->stream, base, pair[0], &ops) &&
	       stream_open(&b->stream, base, pair[1], &ops);
}

static void two_ends_close(struct end *a, struct end *b)
{
	stream_close(&a->stream);
	stream_close(&b->stream);
	stream_close(&b->stream);
	tear_down();
}

__attribute__((unused)) static void reset(struct stream *stream)
{
	struct linger now = { 1, 0 };

	setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	stream_close(stream);
}

#endif
