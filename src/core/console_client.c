/*
 * The input of console clients, after their login: complete messages are passed to the console
 * (world->console.ops), one after the other.
 *
 * To leave time for other clients, an event only receives bytes, and the step `again` of the turn
 * passes at most MESSAGES_MOST messages of one client to the console; the rest follows in the next
 * turns. The socket is not read while a complete message is buffered or answers are unsent. While a
 * command is running (not CONSOLE_READY), at most CONSOLE_MOST bytes are read, so that the end of
 * the client is noticed.
 *
 * Invariant: after console_client_read(), a client with something to do is on world->peers.again,
 * or an event or the console will call it.
 */
#include "core/console_client.h"

#include "base/bytes.h"
#include "pg/frame.h"
#include "pg/message.h"

#define CONSOLE_MOST 65536		/* the longest message to the console */
#define MESSAGES_MOST 4			/* messages per client and turn */

static bool console_client_has_message(const struct client *c)
{
	struct pg_frames in = pg_frames_of(&c->peer.held);
	struct pg_frame f;

	return pg_frames_next(&in, CONSOLE_MOST, &f) != PG_MORE;
}

static bool may_be_read(const struct client *c)
{
	return c->console.state == CONSOLE_READY ? !console_client_has_message(c)
						 : bytes_size(&c->peer.held) < CONSOLE_MOST;
}

/* Whether there is a message to answer, or buffered input that no event announces. */
static bool may_go_on(const struct client *c)
{
	if (c->console.state == CONSOLE_READY && console_client_has_message(c))
		return true;
	return stream_has_buffered(&c->peer.stream) && may_be_read(c);
}

/* While answers are unsent, no further command is run: relay_client_drained continues. */
static bool waits_for_room(struct client *c)
{
	if (stream_unsent(&c->peer.stream) == 0)
		return false;
	flow_block(&c->peer, FLOW_ROOM);
	return true;
}

/* Passes messages to the console until a command waits, answers are unsent, or the client has had
   its share of the turn. */
static void console_client_answer(struct client *c)
{
	struct world *w = c->peer.world;
	struct bytes held = peer_take_held(&c->peer);
	struct pg_frames in = pg_frames_of(&held);

	for (int messages = 0; messages < MESSAGES_MOST; messages++) {
		struct pg_frame f;
		enum pg_verdict verdict;

		if (peer_is_stopped(&c->peer) || c->console.state != CONSOLE_READY ||
		    stream_unsent(&c->peer.stream) > 0)
			break;
		verdict = pg_frames_next(&in, CONSOLE_MOST, &f);
		if (verdict == PG_BAD)
			client_end_bad_header(c, in.at, in.left);
		if (verdict != PG_OK)
			break;
		peer_requested(&c->peer, w->now_wall);
		client_note_activity(c, w->now);
		if (f.type == PGC_TERMINATE)
			client_end(c, REASON_CLIENT_CLOSE, NULL);
		else
			w->console.ops->message(w->console.context, c, f.type, f.body, f.size);
	}
	bytes_consume(&held, bytes_size(&held) - in.left);
	peer_hold_all(&c->peer, held);
}

void console_client_read(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;
	ssize_t got;

	/* the client is on world->peers.again already, and is handled from there */
	if (!list_is_empty(&c->peer.again))
		return;
	if (c->console.state != CONSOLE_READY)
		w->console.ops->go_on(w->console.context, c);
	if (!list_is_empty(&c->peer.again) || waits_for_room(c))
		return;
	if (from_socket && may_be_read(c)) {
		got = stream_read(&c->peer.stream, w->buffer, READ_BUFFER);
		if (got < 0 || (got > 0 && !peer_hold_more(&c->peer, w->buffer, (size_t)got)))
			client_end(c, got < 0 ? REASON_CLIENT_EOF : REASON_NO_MEMORY, NULL);
		else if (may_go_on(c))
			peer_come_again(&c->peer);
		return;
	}
	if (from_socket && c->console.state != CONSOLE_READY)
		flow_block(&c->peer, FLOW_HELD);
	console_client_answer(c);
	if (!waits_for_room(c) && may_go_on(c))
		peer_come_again(&c->peer);
}
