/*
 * The way of a byte.
 *
 * Input is read into the loop's one buffer and walked frame by frame where it lies. A frame that need not be
 * understood costs a look at its five header bytes: it is entered in the ledger (towards the server) or crossed
 * off it (towards the client), and its bytes are part of a run that goes to the other socket in one call. Nothing is
 * copied in user space unless a socket is full, a frame's header is cut, or a client has to wait for a server; then
 * the bytes are held in a buffer that exists only as long as they do.
 *
 * When the far socket is full the near one is not read, so what a connection can make pgweir keep is bounded by
 * one read. A client without a server is read in pieces of pkt_buf, so that a crowd that waits costs little.
 *
 * A server is given back when the ledger says that it owes nothing, its transaction is over, and both sides stand
 * between two frames (link_end_if_over). "Message Flow" and "Message Formats" of the PostgreSQL documentation are the law here.
 */
#include "session/relay.h"

#include "base/assert.h"
#include "base/text.h"
#include "pg/build.h"
#include "pg/error.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "session/cancel.h"
#include "session/link.h"

#define PIECES 16		/* runs gathered for one writev */
#define WHOLE_MOST 65536	/* longest message that has to be read as a whole (ParameterStatus) */
#define ERROR_LOOK 128		/* bytes of an ErrorResponse in which its severity is found */

/* Runs of the read buffer that go to one stream unchanged. */
struct gather {
	struct stream *to;
	struct iovec pieces[PIECES];
	int count;
	size_t bytes;
	bool broken;
};

static void gather_flush(struct gather *g)
{
	if (g->count > 0 && !g->broken && !stream_write(g->to, g->pieces, g->count))
		g->broken = true;
	g->count = 0;
}

static void gather_add(struct gather *g, const uint8_t *from, size_t size)
{
	struct iovec *last = g->count > 0 ? &g->pieces[g->count - 1] : NULL;

	g->bytes += size;
	if (last && (const uint8_t *)last->iov_base + last->iov_len == from) {
		last->iov_len += size;
		return;
	}
	if (g->count == PIECES)
		gather_flush(g);
	g->pieces[g->count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)from, .iov_len = size };
}

/* The bytes of the frame under way that are here: part of the run, or dropped. */
static size_t pass(struct peer *peer, struct gather *g, const uint8_t *at, size_t n)
{
	size_t size = n < peer->passing ? n : peer->passing;

	if (!peer->passing_dropped)
		gather_add(g, at, size);
	peer->passing -= (uint32_t)size;
	return size;
}

static void begin_frame(struct peer *peer, const struct pg_frame *f, bool dropped)
{
	peer->passing = f->size + PG_HEADER;
	peer->passing_dropped = dropped;
}

/* What could not be used stays with the peer. False: no memory. */
static bool hold(struct peer *peer, const uint8_t *rest, size_t size)
{
	ASSERT(bytes_size(&peer->held) == 0);
	if (size == 0) {
		bytes_free(&peer->held);
		return true;
	}
	bytes_append(&peer->held, rest, size);
	return !peer->held.failed;
}

/* Moves what is held to the front of the read buffer; its size. */
static size_t unhold(struct peer *peer)
{
	size_t size = bytes_size(&peer->held);

	ASSERT(size <= RELAY_BUFFER);
	if (size > 0) {
		memcpy(peer->world->buffer, bytes_front(&peer->held), size);
		bytes_free(&peer->held);
	}
	return size;
}

/* ---- client to server ---- */

enum step { STEP_PASS, STEP_DROP, STEP_WAIT, STEP_BROKEN, STEP_GONE };

/* Answers without a server. */
static enum step say_ready(struct client *c)
{
	struct bytes ready = BYTES_EMPTY;
	bool sent;

	pg_build_ready(&ready, 'I');
	sent = client_send(c, &ready);
	bytes_free(&ready);
	return sent ? STEP_DROP : STEP_GONE;
}

/* A client that has no server sends this; get one, or say what happens without. */
static enum step want_server(struct client *c, const struct pg_frame *f)
{
	struct world *w = c->peer.world;
	struct pool_server *lent;

