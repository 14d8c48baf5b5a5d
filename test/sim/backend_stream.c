/*
 * A fake walsender: it streams numbered rows and reads numbered reports of a standby, until both sides have ended the stream ("Streaming Replication
 * Protocol").
 *
 * Invariant: the reports come in order, from the client for which the server was opened, and none after the client's CopyDone.
 */
#include "backend.h"

#include "chance.h"
#include "pg/build.h"
#include "sim.h"

#include <stdio.h>
#include <string.h>

void stream_begin(struct backend *b, const struct ask *ask)
{
	SIM_CHECK(b->replication[0], "server %u was to stream, and is no walsender", b->pid);
	b->streams = true;
	b->stream_ended = false;
	b->stream_row = 0;
	b->copy = *ask;
	b->copy_next = 0;
	b->until = loop_now();
	backend_copy_begin(b, 'W');
	actor_at(&b->actor, loop_now());
}

static void end_half(struct backend *b)
{
	if (b->stream_ended)
		return;
	b->stream_ended = true;
	backend_say(b, 'c');
	backend_flush(b);
}

static void end_stream(struct backend *b)
{
	char tag[64];

	end_half(b);
	b->streams = b->cancelled = false;
	ask_tag(&b->copy, b->client, b->copy.serial, b->tx, tag, sizeof(tag));
	pg_build_string(&b->out, 'C', tag);
	sim_counts.streams++;
	backend_ready(b);
}

void stream_message(struct backend *b, char type, const uint8_t *body, uint32_t size)
{
	uint32_t client, serial, number;
	char text[64] = "";

	if (type == 'c') {
		end_stream(b);
		return;
	}
	SIM_CHECK(type == 'd', "server %u got a message %c in a stream", b->pid, type);
	memcpy(text, body, size < sizeof(text) ? size : sizeof(text) - 1);
	SIM_CHECK(sscanf(text, "report %u.%u.%u", &client, &serial, &number) == 3 && client == b->client && serial == b->copy.serial &&
		  number == b->copy_next, "the stream of %u.%u.%u got \"%s\"", b->client, b->copy.serial, b->copy_next, text);
	b->copy_next++;
}

void stream_go_on(struct backend *b)
{
	if (b->cancelled) {
		b->streams = b->cancelled = false;
		if (b->tx == 'T')
			b->tx = 'E';
		backend_error(b, "57014", b->client, b->copy.serial);
		backend_ready(b);
		return;
	}
	if (loop_now() < b->until || b->stream_ended)
		return;
	for (uint32_t n = 1 + chance_below(4); n > 0 && b->stream_row < b->copy.a; n--)
		backend_row(b, 'd', &b->copy, b->client, b->copy.serial, b->stream_row++);
	backend_flush(b);
	if (b->stream_row == b->copy.a)
		end_half(b);
	b->until = loop_now() + (sim_is_calm ? 0 : chance_spread(0, b->copy.milliseconds * (USEC / 1000)));
}
