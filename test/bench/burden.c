/*
 * Clients whose cost a pooler must not pass on to other clients.
 *
 * A slow reader is removed from the loop's events after its request, so that its kernel buffer fills up, and then the pooler's, and so on up to the
 * server: the benchmark measures where that ends. The buffer is small from the beginning, because the memory of the pooler is of interest, not the
 * kernel's.
 *
 * A dribbling client never completes its request: shortly before the end, it stops sending.
 */
#include "burden.h"

#include <stdlib.h>
#include <sys/socket.h>

#define RECEIVE_BUFFER (64 * 1024)

struct burden {
	struct connection *connection;
	enum burden_kind kind;
	const struct bytes *request;
	size_t sent;
};

static struct burden *burdens;
static size_t count, capacity;
static usec_t next_sip, next_byte;

void burden_add(struct connection *c, enum burden_kind kind, const struct bytes *request)
{
	int size = RECEIVE_BUFFER;

	if (count == capacity) {
		capacity = capacity ? 2 * capacity : 64;
		burdens = realloc(burdens, capacity * sizeof(*burdens));
		if (!burdens)
			abort();
	}
	burdens[count++] = (struct burden){ .connection = c, .kind = kind, .request = request };
	if (kind == BURDEN_DRIBBLER)
		return;
	setsockopt(c->wire.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	connection_hold(c);
	connection_send(c, request);
}

static void sip(struct burden *b)
{
	if (b->kind == BURDEN_SLOW_READER && b->connection->wire.fd >= 0)
		connection_read(b->connection, BURDEN_SIP);
}

static void dribble(struct burden *b)
{
	struct bytes one = { .data = b->request->data, .start = b->request->start + b->sent, .end = b->request->start + b->sent + 1 };

	if (b->kind != BURDEN_DRIBBLER || b->connection->wire.fd < 0 || b->sent + 1 >= bytes_size(b->request))
		return;
	b->sent++;
	connection_send(b->connection, &one);
}

void burdens_tick(usec_t now)
{
	if (now >= next_sip) {
		next_sip = now + BURDEN_STEP;
		for (size_t i = 0; i < count; i++)
			sip(&burdens[i]);
	}
	if (now >= next_byte) {
		next_byte = now + USEC;
		for (size_t i = 0; i < count; i++)
			dribble(&burdens[i]);
	}
}
