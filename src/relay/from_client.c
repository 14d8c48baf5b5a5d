/*
 * The path of bytes from clients to servers, and the rules for both directions (from_server.c has
 * the way back).
 *
 * In the order of time, for a simple query of a client in transaction mode:
 *
 * 1. The client's socket is readable: relay_from_client() reads into the loop's one buffer
 *    (from_client_round_of()), and walk_client() walks the messages in place.
 * 2. relay_pass_plain() (client_message.c) sees a Query. The client has no server, so it asks its
 *    pool for one. If none is idle, the client waits in the queue, and the bytes are held
 *    (peer.held) until lend() (core/policy.c) calls relay_from_client() again.
 * 3. The Query is entered in the server's ledger, and one write sends the bytes to the server.
 * 4. from_server.c forwards the answer and crosses it off the ledger.
 * 5. ReadyForQuery says that the transaction is over: release.c returns the server to the pool.
 *
 * Most frames need not be understood, and each costs a look at its five header bytes: it is entered
 * in the ledger (towards the server) or crossed off (towards the client), and its bytes are part of
 * a run that goes to the other socket in one call. Bytes are copied only if a socket is full, a
 * header is incomplete, or a client waits for a server; then they are held in a buffer until they
 * can be sent.
 *
 * Most reads bring complete messages that can pass unread. relay_pass_plain takes them in one short
 * loop, and they are sent in one call. walk_client_frames examines the others frame by frame
 * (client_message.c).
 *
 * When the far socket is full, the near socket is not read, so a connection can make pgweir hold at
 * most one read; only a named Parse is collected as a whole (collect). A client without a server is
 * read in pieces of pkt_buf, to keep many waiting clients cheap. A client gets no server for an
 * incomplete message that must be seen further before it can be sent and that fits the read buffer,
 * because its rest may never arrive.
 *
 * release.c returns the server when it owes nothing, its transaction is over, and both sides are
 * between two frames. See "Message Flow" and "Message Formats" of the PostgreSQL documentation.
 */
#include "relay/relay.h"

#include "base/assert.h"
#include "base/inline.h"
#include "pg/build.h"
#include "pg/message.h"
#include "relay/release.h"
#include "relay/client_message.h"
#include "relay/offload.h"
#include "relay/request.h"
#include "state/session_state.h"

#include <stdio.h>

/* The largest input of one relay_pass_plain call, below which its messages are not counted, and the
   number of its messages that count as one examined message. */
#define PLAIN_LITTLE 256
#define PLAIN_MOST (8 * 1024)
#define PLAIN_PER_LOOK 4

static void from_client_flush(struct client *c, struct gather *g)
{
	gather_flush(g);
	c->half_sent = false;
}

/* Whether a message of this type may be answered without a server, by take_without_server(). */
static bool may_need_no_server(uint8_t type)
{
	return pg_client_messages[type].phases & PG_COPY && type != PGC_TERMINATE;
}

/* Whether a message of this type may begin a request that request_take() must decide. */
static bool may_take_request(const struct client *c, uint8_t type)
{
	bool is_decided = request_step_in(c, REQUEST_IN(TO_READ) | REQUEST_IN(TO_PRIMARY));

	if (!c->request || c->pooled.link || c->minds.refused_until || is_decided)
		return false;
	return (c->pooled.reads != READS_OFF || c->request->step != REQUEST_DIRECT) &&
	       type != PGC_TERMINATE && pg_client_message(type, PG_SESSION);
}

/* Answers the messages at the front of n bytes that need no server, of a client without a server:
   Sync, Flush, and complete messages left over from a COPY. All answers are sent in one write.
   False: the client has ended. */
