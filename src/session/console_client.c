/*
 * A client of the console after its login: messages are read as a whole and handed to the console, one after the other.
 *
 * While a command waits for its condition (console_busy), or its answers are not fetched, nothing more is read from
 * it, so that a caller can make us keep a few messages and one answer, not more.
 */
#include "pg/frame.h"
#include "session/dispatch.h"

#define CONSOLE_MOST 65536		/* longest message to the console */

void console_read(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;
	struct bytes in;
	size_t at = 0;

	/* one that does not fetch its answers is asked for no more commands: relay_client_drained comes back to it */
	if (stream_unsent(&c->peer.stream) > 0) {
		c->peer.waits_for_room = true;
		stream_set_reading(&c->peer.stream, false);
		return;
	}
	if (from_socket) {
		ssize_t r = stream_read(&c->peer.stream, w->buffer, READ_BUFFER);

		if (r < 0) {
			client_end(c, REASON_CLIENT_EOF, NULL);
			return;
		}
		bytes_append(&c->peer.held, w->buffer, (size_t)r);
	}
	if (c->peer.held.failed || bytes_size(&c->peer.held) > 4 * CONSOLE_MOST) {
		client_end(c, REASON_PACKET_TOO_LARGE, NULL);
		return;
	}
	in = c->peer.held;
	c->peer.held = (struct bytes)BYTES_EMPTY;
	while (at < bytes_size(&in) && !c->peer.stopped && !c->console_busy &&
	       stream_unsent(&c->peer.stream) == 0) {
		struct pg_frame f;
		enum pg_verdict verdict = pg_frame_look(in.data + in.start + at, bytes_size(&in) - at, CONSOLE_MOST, &f);

		if (verdict == PG_BAD) {
			client_end_bad_header(c, in.data + in.start + at, bytes_size(&in) - at);
			break;
		}
		if (verdict == PG_MORE || !pg_frame_is_whole(&f))
			break;
		at += PG_HEADER + f.size;
		c->peer.request_at = w->now_wall;
		c->last_active = w->now;
		if (f.type == 'X') {
			client_end(c, REASON_CLIENT_CLOSE, NULL);
			break;
		}
		w->console->message(w->console_context, c, f.type, f.body, f.size);
	}
	bytes_consume(&in, at);
	if (c->peer.stopped) {
		bytes_free(&in);
		return;
	}
	c->peer.held = in;
	if (stream_has_buffered(&c->peer.stream) || (stream_unsent(&c->peer.stream) > 0 && !c->console_busy))
		peer_come_again(&c->peer);
}

void client_console_done(struct client *c)
{
	c->console_busy = false;
	peer_come_again(&c->peer);
}
