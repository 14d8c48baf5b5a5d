/*
 * The order in which a listening client (session_state = full) is sent its notifications: the order
 * of commits, as PostgreSQL sends them.
 *
 * A client has two sources. The listener of its pool receives all notifications, in the order of
 * commits (notify.c). The client's own server sends the client's own notifications if it LISTENs
 * for the client during a transaction (session_restore_channels()). Only that server knows which of
 * them the client is told: none of a channel that the transaction leaves, and all of a channel to
 * which it begins to LISTEN. Only the listener knows their places among the notifications of other
 * sessions. Both sources therefore append to one buffer, which is merged when it is sent. Its
 * messages:
 *
 *	HEARD		by the listener: is sent
 *	ECHO		the listener has received a notification of the client's own server: a place
 *	OWN		by the client's own server: is sent in the place of its echo
 *	OWN_ONLY	by the client's own server, from a channel without echoes
 *	READY		the ReadyForQuery that was held (holds_ready()): is sent last
 *
 * In the order of time, for a client whose server S has its channels:
 *
 *	event						the buffer
 *	the client sends BEGIN; NOTIFY a, 'y'
 *	another session commits 'x', L receives it	HEARD x
 *	the client commits, S delivers 'y'		HEARD x, OWN y
 *	the ReadyForQuery is held			HEARD x, OWN y, READY
 *	L receives 'y' (notify_pend_echo())		HEARD x, OWN y, READY, ECHO y
 *	another session commits 'z', L receives it	HEARD x, OWN y, READY, ECHO y, HEARD z
 *
 * notify_client_flush() merges: HEARD x is sent, OWN y moves to the place of ECHO y, HEARD z
 * follows, and READY is last. The client is sent x, y, z.
 *
 * Notifications of one transaction have neighbouring places: an OWN_ONLY is sent next to an OWN,
 * and without an OWN after everything that was heard.
 *
 * An echo without its OWN is dropped, because the transaction has left its channel. While the
 * server has requests to answer, the echo can also be from one of these. It then stays in the
 * buffer with everything after it until the next ReadyForQuery. An OWN without its echo is sent
 * without a place. This happens if the listener has another client_encoding.
 */
#include "state/notify.h"

#include "base/hash.h"
#include "pg/message.h"
#include "state/session_state.h"

#include <string.h>

enum { HEARD = PGS_NOTIFICATION, ECHO = 'e', OWN = 'o', OWN_ONLY = 'n', READY = PGS_READY };

#define NOTIFICATION_HEAD 4		/* bytes of the body before the channel */
/* bytes of notifications that one client may leave unread */
#define PENDING_MOST (1024 * 1024)

/* ---- the buffer ---- */

/* A message was appended to the pending notifications. */
static void note_pending(struct notify_client *h)
{
	struct client *c = h->client;

	if (h->pending.failed)
		client_end(c, REASON_NO_MEMORY, NULL);
	else if (bytes_size(&h->pending) + stream_unsent(&c->peer.stream) > PENDING_MOST)
		client_end(c, REASON_NOTIFICATIONS, NULL);
	else if (list_is_empty(&h->due))
		list_append(&c->peer.world->notify.due, &h->due);
}

/* A hash of channel and payload, which are equal in an OWN and its echo. */
static uint64_t order_text_of(const struct pg_frame *f)
{
	return hash_long(f->body + NOTIFICATION_HEAD, f->size - NOTIFICATION_HEAD);
}

static void pend(struct notify_client *h, uint8_t type, const struct pg_frame *f, uint32_t pid)
{
	bytes_append_u8(&h->pending, type);
	bytes_append_u32(&h->pending, f->size + PG_LENGTH_WORD);
	bytes_append_u32(&h->pending, pid);
	bytes_append(&h->pending, f->body + NOTIFICATION_HEAD, f->size - NOTIFICATION_HEAD);
	note_pending(h);
}

void notify_pend_heard(struct notify_client *h, const struct pg_frame *f, uint32_t pid)
{
	h->client->pooled.pool->notifications++;
	pend(h, HEARD, f, pid);
}

void notify_pend_echo(struct notify_client *h, const struct pg_frame *f)
{
	uint64_t text = order_text_of(f);

	bytes_append_u8(&h->pending, ECHO);
	bytes_append_u32(&h->pending, PG_LENGTH_WORD + sizeof(text));
	bytes_append(&h->pending, &text, sizeof(text));
	note_pending(h);
}

void notify_pend_own(struct notify_client *h, const struct pg_frame *f, uint32_t pid, bool has_echo)
{
	pend(h, has_echo ? OWN : OWN_ONLY, f, pid);
}