static bool take_without_server(struct client *c, const uint8_t *at, size_t n, size_t *used)
{
	uint32_t most = (uint32_t)c->peer.world->conf->settings.max_packet_size;
	struct bytes ready = BYTES_EMPTY;
	struct pg_frame f;
	bool sent;

	for (*used = 0;
	     pg_frame_look(at + *used, n - *used, most, &f) == PG_OK && may_need_no_server(f.type);
	     *used += PG_HEADER + f.size) {
		/* Sync and Flush have no body; a message of a COPY must be complete */
		if (pg_client_message(f.type, PG_SESSION) ? f.size > 0 : !pg_frame_is_whole(&f))
			break;
		if (f.type == PGC_SYNC)
			pg_build(&ready, 'Z', request_status(c), 1);
	}
	sent = *used == 0 || bytes_size(&ready) == 0 || client_send(c, &ready);
	bytes_free(&ready);
	return sent;
}

/* Handles the messages at the front of n bytes that come before the search for a server, because
   they need no server or a decision about the host. VERDICT_PASS: *used bytes are done;
   VERDICT_GONE; with another verdict the walk stops before the message. */
static enum verdict take_before_server(struct client *c, const uint8_t *at, size_t n, size_t *used)
{
	*used = 0;
	if (may_need_no_server(*at) && !take_without_server(c, at, n, used))
		return VERDICT_GONE;
	return *used == 0 && may_take_request(c, *at) ? request_take(c, at, n, false, used)
						       : VERDICT_PASS;
}

/* Takes the frame at the front of n bytes, and reads its header into *f. VERDICT_PASS,
   VERDICT_SWALLOW, VERDICT_GONE; with another verdict the walk stops before the frame. */
static enum verdict take_frame(struct client *c, const uint8_t *at, size_t n, struct gather *g,
			       struct pg_frame *f, size_t *skip)
{
	enum pg_verdict read = pg_frame_look(
		at, n, (uint32_t)c->peer.world->conf->settings.max_packet_size, f);
	const struct pg_client_message *row;
	char type[8];

	if (read == PG_MORE)
		return VERDICT_MORE;
	if (read == PG_BAD) {
		from_client_flush(c, g);
		client_end_bad_header(c, at, PG_HEADER);
		return VERDICT_GONE;
	}
	row = pg_client_message(f->type, PG_SESSION | PG_COPY);
	if (!row || f->size < row->look) {
		snprintf(type, sizeof(type), "%u", f->type);
		from_client_flush(c, g);
		client_end(c, REASON_BAD_PACKET, type);
		return VERDICT_GONE;
	}
	return f->here < row->look ? VERDICT_MORE : relay_take(c, f, g, skip);
}

/* Passes the plain messages at the beginning of a large input, as many as the share of the client
   allows, and counts them in *looks. */
static NEVER_INLINE struct walk pass_some_plain(struct client *c, const uint8_t *buf, size_t n,
						uint32_t *looks)
{
	const struct ledger *l = &server_of(c->pooled.link)->ledger;
	size_t before = ledger_depth(l);
	struct walk plain = relay_pass_plain(c, buf, n < PLAIN_MOST ? n : PLAIN_MOST);

	if (plain.verdict != VERDICT_GONE)
		*looks += (uint32_t)(ledger_depth(l) - before) / PLAIN_PER_LOOK;
	return plain;
}

