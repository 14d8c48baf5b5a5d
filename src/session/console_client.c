/*
 * A client of the console after its login: messages are taken as a whole and handed to the console, one after the other.
 *
 * A turn belongs to all clients: an event only takes in what has come, and the step `again` of the turn hands over at most
 * MESSAGES_MOST messages of one client; the rest comes in the next turns. The socket is not read while a whole message is here, nor while answers are not fetched. While a command is
 * under way (not CONSOLE_READY), the socket is read up to CONSOLE_MOST, so that the end of the client is seen; beyond that TCP holds
 * what the client sends.
 *
 * Invariant: behind console_read(), a client that could go on is on world->again, or an event or the console will come back to it.
 */
#include "pg/frame.h"
#include "pg/message.h"
#include "session/dispatch.h"

#define CONSOLE_MOST 65536		/* longest message to the console */
#define MESSAGES_MOST 4			/* handed over at a time */

static bool has_message(const struct client *c)
{
	struct pg_frames in = pg_frames_of(&c->peer.held);
	struct pg_frame f;

	return pg_frames_next(&in, CONSOLE_MOST, &f) != PG_MORE;
}

static bool is_busy(const struct client *c)
{
	return c->console_state != CONSOLE_READY;
}

static bool may_be_read(const struct client *c)
{
	return is_busy(c) ? bytes_size(&c->peer.held) < CONSOLE_MOST : !has_message(c);
}

static bool may_be_answered(const struct client *c)
{
	return !peer_is_stopped(&c->peer) && !is_busy(c) && stream_unsent(&c->peer.stream) == 0;
}

/* There is something to answer, or to read, of which no event will tell. */
static bool may_go_on(const struct client *c)
{
	if (!is_busy(c) && has_message(c))
		return true;
	return stream_has_buffered(&c->peer.stream) && may_be_read(c);
}

/* A client that does not fetch its answers is asked for no more commands: relay_client_drained comes back to it. */
static bool waits_for_room(struct client *c)
{
	if (stream_unsent(&c->peer.stream) == 0)
		return false;
	c->peer.waits_for_room = true;
	stream_set_reading(&c->peer.stream, false);
	return true;
}

/* False: the client has ended. */
static bool take_in(struct client *c)
{
	struct world *w = c->peer.world;
	ssize_t r = stream_read(&c->peer.stream, w->buffer, READ_BUFFER);

	if (r >= 0)
		bytes_append(&c->peer.held, w->buffer, (size_t)r);
	if (r >= 0 && !c->peer.held.failed)
		return true;
	client_end(c, r < 0 ? REASON_CLIENT_EOF : REASON_NO_MEMORY, NULL);
	return false;
}

static void hand_over(struct client *c, const struct pg_frame *f)
{
	struct world *w = c->peer.world;

	c->peer.request_at = w->now_wall;
	c->last_active = w->now;
	if (f->type == PGC_TERMINATE)
		client_end(c, REASON_CLIENT_CLOSE, NULL);
	else
		w->console->message(w->console_context, c, f->type, f->body, f->size);
}

static void answer(struct client *c)
{
	struct bytes held = c->peer.held;
	struct pg_frames in = pg_frames_of(&held);

	c->peer.held = (struct bytes)BYTES_EMPTY;
	for (int messages = 0; messages < MESSAGES_MOST && may_be_answered(c); messages++) {
		struct pg_frame f;
		enum pg_verdict verdict = pg_frames_next(&in, CONSOLE_MOST, &f);

		if (verdict == PG_BAD)
			client_end_bad_header(c, in.at, in.left);
		if (verdict != PG_OK)
			break;
		hand_over(c, &f);
	}
	bytes_consume(&held, bytes_size(&held) - in.left);
	if (peer_is_stopped(&c->peer))
		bytes_free(&held);
	else
		c->peer.held = held;
}

void console_read(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;

	/* an event of a client that the turn comes to anyway */
	if (!list_is_empty(&c->peer.again))
		return;
	if (is_busy(c))
		w->console->go_on(w->console_context, c);
	if (peer_is_stopped(&c->peer) || !list_is_empty(&c->peer.again) || waits_for_room(c))
		return;
	if (from_socket && may_be_read(c)) {
		if (take_in(c) && may_go_on(c))
			peer_come_again(&c->peer);
		return;
	}
	if (from_socket && is_busy(c))
		stream_set_reading(&c->peer.stream, false);
	answer(c);
	if (!peer_is_stopped(&c->peer) && !waits_for_room(c) && may_go_on(c))
		peer_come_again(&c->peer);
}

void client_console_done(struct client *c)
{
	/* SUSPEND leaves the console alone */
	stream_set_reading(&c->peer.stream, true);
	peer_come_again(&c->peer);
}