	if (f->type == 'd' || f->type == 'c' || f->type == 'f')
		return STEP_DROP;		/* left over from a COPY that failed */
	if (f->type == 'H' && f->size == 0)
		return STEP_DROP;		/* nothing to flush */
	if (f->type == 'S' && f->size == 0)
		return say_ready(c);		/* nothing to wait for */
	c->peer.request_at = w->now_wall;
	lent = pool_want(&c->policy, w->now);
	if (!lent)
		return STEP_WAIT;
	if (!link_begin(server_of(lent), c))
		return c->policy.state == CLIENT_DEAD ? STEP_GONE : STEP_WAIT;
	return STEP_PASS;
}

static void count_request(struct client *c, const struct pg_frame *f)
{
	struct world *w = c->peer.world;

	if (f->type == 'd' || f->type == 'c' || f->type == 'f' || f->type == 'H')
		return;
	if (c->query_started == 0)
		c->query_started = w->now;
	if (c->transaction_started == 0)
		c->transaction_started = w->now;
}

/* While refusing, the client's request is answered without a server: see relay_refuse_waiting. */
static enum step refuse_frame(struct client *c, const struct pg_frame *f)
{
	if (f->type != c->refused_type)
		return STEP_DROP;
	c->refusing = false;
	return say_ready(c);
}

static enum step client_frame(struct client *c, const struct pg_frame *f)
{
	struct server *s;
	enum step step;

	if (f->type == 'X')
		return STEP_PASS;
	if (c->refusing)
		return refuse_frame(c, f);
	if (f->type == 'Q' && c->peer.world->conf->settings.disable_pqexec) {
		client_end(c, GOODBYE_PQEXEC, NULL);
		return STEP_GONE;
	}
	if (!c->policy.link) {
		step = want_server(c, f);
		if (step != STEP_PASS)
			return step;
	}
	s = server_of(c->policy.link);
	if (s->task != TASK_NONE)
		return STEP_WAIT;
	if ((f->type == 'd' || f->type == 'c' || f->type == 'f') && !ledger_may_copy(&s->ledger))
		return STEP_DROP;
	if (ledger_depth(&s->ledger) >= RELAY_DEEPEST && !s->ledger.copy_in) {
		c->peer.waits_for_room = true;
		return STEP_WAIT;
	}
	if (!ledger_sent(&s->ledger, f->type, f->here ? f->body[0] : 0, OWED_TO_CLIENT)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return STEP_GONE;
	}
	count_request(c, f);
	return STEP_PASS;
}

static enum step bad_header(struct client *c, const uint8_t *at)
{
	char hex[2 * PG_HEADER + 1];

	text_hex(hex, at, PG_HEADER);
	client_end(c, GOODBYE_BAD_HEADER, hex);
	return STEP_GONE;
}

/* Walks n bytes; *used of them have been dealt with. */
static enum step walk_client(struct client *c, const uint8_t *buf, size_t n, size_t *used)
{
	struct world *w = c->peer.world;
	uint32_t most = (uint32_t)w->conf->settings.max_packet_size;
	struct gather g = { .count = 0 };
	enum step step = STEP_PASS;
	size_t at = 0;

	if (c->policy.link)
		g.to = &server_of(c->policy.link)->peer.stream;
	while (at < n) {
		const struct pg_message *row;
		struct pg_frame f;

		if (c->peer.passing > 0) {
			at += pass(&c->peer, &g, buf + at, n - at);
			continue;
		}
		switch (pg_frame_look(buf + at, n - at, most, &f)) {
		case PG_MORE:
			goto out;
		case PG_BAD:
			return bad_header(c, buf + at);
		case PG_OK:
			break;
		}
		row = pg_client_message(f.type);
		if (!row || f.size < row->look) {
			char type[8];

			snprintf(type, sizeof(type), "%u", f.type);
			client_end(c, GOODBYE_BAD_PACKET, type);
			return STEP_GONE;
		}
		if (f.here < row->look)
			goto out;
		step = client_frame(c, &f);
		if (step == STEP_WAIT)
			goto out;
		if (step == STEP_GONE)
			return step;
		if (f.type == 'X') {
			gather_flush(&g);
			client_end(c, GOODBYE_CLIENT_CLOSE, NULL);
			return STEP_GONE;
		}
		begin_frame(&c->peer, &f, step == STEP_DROP);
		if (c->policy.link)
			g.to = &server_of(c->policy.link)->peer.stream;
	}
out:
	*used = at;
	gather_flush(&g);
	c->policy.pool->database->stats.total.received += at;
	if (g.broken)
		return STEP_BROKEN;
	return step == STEP_WAIT ? STEP_WAIT : STEP_PASS;
}