/* Continues a walk: the first `at` of n bytes are forwarded without a further look. */
static NEVER_INLINE struct walk walk_client_frames(struct client *c, const uint8_t *buf, size_t at,
						   size_t n)
{
	struct world *w = c->peer.world;
	struct gather g;
	enum verdict verdict = VERDICT_PASS;
	bool may_pass = false;		/* the next message may pass unread */
	uint32_t looks = 0, looks_most = w->share.looks_each;
	size_t from = 0;		/* where the messages for the server begin */

	w->share.words_left = looks_most;
	gather_begin(&g, c->pooled.link ? &server_of(c->pooled.link)->peer.stream : NULL);
	if (at > 0)
		gather_first(&g, buf, at);
	while (at < n) {
		struct pg_frame f;
		size_t skip = 0;

		if (c->peer.passing > 0) {
			/* if the client ends before the flush, its server waits for the rest of the
			   message */
			c->half_sent |= at == 0 && !c->peer.passing_dropped;
			at += gather_pass(&g, &c->peer, buf + at, n - at);
			continue;
		}
		if (may_pass && c->pooled.link && !c->minds.refused_until &&
		    !request_step_in(c, REQUEST_IN_TRANSACTION)) {
			struct walk plain = n - at < PLAIN_LITTLE
						    ? relay_pass_plain(c, buf + at, n - at)
						    : pass_some_plain(c, buf + at, n - at, &looks);

			if (plain.verdict == VERDICT_GONE)
				return plain;
			if (plain.used > 0)
				gather_add(&g, buf + at, plain.used);
			may_pass = false;
			at += plain.used;
			continue;
		}
		if (!c->pooled.link && !c->minds.refused_until) {
			size_t used;

			verdict = take_before_server(c, buf + at, n - at, &used);
			if (verdict == VERDICT_GONE)
				return (struct walk){ at, VERDICT_GONE };
			at += used;
			from = at;
			if (verdict != VERDICT_PASS)
				break;
			if (used > 0)
				continue;
		}
		may_pass = true;
		if (looks++ >= looks_most) {
			verdict = VERDICT_LATER;
			break;
		}
		verdict = take_frame(c, buf + at, n - at, &g, &f, &skip);
		if (verdict == VERDICT_GONE)
			return (struct walk){ at, VERDICT_GONE };
		if (verdict != VERDICT_PASS && verdict != VERDICT_SWALLOW)
			break;
		peer_begin_frame(&c->peer, &f, verdict == VERDICT_SWALLOW);
		peer_pass_some(&c->peer, skip);
		at += skip;
		if (c->pooled.link)
			g.to = &server_of(c->pooled.link)->peer.stream;
	}
	if (c->minds.keeps_request && c->pooled.link && at > from)
		request_keep(c, buf + from, at - from);
	from_client_flush(c, &g);
	relay_looked(w, looks, verdict == VERDICT_LATER);
	c->pooled.pool->database->stats.total.received += at;
	if (g.broken)
		verdict = VERDICT_BROKEN;
	else if (verdict != VERDICT_WAIT && verdict != VERDICT_LATER)
		verdict = VERDICT_PASS;
	return (struct walk){ at, verdict };
}

/* Walks input that begins a message, unless the rest of a message is to come. Its messages usually
   pass unread. `keeps`: the client has a request. */
static ALWAYS_INLINE struct walk walk_unread(struct client *c, const uint8_t *buf, size_t n,
					     bool keeps)
{
	struct walk plain = { 0, VERDICT_PASS };

	if (c->peer.passing == 0)
		plain = relay_pass_plain(c, buf, n < PLAIN_MOST ? n : PLAIN_MOST);
	if (plain.verdict != VERDICT_PASS)
		return plain;
	if (plain.used < n || n == 0)
		return walk_client_frames(c, buf, plain.used, n);
	c->pooled.pool->database->stats.total.received += n;
	if (keeps)
		request_keep(c, buf, n);
	if (stream_write_bytes(&server_of(c->pooled.link)->peer.stream, buf, n))
		return (struct walk){ n, VERDICT_PASS };
	/* this write was the whole request */
	if (keeps && c->request->sent == n && c->request->repeat == REPEAT_WHOLE)
		c->request->repeat = REPEAT_UNSENT;
	return (struct walk){ n, VERDICT_BROKEN };
}

/* walk_client() for a client that is being refused, or for whose input request.c or offload.c
   decides. */