void notify_pending_leave(struct notify_client *h,
			  bool (*keeps)(const struct notify_client *h, const char *channel))
{
	struct bytes pending = h->pending;
	struct pg_frames frames = pg_frames_of(&pending);
	struct pg_frame f;

	h->pending = (struct bytes)BYTES_EMPTY;
	while (pg_frames_next(&frames, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (f.type != HEARD || keeps(h, (const char *)f.body + NOTIFICATION_HEAD))
			bytes_append(&h->pending, f.body - PG_HEADER, PG_HEADER + (size_t)f.size);
	bytes_free(&pending);
}

/* ---- the order ---- */

static void send_as(struct bytes *out, uint8_t type, const struct pg_frame *f)
{
	bytes_append_u8(out, type);
	bytes_append(out, f->body - PG_HEADER + 1, PG_HEADER - 1 + (size_t)f->size);
}

/* Takes the next message of the listener, or else of the client's own server. False: there is
   none. */
static bool next_of(struct pg_frames *in, bool of_listener, struct pg_frame *f)
{
	while (pg_frames_next(in, PG_LENGTH_LIMIT, f) == PG_OK)
		if (f->type != READY && of_listener == (f->type == HEARD || f->type == ECHO))
			return true;
	return false;
}

/* Moves *heard past the echo of this message. False: it has no echo. */
static bool find_echo(struct pg_frames *heard, const struct pg_frame *own)
{
	uint64_t text = order_text_of(own);
	struct pg_frames at = *heard;
	struct pg_frame f;

	while (next_of(&at, true, &f)) {
		if (f.type != ECHO || f.size != sizeof(text) ||
		    memcmp(f.body, &text, sizeof(text)) != 0)
			continue;
		*heard = at;
		return true;
	}
	return false;
}

/* Sends the messages of the listener from *heard to `end`. */
static void send_heard(struct bytes *out, struct pg_frames *heard, const uint8_t *end)
{
	struct pg_frame f;

	while (heard->at < end && next_of(heard, true, &f))
		if (f.type == HEARD)
			send_as(out, HEARD, &f);
}

/* Sends the messages of the client's own server from *own to `end`. */
static void send_own(struct bytes *out, struct pg_frames *own, const uint8_t *end)
{
	struct pg_frame f;

	while (own->at < end && next_of(own, false, &f))
		send_as(out, HEARD, &f);
}

/* For each OWN with an echo, sends the messages of the listener before the echo, and then the own
   messages up to this OWN. */
static void send_placed(struct bytes *out, struct pg_frames *heard, struct pg_frames *own)
{
	struct pg_frames at = *own, place = *heard;
	struct pg_frame f;
	bool has_place = false;

	while (next_of(&at, false, &f)) {
		if (f.type == OWN) {
			/* a search for each OWN without an echo would cost the square of their
			   number */
			if (!find_echo(&place, &f))
				break;
			send_heard(out, heard, place.at);
			has_place = true;
		}
		if (has_place)
			send_own(out, own, at.at);
	}
}

/* Moves the messages that can be sent now from *pending to *out, in order. `is_over`: the server
   has no requests to answer. */
static void merge(struct bytes *pending, bool is_over, struct bytes *out)
{
	struct pg_frames heard = pg_frames_of(pending), own = heard, last = heard;
	struct bytes rest = BYTES_EMPTY;
	struct pg_frame f;
	bool waits = false;

	send_placed(out, &heard, &own);
	while (next_of(&heard, true, &f)) {
		waits |= f.type == ECHO && !is_over;
		if (waits)
			send_as(&rest, f.type, &f);
		else if (f.type == HEARD)
			send_as(out, HEARD, &f);
	}
	send_own(out, &own, bytes_front(pending) + bytes_size(pending));
	while (pg_frames_next(&last, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (f.type == READY)
			send_as(out, READY, &f);
	bytes_free(pending);
	*pending = rest;
}

/* Whether all messages are from the listener, as usual, so that they are in order already. */
static bool is_in_order(const struct bytes *pending)
{
	struct pg_frames frames = pg_frames_of(pending);
	struct pg_frame f;

	while (pg_frames_next(&frames, PG_LENGTH_LIMIT, &f) == PG_OK)
		if (f.type != HEARD && f.type != READY)
			return false;
	return true;
}

void notify_client_flush(struct client *c)
{
	struct bytes *pending = &c->session->notify_client->pending, out = BYTES_EMPTY;
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (bytes_size(pending) == 0 && !pending->failed)
		return;
	if (pending->failed || is_in_order(pending)) {
		out = *pending;
		*pending = (struct bytes)BYTES_EMPTY;
	} else {
		merge(pending, !s || ledger_is_empty(&s->ledger), &out);
	}
	if (bytes_size(&out) > 0 || out.failed)
		client_send(c, &out);
	c->pooled.pool->database->stats.total.sent += bytes_size(&out);
	bytes_free(&out);
}