/* The server cannot be written to; its last words may still be readable. The client, when it is not told by them, may even
   have had all its answers. To be called last: the read buffer is used anew. */
static void server_is_broken(struct client *c)
{
	relay_from_server(server_of(c->policy.link), true);
	if (c->policy.link)
		server_end(server_of(c->policy.link), GOODBYE_SERVER_CRASHED, NULL);
	else if (c->policy.state != CLIENT_DEAD)
		peer_come_again(&c->peer);
}

/* What a client without a server may make us keep, about. */
static size_t a_little(const struct client *c)
{
	size_t little = (size_t)c->peer.world->conf->settings.pkt_buf;

	return little < RELAY_BUFFER / 2 ? little : RELAY_BUFFER / 2;
}

/* Its requests cannot go anywhere now: it waits in the queue, or its server is being prepared. */
static bool must_wait(const struct client *c)
{
	return c->policy.state == CLIENT_WAITING || (c->policy.link && server_of(c->policy.link)->task != TASK_NONE);
}

/* Reads on a little while it waits, if only to see that it leaves. */
static void read_waiting(struct client *c)
{
	uint8_t *to;
	ssize_t r;

	if (bytes_size(&c->peer.held) >= a_little(c)) {
		stream_set_reading(&c->peer.stream, false);
		return;
	}
	to = bytes_reserve(&c->peer.held, a_little(c));
	r = to ? stream_read(&c->peer.stream, to, a_little(c)) : STREAM_AGAIN;
	if (!to) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return;
	}
	if (r < 0) {
		client_end(c, GOODBYE_CLIENT_EOF, NULL);
		return;
	}
	c->peer.held.end += (size_t)r;
	if (bytes_size(&c->peer.held) >= a_little(c))
		stream_set_reading(&c->peer.stream, false);
	else if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

/* A client without a server that does not fetch its answers is not read either: whatever it asks for, they do not pile up. */
static bool waits_for_own_room(struct client *c)
{
	if (c->policy.link || stream_unsent(&c->peer.stream) == 0)
		return false;
	c->peer.waits_for_room = true;
	stream_set_reading(&c->peer.stream, false);
	return true;
}

/* After a walk: whether more may be read now. */
static bool client_may_go_on(struct client *c, enum step step)
{
	struct server *s = c->policy.link ? server_of(c->policy.link) : NULL;

	if (step == STEP_WAIT) {
		/* stay readable, to see a client that leaves the queue, until it has sent more than a little */
		if (c->peer.waits_for_room || bytes_size(&c->peer.held) >= a_little(c))
			stream_set_reading(&c->peer.stream, false);
		return false;
	}
	if (s && stream_unsent(&s->peer.stream) > 0) {
		c->peer.waits_for_room = true;
		stream_set_reading(&c->peer.stream, false);
		return false;
	}
	if (s)
		link_end_if_over(s);
	return c->policy.state != CLIENT_DEAD && !waits_for_own_room(c);
}

void relay_from_client(struct client *c, bool from_socket)
{
	struct world *w = c->peer.world;
	int64_t loops = w->conf->settings.sbuf_loopcnt;

	if (must_wait(c)) {
		if (from_socket)
			read_waiting(c);
		return;
	}
	if (waits_for_own_room(c))
		return;
	for (int64_t i = 0; loops == 0 || i < loops; i++) {
		size_t held = unhold(&c->peer), n = held, used = 0;
		size_t room = RELAY_BUFFER - held;
		ssize_t r = 0;
		enum step step;

		if (!c->policy.link && room > a_little(c))
			room = a_little(c);
		/* no room: a pipeline too deep to be taken on fills the buffer */
		if (from_socket && room > 0) {
			r = stream_read(&c->peer.stream, w->buffer + held, room);
			if (r < 0) {
				client_end(c, GOODBYE_CLIENT_EOF, NULL);
				return;
			}
			n += (size_t)r;
		}
		if (n == 0)
			return;
		step = walk_client(c, w->buffer, n, &used);
		if (step == STEP_GONE)
			return;
		if (!hold(&c->peer, w->buffer + used, n - used)) {
			client_end(c, GOODBYE_NO_MEMORY, NULL);
			return;
		}
		if (step == STEP_BROKEN) {
			server_is_broken(c);
			return;
		}
		if (!client_may_go_on(c, step) || !from_socket)
			return;
		if ((size_t)r < room && !stream_has_buffered(&c->peer.stream))
			return;
	}
	if (stream_has_buffered(&c->peer.stream))
		peer_come_again(&c->peer);
}