static NEVER_INLINE struct walk walk_client_minding(struct client *c, const uint8_t *buf, size_t n)
{
	bool is_at_message = c->peer.passing == 0 && !c->minds.refused_until && n > 0;
	enum verdict verdict = VERDICT_PASS;
	struct walk walk;
	size_t used = 0;

	if (c->pooled.link && request_step_in(c, REQUEST_IN_STATEMENT) && offload_blocks(c, &n))
		return (struct walk){ 0, peer_is_stopped(&c->peer) ? VERDICT_GONE : VERDICT_WAIT };
	if (is_at_message && !may_need_no_server(*buf) && may_take_request(c, *buf))
		verdict = request_take(c, buf, n, true, &used);
	c->pooled.pool->database->stats.total.received += used;
	if (verdict != VERDICT_PASS || used == n)
		return (struct walk){ used, verdict == VERDICT_MORE ? VERDICT_PASS : verdict };
	if (is_at_message && used == 0 && !request_step_in(c, REQUEST_IN_TRANSACTION))
		return walk_unread(c, buf, n, true);
	walk = walk_client_frames(c, buf + used, 0, n - used);
	walk.used += used;
	return walk;
}

/* VERDICT_PASS, VERDICT_WAIT, VERDICT_LATER, VERDICT_BROKEN or VERDICT_GONE. */
static ALWAYS_INLINE struct walk walk_client(struct client *c, const uint8_t *buf, size_t n)
{
	if (!c->minds.messages)
		return walk_unread(c, buf, n, false);
	if (c->peer.passing > 0 || c->minds.refused_until || request_minds(c, buf, n))
		return walk_client_minding(c, buf, n);
	return walk_unread(c, buf, n, true);
}

#define LAST_READS 64

/* Writing to the server has failed. Its last messages, perhaps all answers of the client, may still
   be readable: for example, PostgreSQL sends the reason of a shutdown and closes. They are read
   now, beyond the share of this turn, because there is no later turn. Called last: the read buffer
   is overwritten. */
static void relay_drain_server(struct client *c)
{
	struct server *s = server_of(c->pooled.link);
	bool from_socket;
	int reads = 0;

	/* no event has announced the bytes that are read now */
	if (c->request)
		c->request->sent_in = 0;
	do {
		from_socket = !s->peer.held_first;
		reads += from_socket;
		relay_from_server(s, from_socket);
		if (!c->pooled.link) {
			peer_come_again(&c->peer);
			return;
		}
	} while (!peer_is_stopped(&s->peer) && !(s->peer.blocked & FLOW_ROOM) &&
		 reads < LAST_READS && (s->peer.held_first || !from_socket));
	if (!c->request || !offload_lost(s))
		server_end(s, REASON_SERVER_CRASHED, NULL);
}

#define HELD_LEAST 256

/* The approximate limit of bytes that pgweir holds for a client without a server. */
static size_t held_most(const struct client *c)
{
	size_t most = (size_t)c->peer.world->conf->settings.pkt_buf;

	if (most < HELD_LEAST)
		return HELD_LEAST;
	return most < READ_BUFFER / 2 ? most : READ_BUFFER / 2;
}

/* Reads a little of a waiting client, at least to notice its end. */
static NEVER_INLINE void read_waiting(struct client *c)
{
	struct pg_frame f;
	uint8_t *to;
	ssize_t r;

	if (c->peer.held_first || bytes_size(&c->peer.held) >= held_most(c)) {
		flow_block(&c->peer, FLOW_HELD);
		return;
	}
	to = peer_hold_reserve(&c->peer, held_most(c));
	r = to ? stream_read(&c->peer.stream, to, held_most(c)) : STREAM_AGAIN;
	if (!to) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return;
	}
	if (r < 0) {
		bool has_terminated = pg_frame_look(bytes_front(&c->peer.held),
						    bytes_size(&c->peer.held), PG_LENGTH_LIMIT,
						    &f) == PG_OK &&
				      f.type == PGC_TERMINATE;

		client_end(c, has_terminated ? REASON_CLIENT_CLOSE : REASON_CLIENT_EOF, NULL);
		return;
	}
	peer_hold_read(&c->peer, (size_t)r);
	if (bytes_size(&c->peer.held) >= held_most(c))
		flow_block(&c->peer, FLOW_HELD);
	else if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