void relay_client_drained(struct client *c)
{
	struct server *s = c->policy.link ? server_of(c->policy.link) : NULL;

	if (s && s->peer.waits_for_room) {
		s->peer.waits_for_room = false;
		peer_read_on(&s->peer);
		peer_come_again(&s->peer);
	} else if (!s && c->peer.waits_for_room) {
		c->peer.waits_for_room = false;
		peer_read_on(&c->peer);
		peer_come_again(&c->peer);
	}
}

void relay_server_drained(struct server *s)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;

	if (!c)
		return;
	if (c->peer.waits_for_room) {
		c->peer.waits_for_room = false;
		peer_read_on(&c->peer);
		peer_come_again(&c->peer);
	}
	link_end_if_over(s);
}

/*
 * The request of a waiting client is cancelled: it is told so, as PostgreSQL would tell it, and what it has sent for
 * the request, up to the Sync in the extended protocol, is passed over without reaching any server.
 */
void relay_refuse_waiting(struct client *c)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	ASSERT(c->policy.state == CLIENT_WAITING && bytes_size(&c->peer.held) >= PG_HEADER);
	pool_client_become(c->peer.world->pools, &c->policy, CLIENT_IDLE, c->peer.world->now);
	c->refusing = true;
	c->refused_type = *bytes_front(&c->peer.held);
	if (c->refused_type != 'Q' && c->refused_type != 'F')
		c->refused_type = 'S';
	pg_build_error(&out, "ERROR", "57014", "canceling statement due to user request", NULL, NULL);
	sent = client_send(c, &out);
	bytes_free(&out);
	if (!sent)
		return;
	peer_read_on(&c->peer);
	peer_come_again(&c->peer);
}

/* ---- server to client ---- */

static void client_ready(struct server *s, struct client *c)
{
	struct world *w = s->peer.world;
	struct stats *total = &c->policy.pool->database->stats.total;

	total->query_count++;
	if (c->query_started != 0)
		total->query_time += (uint64_t)(w->now - c->query_started);
	/* nothing asked for is unanswered: not the same as an empty ledger, which knows doubts after a COPY */
	c->query_started = ledger_depth(&s->ledger) == 0 ? 0 : w->now;
	c->in_transaction = s->status != 'I';
	c->last_active = w->now;
	if (s->policy.cancels > 0 && c->query_started == 0)
		cancel_query_over(s);
	if (s->status == 'I') {
		total->xact_count++;
		if (c->transaction_started != 0)
			total->xact_time += (uint64_t)(w->now - c->transaction_started);
		c->transaction_started = c->query_started;
	}
}

/* A message of a server that looks after itself: ReadyForQuery, ParameterStatus. False: it makes no sense. */
static bool server_whole(struct server *s, const struct pg_frame *f, enum ledger_owner owner)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->size);

	if (f->type == 'Z') {
		s->status = (char)pg_read_u8(&body);
		return f->size == 1 && (s->status == 'I' || s->status == 'T' || s->status == 'E');
	}
	if (f->type == 'S') {
		const char *name = pg_read_string(&body), *value = pg_read_string(&body);

		if (body.bad || body.at != body.end)
			return false;
		server_parameter(s, name, value, owner == OWED_TO_CLIENT);
	}
	return true;
}

/* The severity of an ErrorResponse decides what the end of the connection behind it means. Field by field: the
   text of an error is anybody's, and may have these words in it. */
static bool says_fatal(const uint8_t *at, size_t n)
{
	const uint8_t *end;
	bool fatal = false;

	for (; n > 1 && (end = memchr(at, 0, n)) != NULL; n -= (size_t)(end + 1 - at), at = end + 1) {
		if (*at != 'S' && *at != 'V')
			continue;
		fatal = strcmp((const char *)at + 1, "FATAL") == 0 || strcmp((const char *)at + 1, "PANIC") == 0;
		if (*at == 'V')
			break;		/* not translated: the last word */
	}
	return fatal;
}

static void look_at_error(struct server *s, const struct pg_frame *f)
{
	s->said_fatal = says_fatal(f->body, f->here < ERROR_LOOK ? f->here : ERROR_LOOK);
}

enum answer { ANSWER_RELAY, ANSWER_DROP, ANSWER_BROKEN, ANSWER_LAST_WORDS };

static void log_task_error(const struct server *s, const struct pg_frame *f)
{
	static const char *const queries[] = {
		[TASK_CONNECT_QUERY] = "connect_query", [TASK_RESET] = "server_reset_query", [TASK_CHECK] = "server_check_query",
		[TASK_PARAMS] = "setting the client's parameters", [TASK_SETTLE] = "an empty query",
	};
	struct pg_error e;
	char who[256];

	/* of one that has not come as a whole nothing is known */
	pg_error_read(f->body, f->here, &e);
	log_warning("%s %s failed: %s %s", server_text(s, who, sizeof(who)), queries[s->task], *e.severity ? e.severity : "ERROR",
		    e.message);
}

/* What the pooler's own query gives: swallowed, except for what it means. */
static enum answer swallowed(struct server *s, const struct pg_frame *f)
{
	if (f->type == 'E') {
		if (s->task != TASK_NONE)
			log_task_error(s, f);
		s->task_failed = true;
		/* the end of the server is the client's business, whatever it was busy with */
		if (s->said_fatal && s->policy.link)
			return ANSWER_RELAY;
	}
	if (f->type != 'Z')
		return ANSWER_DROP;
	if (s->task == TASK_NONE)
		return ANSWER_BROKEN;
	s->task_answered = true;
	return ANSWER_DROP;
}

/* While a doubt is being settled: a ReadyForQuery that answers a Sync of the client's, not our query. */
static bool is_surplus(const struct server *s, const struct pg_frame *f)
{
	return s->task == TASK_SETTLE && f->type == 'Z' && !ledger_is_empty(&s->ledger);
}

/* The rule of statement mode is broken as soon as a statement leaves a transaction open. */
static bool breaks_statement_mode(const struct server *s)
{
	return s->policy.link && s->status != 'I' && s->task == TASK_NONE && ledger_is_empty(&s->ledger) &&
	       pool_mode_of(s->policy.pool) == MODE_STATEMENT && !client_of(s->policy.link)->replication;
}

/* Its client has had every answer and would have let it go: what the server says now does not concern the client. */
static bool is_between_transactions(const struct server *s, const struct client *c)
{
	return ledger_is_empty(&s->ledger) && s->status == 'I' && s->task == TASK_NONE && !c->replication &&
	       pool_mode_of(s->policy.pool) != MODE_SESSION && (c->peer.passing == 0 || c->peer.passing_dropped);
}

static enum answer server_frame(struct server *s, const struct pg_frame *f, bool whole)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;
	enum ledger_owner owner = OWED_TO_CLIENT;
	enum ledger_verdict verdict = ledger_received(&s->ledger, f->type, &owner);

	if (verdict == LEDGER_BROKEN)
		return ANSWER_BROKEN;
	if (f->type == 'E')
		look_at_error(s, f);
	if (whole && !server_whole(s, f, owner))
		return ANSWER_BROKEN;
	if (verdict == LEDGER_ANSWER && owner == OWED_TO_POOLER && !is_surplus(s, f))
		return swallowed(s, f);
	if (verdict == LEDGER_ASYNC) {
		if (f->type == 'E' && (!c || is_between_transactions(s, c)))
			return ANSWER_LAST_WORDS;
		/* what the pooler's own SET makes the server report is told the client at the end of it; its notices are nobody's */
		return c && (f->type == 'A' || owner != OWED_TO_POOLER) ? ANSWER_RELAY : ANSWER_DROP;
	}
	if (!c)
		return ANSWER_BROKEN;
	if (f->type != 'Z')
		return ANSWER_RELAY;
	client_ready(s, c);
	/* the refusal stands in its place, so that it is the answer to the statement that broke the rule */
	return breaks_statement_mode(s) ? ANSWER_DROP : ANSWER_RELAY;
}

/* Looks at the frame at the front. PG_OK: *answer says what becomes of it. */
static enum pg_verdict look_at_server_frame(struct server *s, const uint8_t *at, size_t n, struct pg_frame *f, enum answer *answer)
{
	enum pg_verdict verdict = pg_frame_look(at, n, INT32_MAX, f);
	const struct pg_message *row;

	if (verdict != PG_OK)
		return verdict;
	row = pg_server_message(f->type);
	if (!row || (row->whole && f->size > WHOLE_MOST))
		return PG_BAD;
	if (row->whole && !pg_frame_is_whole(f))
		return PG_MORE;
	if (f->type == 'E' && f->here < f->size && f->here < ERROR_LOOK)
		return PG_MORE;
	*answer = server_frame(s, f, row->whole);
	return *answer == ANSWER_BROKEN ? PG_BAD : PG_OK;
}