/* Whether a client without a server must read its answers before it is read again, so that answers
   do not accumulate. */
static bool waits_for_own_room(struct client *c)
{
	if (c->pooled.link || stream_unsent(&c->peer.stream) == 0)
		return false;
	flow_block(&c->peer, FLOW_ROOM);
	return true;
}

/* After a walk, whether more may be read in this turn. */
static bool client_may_go_on(struct client *c, enum verdict verdict)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (s && s->ledger.lost)
		release_if_over(s);
	if (verdict == VERDICT_WAIT) {
		/* the socket is read up to the limit, to notice when the client leaves the queue */
		if (bytes_size(&c->peer.held) >= held_most(c))
			flow_block(&c->peer, FLOW_HELD);
		return false;
	}
	if (s && stream_unsent(&s->peer.stream) > 0) {
		flow_block(&c->peer, FLOW_ROOM);
		return false;
	}
	if (s)
		release_if_over(s);
	return !peer_is_stopped(&c->peer) && !waits_for_own_room(c);
}

/* Whether the server has all messages of the client, so that its answer comes next. */
static bool awaits_answer(const struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	return s && !s->ledger.lost && stream_unsent(&s->peer.stream) == 0 &&
	       !stream_has_buffered(&c->peer.stream);
}

/* Whether the client holds complete messages, or a frame that must be seen as a whole and does not
   fit the read buffer. */
static bool holds_much(const struct client *c)
{
	return c->peer.held.data &&
	       (c->peer.held_first || c->collects > 0 || bytes_size(&c->peer.held) > READ_BUFFER);
}

/* Collects a frame in the client's own memory, because the read buffer is too small for it; later
   input is not read before it has been sent. True: it is complete. */
static bool from_client_collect(struct client *c)
{
	struct world *w = c->peer.world;

	for (int64_t rounds = 0; bytes_size(&c->peer.held) < c->collects; rounds++) {
		size_t more = c->collects - bytes_size(&c->peer.held);
		uint8_t *to;
		ssize_t r;

		if (rounds > 0 && !relay_one_more(w, rounds)) {
			if (stream_has_buffered(&c->peer.stream))
				peer_come_again(&c->peer);
			return false;
		}
		more = more < w->share.piece ? more : w->share.piece;
		to = peer_hold_reserve(&c->peer, more);
		r = to ? stream_read(&c->peer.stream, to, more) : 0;
		if (!to || r < 0) {
			client_end(c, to ? REASON_CLIENT_EOF : REASON_NO_MEMORY, NULL);
			return false;
		}
		peer_hold_read(&c->peer, (size_t)r);
		if (r == 0 || ((size_t)r < more && !stream_has_buffered(&c->peer.stream)))
			return false;
	}
	client_collect(c, 0);
	return true;
}

/* Walks the held bytes in place. */
static NEVER_INLINE void from_client_pass_held(struct client *c, bool from_socket)
{
	struct bytes all;
	struct walk walk;

	/* the client is on the list `again`, and the turn reads it from there */
	if (from_socket && !list_is_empty(&c->peer.again))
		return;
	peer_hold_last(&c->peer);
	if (!from_client_collect(c))
		return;
	all = peer_take_held(&c->peer);
	/* relay_pass_plain() does not continue the search of a text */
	walk = session_is_searching(c)
		       ? walk_client_frames(c, bytes_front(&all), 0, bytes_size(&all))
		       : walk_client(c, bytes_front(&all), bytes_size(&all));
	if (walk.verdict == VERDICT_GONE)
		bytes_free(&all);
	else if (!peer_hold_rest_of(&c->peer, &all, walk.used, walk.verdict == VERDICT_LATER))
		client_end(c, REASON_NO_MEMORY, NULL);
	else if (walk.verdict == VERDICT_BROKEN)
		relay_drain_server(c);
	else if (client_may_go_on(c, walk.verdict))
		peer_come_again(&c->peer);
}

/* Holds the rest of n bytes after a walk, and acts on the verdict. True: more may be read at
   once. */
static NEVER_INLINE bool from_client_end_round(struct client *c, struct walk walk, size_t n,
					       bool from_socket)
{
	if (walk.verdict == VERDICT_GONE)
		return false;
	if (!peer_hold(&c->peer, c->peer.world->buffer + walk.used, n - walk.used)) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	if (walk.verdict == VERDICT_LATER)
		peer_hold_first(&c->peer);
	else
		peer_hold_last(&c->peer);
	if (walk.verdict == VERDICT_BROKEN) {
		relay_drain_server(c);
		return false;
	}
	if (!client_may_go_on(c, walk.verdict))
		return false;
	if (!c->collects && walk.verdict != VERDICT_LATER)
		return from_socket;
	peer_come_again(&c->peer);
	return false;
}

/* Takes the held bytes and one read. True: there may be more. */
static ALWAYS_INLINE bool from_client_round_of(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;
	size_t held = peer_unhold(&c->peer), n = held;
	size_t room = READ_BUFFER - held;
	struct walk walk;
	ssize_t r = 0;

	/* after a part of a message the client may send as much again */
	if (!c->pooled.link && room > held_most(c))
		room = held < held_most(c) ? held_most(c) : held < room ? held : room;
	if (room > w->share.piece)
		room = w->share.piece;
	/* there is no room if the buffer is full of a pipeline at its limit */
	if (from_socket && room > 0) {
		r = stream_read(&c->peer.stream, w->buffer + held, room);
		if (r < 0) {
			client_end(c, REASON_CLIENT_EOF, NULL);
			return false;
		}
		n += (size_t)r;
	}
	if (n == 0)
		return false;
	walk = walk_client(c, w->buffer, n);
	if (walk.verdict == VERDICT_PASS && walk.used == n && (size_t)r < room && awaits_answer(c))
		return false;
	return from_client_end_round(c, walk, n, from_socket) &&
	       ((size_t)r == room || stream_has_buffered(&c->peer.stream));
}

static NEVER_INLINE void from_client_more_rounds(struct client *c, bool from_socket)
{
	for (int64_t rounds = 1; relay_one_more(c->peer.world, rounds); rounds++)
		if (!from_client_round_of(c, from_socket))
			return;
	if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

void relay_from_client(struct client *c, bool from_socket)
{
	c->peer.world->loop.has_traffic = true;
	/* the client is in the queue, or its server executes a task */
	if (c->pooled.state == CLIENT_WAITING ||
	    (c->pooled.link && server_of(c->pooled.link)->task != NULL)) {
		if (from_socket)
			read_waiting(c);
		return;
	}
	if (waits_for_own_room(c))
		return;
	if (holds_much(c))
		from_client_pass_held(c, from_socket);
	else if (from_client_round_of(c, from_socket))
		from_client_more_rounds(c, from_socket);
}

void relay_client_drained(struct client *c)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;
	struct peer *from;

	if (s && !relay_send_local_replies(c, s))
		return;
	if (s && c->peer.blocked & (FLOW_ROOM | FLOW_ANSWERS) &&
	    stream_unsent(&s->peer.stream) == 0)
		client_resume(c);
	from = s ? &s->peer : &c->peer;
	if (from->blocked & FLOW_ROOM) {
		flow_unblock(from, FLOW_ROOM);
		peer_come_again(from);
	}
}

void relay_server_drained(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (!c)
		return;
	if (c->peer.blocked & (FLOW_ROOM | FLOW_ANSWERS))
		client_resume(c);
	release_if_over(s);
}