/* The client of a server that has gone between two of its transactions. */
static void go_on_without(struct client *c)
{
	c->peer.waits_for_room = false;
	peer_read_on(&c->peer);
	peer_come_again(&c->peer);
}

static bool walk_server(struct server *s, const uint8_t *buf, size_t n, size_t *used)
{
	struct gather g = { .count = 0 };
	enum pg_verdict verdict = PG_OK;
	enum answer answer = ANSWER_RELAY;
	struct pg_frame f;
	size_t at = 0;

	if (s->policy.link)
		g.to = &client_of(s->policy.link)->peer.stream;
	while (at < n && answer != ANSWER_LAST_WORDS) {
		if (s->peer.passing > 0) {
			at += pass(&s->peer, &g, buf + at, n - at);
			continue;
		}
		verdict = look_at_server_frame(s, buf + at, n - at, &f, &answer);
		if (verdict != PG_OK)
			break;
		begin_frame(&s->peer, &f, answer != ANSWER_RELAY);
	}
	*used = at;
	/* whatever ends the connection now comes behind what was received before */
	gather_flush(&g);
	s->policy.pool->database->stats.total.sent += g.bytes;
	if (verdict == PG_BAD) {
		server_end(s, s->policy.link ? GOODBYE_SERVER_BROKEN : GOODBYE_IDLE_DIRTY, NULL);
		return false;
	}
	if (answer == ANSWER_LAST_WORDS) {
		struct client *spared = s->policy.link ? client_of(s->policy.link) : NULL;

		server_end_with_words(s, GOODBYE_SERVER_CRASHED, f.body, f.here);
		if (spared && g.broken)
			client_end(spared, GOODBYE_CLIENT_EOF, NULL);
		else if (spared)
			go_on_without(spared);
		return false;
	}
	if (g.broken && s->policy.link) {
		client_end(client_of(s->policy.link), GOODBYE_CLIENT_EOF, NULL);
		return s->policy.state != SERVER_DEAD;
	}
	return true;
}

/* After a walk: what the bytes meant. False: no more now. */
static bool server_may_go_on(struct server *s)
{
	struct client *c;

	if (s->task_answered) {
		s->task_answered = false;
		server_task_over(s);
		if (s->policy.state == SERVER_DEAD)
			return false;
	}
	if (!s->policy.link)
		return true;
	c = client_of(s->policy.link);
	if (breaks_statement_mode(s)) {
		client_end(c, GOODBYE_STATEMENT_MODE, NULL);
		return false;
	}
	if (c->peer.waits_for_room && stream_unsent(&s->peer.stream) == 0 && ledger_depth(&s->ledger) < RELAY_DEEPEST / 2) {
		c->peer.waits_for_room = false;
		peer_read_on(&c->peer);
		peer_come_again(&c->peer);
	}
	if (stream_unsent(&c->peer.stream) > 0) {
		s->peer.waits_for_room = true;
		stream_set_reading(&s->peer.stream, false);
		link_end_if_over(s);
		return false;
	}
	link_end_if_over(s);
	return s->policy.state != SERVER_DEAD;
}

void relay_from_server(struct server *s, bool from_socket)
{
	struct world *w = s->peer.world;
	int64_t loops = w->conf->settings.sbuf_loopcnt;

	for (int64_t i = 0; loops == 0 || i < loops; i++) {
		size_t held = unhold(&s->peer), n = held, used = 0;
		size_t room = RELAY_BUFFER - held;
		ssize_t r = 0;

		if (from_socket) {
			r = stream_read(&s->peer.stream, w->buffer + held, room);
			if (r < 0) {
				server_end(s, GOODBYE_SERVER_CRASHED, NULL);
				return;
			}
			n += (size_t)r;
		}
		if (n == 0)
			return;
		if (!walk_server(s, w->buffer, n, &used))
			return;
		if (!hold(&s->peer, w->buffer + used, n - used)) {
			server_end(s, GOODBYE_NO_MEMORY, NULL);
			return;
		}
		if (!server_may_go_on(s) || !from_socket)
			return;
		if ((size_t)r < room && !stream_has_buffered(&s->peer.stream))
			return;
	}
	if (stream_has_buffered(&s->peer.stream))
		peer_come_again(&s->peer);
}
