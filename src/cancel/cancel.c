/*
 * Cancel requests ("Canceling Requests in Progress").
 *
 * A CancelRequest names a client by the key that pgweir gave the client: a process id, which pgweir
 * made or which belongs to the client's server (session_link), and a secret of the length that the
 * client's protocol version allows. The pair is unique among the clients. The state of the client
 * decides:
 * - waiting in the queue: its request is refused here, and no server sees it;
 * - linked, and the server owes answers: a separate connection (the carrier) sends the server's key
 *   to the server;
 * - on the console: a waiting command ends;
 * - a client of a peer of the group: the request is forwarded; of a process that was replaced: sent
 *   to that process (predecessors.c);
 * - otherwise there is nothing to cancel.
 *
 * A request must cancel the right query and no other. The server counts the requests for it
 * (pooled.cancels), and is not lent again before their carriers have ended, because PostgreSQL
 * closes the carrier only after it has sent the signal. A request that is still waiting when its
 * query ends is dropped. If the server executes pgweir's own SET, the request waits for the end of
 * the SET. cancel_abandoned() sends a request of pgweir's own.
 *
 * A request cancels whatever its target executes when the request arrives, so a few requests have
 * the same effect as many: at most CANCELS_MOST requests are in progress for one server, and
 * further requests are dropped.
 */
#include "cancel/cancel.h"

#include "auth/client_address.h"
#include "backend/dial.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cancel/predecessors.h"
#include "conn/retry.h"
#include "pg/build.h"
#include "state/server_session.h"
#include "verify/queue.h"

#include <stdio.h>
#include <string.h>

#define CANCELS_MOST 16			/* requests in progress per server */
/* attempts to find a secret that no client with the same process number has */
#define DRAWS_MOST 16

/* the limit of the smallest peer's queue: an application that stops cancels all its queries */
#define LINE_LEAST 100

/* The requests for one peer. */
struct peer_line {
	int id;
	struct verify_queue waiting;
	struct list begun;
	struct peer_count count;
	/* the log has reported that the queue is full; reset when no request waits */
	bool is_logged;
	UT_hash_handle hh;
};

enum call_phase { CALL_WAITS, CALL_CONNECTS, CALL_HANDED_OVER };

/* A request that waits for a peer, or is in progress. */
struct peer_call {
	struct verify_place place;	/* in the queue, while it waits */
	struct list node;		/* in line->begun, after it has begun */
	struct peer_line *line;
	enum call_phase phase;
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
	struct address one, *addresses;	/* addresses to try: &one, or allocated */
	int address_count, next_address;
	usec_t attempt_ends;		/* end of the current attempt to connect; 0: unlimited */
	uint16_t port;
	uint32_t pid;
	size_t key_size;
	uint8_t key[CANCEL_KEY_LONG];
};

/* ---- requests for other poolers of the group ---- */

/*
 * Several poolers may listen on one port (so_reuseport), and a CancelRequest arrives on a separate
 * connection, so it may reach a process that does not know the client. With peer_id set, a client's
 * key contains the id of the process that made it and the number of hops left (PEER_KEY_HOPS).
 *
 * A process that does not know a key forwards it to that peer, with one hop less. If the peer is
 * unknown or no hop is left, the request ends. The peer closes the connection when it is done, and
 * only then is the canceller's connection closed. A canceller that has shut down its sending side
 * is kept: it may wait to see the end of the request. All addresses of a peer's name are tried in
 * turn until one accepts the connection. Each attempt gets an equal part of the rest of
 * cancel_wait_timeout. After that the request is in progress and is not sent again.
 *
 * At most pool_size requests to a peer are in progress at a time. A request needs no login, and its
 * key only has to name a peer, so unauthenticated clients can send any number of them. They do not
 * count as clients, because a full pooler must still cancel. Therefore the queue of each peer is
 * limited, and addresses take turns in it (verify/queue.c). If the queue is full, a request from an
 * address with few requests displaces the newest request of the address with the most; otherwise it
 * is dropped.
 *
 * Invariant: a call belongs to the queue of its peer, and either waits in it or has begun; the
 * counts equal the calls (peers_check). A queue is freed in the next tick after its last call has
 * ended.
 */

static void line_free(struct cancels *all, struct peer_line *line)
{
	ASSERT(line->waiting.waiting == 0 && list_is_empty(&line->begun));
	HASH_DEL(all->lines, line);
	mem_free(line);
}

static int *cancel_count_of(struct peer_call *call)
{
	struct peer_count *count = &call->line->count;

	if (call->phase == CALL_WAITS)
		return &count->queued;
	return call->phase == CALL_CONNECTS ? &count->connecting : &count->handed_over;
}

static void call_leave(struct peer_call *call)
{
	--*cancel_count_of(call);
	verify_queue_remove(&call->line->waiting, &call->place);
	list_remove(&call->node);
	call->line->is_logged &= call->line->count.queued > 0;
}

/* Moves the call to a later phase. */
static void call_become(struct peer_call *call, enum call_phase phase)
{
	ASSERT(phase > call->phase);
	call_leave(call);
	call->phase = phase;
	++*cancel_count_of(call);
	list_append(&call->line->begun, &call->node);
}

/* The number of requests to the peer that may be in progress; 0: unlimited. */
static int64_t size_of(const struct conf *conf, const struct conf_peer *peer)
{
	return peer->pool_size == CONF_UNSET ? conf->settings.default_pool_size : peer->pool_size;
}

static bool has_room(const struct world *w, const struct peer_line *line,
		     const struct conf_peer *peer)
{
	int64_t most = size_of(w->conf, peer);

	return most == 0 || line->count.connecting + line->count.handed_over < most;
}

/* The request could not be forwarded. */
static void cancel_give_up(struct peer_call *call, const char *why)
{
	char who[256];

	log_warning("%s cancel request for a peer: %s",
		    client_text(call->canceller, who, sizeof(who)), why);
	client_end(call->canceller, REASON_CANCEL_UNKNOWN, NULL);
}

static void cancel_connect_to_next(struct peer_call *call, const char *error);

static void on_connected(struct stream *stream, const char *error)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!peer_wake(&call->canceller->peer))
		return;
	if (error) {
		cancel_connect_to_next(call, error);
		return;
	}
	call->attempt_ends = 0;
	call_become(call, CALL_HANDED_OVER);
	pg_build_key(&out, 0, call->pid, call->key, call->key_size);
	sent = !out.failed && stream_write_bytes(stream, out.data, bytes_size(&out));
	bytes_wipe(&out);
	if (!sent)
		cancel_give_up(call, "connection lost");
}

static void on_cancel_readable(struct stream *stream)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	char scrap[64];

	world_wake(call->canceller->peer.world);
	if (stream_read(stream, scrap, sizeof(scrap)) < 0)
		client_end(call->canceller, REASON_CANCEL_DONE, NULL);
}

static void on_cancel_drained(struct stream *stream)
{
	(void)stream;
}

static const struct stream_ops call_ops = { .on_readable = on_cancel_readable,
					    .on_drained = on_cancel_drained,
					    .on_connected = on_connected };

/* `error`: of the previous address. */
static void cancel_connect_to_next(struct peer_call *call, const char *error)
{
	struct world *w = call->canceller->peer.world;
	usec_t limit = w->conf->settings.cancel_wait_timeout,
	       left = call->canceller->pooled.since + limit - w->now;

	stream_close(&call->stream);
	while (call->next_address < call->address_count) {
		const struct address *a = &call->addresses[call->next_address++];
		int others = call->address_count - call->next_address;

		call->attempt_ends = limit > 0 && others > 0 ? w->now + left / (others + 1) : 0;
		if (stream_connect(&call->stream, w->base, &a->u.any, a->size, NULL, &call_ops))
			return;
		error = "connect failed";
	}
	cancel_give_up(call, error);
}

static void cancel_resolved(void *context, const struct dns_answer *answer)
{
	struct peer_call *call = context;

	call->request = NULL;
	if (!peer_wake(&call->canceller->peer))
		return;
	if (answer->count == 0) {
		cancel_give_up(call, "its name does not resolve");
		return;
	}
	call->addresses = dns_answer_copy(answer, call->port);
	if (!call->addresses) {
		cancel_give_up(call, "out of memory");
		return;
	}
	call->address_count = answer->count;
	cancel_connect_to_next(call, "connect failed");
}

static const struct conf_peer *find_peer(const struct conf *conf, int id)
{
	for (size_t i = 0; i < conf->peer_count; i++)
		if (conf->peers[i]->id == id)
			return conf->peers[i];
	return NULL;
}

/* Begins requests while there is room. */
static void line_go_on(const struct world *w, struct peer_line *line)
{
	const struct conf_peer *peer = find_peer(w->conf, line->id);
	bool is_unix = peer && (*peer->host == '/' || *peer->host == '@');
	struct verify_place *place;

	while ((!peer || has_room(w, line, peer)) &&
	       (place = verify_queue_next(&line->waiting, NULL)) != NULL) {
		struct peer_call *call = LIST_OBJECT(place, struct peer_call, place);

		if (peer_is_stopped(&call->canceller->peer))
			continue;
		if (!peer) {
			cancel_give_up(call, "a RELOAD has taken it away");
			continue;
		}
		call->port = (uint16_t)peer->port;
		call_become(call, CALL_CONNECTS);
		if (is_unix ? address_from_unix(&call->one, peer->host, call->port)
			    : address_from_ip(&call->one, peer->host, call->port)) {
			call->addresses = &call->one;
			call->address_count = 1;
			cancel_connect_to_next(call, "connect failed");
			continue;
		}
		call->request = is_unix ? NULL
					: dns_lookup(w->dns, peer->host, cancel_resolved, call);
		if (!call->request)
			cancel_give_up(call, "it has no address");
	}
}

/* Begins the request of a canceller if it waits in the queue and there is room. The canceller may
   end. */
static void peers_go_on(struct client *canceller)
{
	const struct peer_call *call = canceller->peer_call;

	if (call && call->phase == CALL_WAITS)
		line_go_on(canceller->peer.world, call->line);
}

/* Makes room in the queue of the peer for a request of the canceller. False: the queue is full;
   logged once until it is empty again, so that a client cannot flood the log. */
static bool cancel_make_room(const struct world *w, struct peer_line *line,
			     const struct conf_peer *peer, const struct client *canceller)
{
	const struct verify_source source = client_address_source(canceller);
	int64_t most = 2 * size_of(w->conf, peer);
	struct verify_place *place;

	if (has_room(w, line, peer) ||
	    line->waiting.waiting < (most > LINE_LEAST ? most : LINE_LEAST))
		return true;
	place = verify_queue_displace(&line->waiting, &source);
	if (place) {
		client_end(LIST_OBJECT(place, struct peer_call, place)->canceller,
			   REASON_CANCEL_CROWD, NULL);
		return true;
	}
	if (!line->is_logged)
		log_warning("peer %d: %d cancel requests wait for it already, others are dropped",
			    line->id, line->count.queued);
	line->is_logged = true;
	return false;
}

/* Returns the queue of the peer; creates it if necessary. NULL: no memory. */
static struct peer_line *line_get(struct cancels *all, int id)
{
	struct peer_line *line;

	HASH_FIND_INT(all->lines, &id, line);
	if (line || !(line = mem_try(sizeof(*line))))
		return line;
	line->id = id;
	verify_queue_init(&line->waiting);
	list_init(&line->begun);
	HASH_ADD_INT(all->lines, id, line);
	if (HASH_HAS(hh, line))
		return line;
	mem_free(line);
	return NULL;
}

/* Forwards a CancelRequest with an unknown key to the peer that made the key. The canceller is in
   WAITING_CANCEL afterwards, or has ended, for example if the queue of the peer is full. False: the
   key names no known peer, has no hops left, or no memory. */
static bool peers_forward(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	const struct verify_source source = client_address_source(canceller);
	const uint8_t *key = request->cancel_key;
	const struct conf_peer *peer;
	struct peer_line *line;
	struct peer_call *call;
	int id;

	if (w->conf->settings.peer_id == 0 ||
	    (request->cancel_key_size != CANCEL_KEY &&
	     request->cancel_key_size != CANCEL_KEY_LONG) ||
	    !(key[1] & PEER_KEY_HOPS))
		return false;
	id = key[0] << 6 | key[1] >> 2;
	peer = id == w->conf->settings.peer_id ? NULL : find_peer(w->conf, id);
	line = peer ? line_get(w->cancels, id) : NULL;
	if (!line)
		return false;
	if (!cancel_make_room(w, line, peer, canceller)) {
		client_end(canceller, REASON_CANCEL_CROWD, NULL);
		return true;
	}
	call = mem_try(sizeof(*call));
	if (!call)
		return false;
	call->stream.fd = -1;
	call->canceller = canceller;
	call->line = line;
	call->pid = request->cancel_pid;
	call->key_size = request->cancel_key_size;
	memcpy(call->key, key, call->key_size);
	/* one hop less */
	call->key[1]--;
	verify_place_init(&call->place);
	list_init(&call->node);
	if (!verify_queue_add(&line->waiting, &call->place, &source)) {
		mem_free(call);
		return false;
	}
	line->count.queued++;
	canceller->peer_call = call;
	pool_client_become(w->pools, &canceller->pooled, CLIENT_WAITING_CANCEL, w->now);
	peers_go_on(canceller);
	return true;
}

static void peers_forget(struct client *canceller)
{
	struct peer_call *call = canceller->peer_call;

	if (!call)
		return;
	canceller->peer_call = NULL;
	call_leave(call);
	line_go_on(canceller->peer.world, call->line);
	if (call->request)
		dns_cancel(&call->request);
	if (call->addresses != &call->one)
		mem_free(call->addresses);
	stream_close(&call->stream);
	mem_wipe(call, sizeof(*call));
	mem_free(call);
}

void peers_tick(struct world *w)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, w->cancels->lines, line, next) {
		LIST_EACH_SAFE(node, &line->begun) {
			struct peer_call *call = LIST_OBJECT(node, struct peer_call, node);

			if (call->attempt_ends > 0 && w->now >= call->attempt_ends)
				cancel_connect_to_next(call, "no answer in time");
		}
		/* there may be room, for example after a RELOAD with a higher limit */
		line_go_on(w, line);
		if (line->count.queued == 0 && list_is_empty(&line->begun))
			line_free(w->cancels, line);
	}
}

struct peer_count peers_count(const struct cancels *all, int id)
{
	const struct peer_line *line;

	HASH_FIND_INT(all->lines, &id, line);
	return line ? line->count : (struct peer_count){ 0, 0, 0 };
}

static void check_call(const struct peer_call *call, const struct peer_line *line,
		       struct peer_count *left)
{
	ASSERT(call->line == line && call->canceller->peer_call == call);
	ASSERT(call->canceller->pooled.state == CLIENT_WAITING_CANCEL &&
	       !call->canceller->pooled.pool);
	ASSERT((call->phase == CALL_HANDED_OVER) == (call->stream.phase == STREAM_OPEN));
	left->queued -= call->phase == CALL_WAITS;
	left->connecting -= call->phase == CALL_CONNECTS;
	left->handed_over -= call->phase == CALL_HANDED_OVER;
}

static void check_waiting(void *context, struct verify_place *place)
{
	struct peer_count *left = context;
	const struct peer_call *call = LIST_OBJECT(place, struct peer_call, place);

	ASSERT(call->phase == CALL_WAITS);
	check_call(call, call->line, left);
}

void peers_check(const struct world *w)
{
	int calls = 0;

	for (const struct peer_line *line = w->cancels->lines; line; line = line->hh.next) {
		struct peer_count left = line->count;

		verify_queue_each(&line->waiting, check_waiting, &left);
		LIST_EACH(node, &line->begun)
			check_call(LIST_OBJECT(node, struct peer_call, node), line, &left);
		ASSERT(left.queued == 0 && left.connecting == 0 && left.handed_over == 0);
		calls += line->count.queued + line->count.connecting + line->count.handed_over;
	}
	LIST_EACH(node, &w->pools->unauthenticated[CLIENT_WAITING_CANCEL])
		calls -= client_of(LIST_OBJECT(node, struct pool_client, node))->peer_call != NULL;
	ASSERT(calls == 0);
}

/* ---- keys ---- */

void cancels_free(struct cancels **place)
{
	struct cancels *all = *place;
	struct peer_line *line, *next;

	if (!all)
		return;
	ASSERT(!all->by_pid && list_is_empty(&all->predecessors));
	HASH_ITER(hh, all->lines, line, next)
		line_free(all, line);
	mem_free(all);
	*place = NULL;
}

/* With session_link = login a server chooses the process number; a keyed hash prevents that it
   chooses the bucket. */
static bool cancel_enlist(struct client *c)
{
	HASH_ADD(by_cancel_pid, c->peer.world->cancels->by_pid, cancel_pid, sizeof(c->cancel_pid),
		 c);
	c->has_cancel_key = HASH_HAS(by_cancel_pid, c);
	return c->has_cancel_key;
}

/* Returns the first client with this process number; the others follow in its bucket. NULL: no such
   client. */
static struct client *cancel_first_of(const struct cancels *all, uint32_t pid)
{
	struct client *found;

	HASH_FIND(by_cancel_pid, all->by_pid, &pid, sizeof(pid), found);
	return found;
}

struct client *cancel_find(const struct world *w, uint32_t pid, const uint8_t *key, size_t size)
{
	uint8_t own[CANCEL_KEY_LONG], asked[CANCEL_KEY_LONG];

	for (struct client *c = cancel_first_of(w->cancels, pid); c;
	     c = HASH_NEXT_IN_BUCKET(by_cancel_pid, c)) {
		if (c->cancel_pid != pid || c->cancel_key_size != size)
			continue;
		memcpy(own, c->cancel_key, size);
		memcpy(asked, key, size);
		/* the number of hops is not a part of the secret */
		if (w->conf->settings.peer_id != 0) {
			own[1] |= PEER_KEY_HOPS;
			asked[1] |= PEER_KEY_HOPS;
		}
		if (mem_equal_constant_time(own, asked, size))
			return c;
	}
	return NULL;
}

struct client *cancel_find_pid(const struct world *w, uint32_t pid)
{
	return cancel_first_of(w->cancels, pid);
}

/* Draws a process number that no other client has. Other clients are not told this number
   (state/server_session.c). */
static bool draw_pid(struct client *c)
{
	struct world *w = c->peer.world;

	do {
		uint32_t random;

		if (!randomness_draw(&w->randomness, &random, sizeof(random)))
			return false;
		c->cancel_pid = random & INT32_MAX;
	} while (c->cancel_pid <= SERVER_PID_MOST || cancel_first_of(w->cancels, c->cancel_pid));
	return true;
}

/* `pid` may be a server's process number; servers on different machines may have the same. Such a
   number is not secret, and with peer_id the rest of a short key has 16 random bits, which can be
   guessed in seconds. */
bool cancel_make_key(struct client *c, uint32_t pid)
{
	struct world *w = c->peer.world;
	int64_t peer_id = w->conf->settings.peer_id;
	bool is_long = c->minor >= PG_MINOR_LONG_KEYS;
	int draws = 0;

	if (peer_id != 0 && !is_long)
		pid = 0;
	c->cancel_key_size = is_long ? CANCEL_KEY_LONG : CANCEL_KEY;
	do {
		if (++draws > DRAWS_MOST)
			pid = 0;
		c->cancel_pid = pid;
		if ((pid == 0 && !draw_pid(c)) ||
		    !randomness_draw(&w->randomness, c->cancel_key, c->cancel_key_size))
			return false;
		if (peer_id != 0) {
			c->cancel_key[0] = (uint8_t)(peer_id >> 6);
			c->cancel_key[1] = (uint8_t)((peer_id & 0x3f) << 2 | PEER_KEY_HOPS);
		}
	} while (pid != 0 && cancel_find(w, pid, c->cancel_key, c->cancel_key_size));
	return cancel_enlist(c);
}

void cancel_key_pack(struct bytes *out, const struct client *c)
{
	pack_bool(out, c->has_cancel_key);
	bytes_append_u32(out, c->cancel_pid);
	pack_blob(out, c->cancel_key, c->cancel_key_size);
}

void cancel_key_unpack(struct unpack *in, struct client *c)
{
	bool has_key = unpack_bool(in);
	const uint8_t *key;
	size_t size;

	c->cancel_pid = unpack_u32(in);
	key = unpack_blob(in, &size);
	in->bad |= size > sizeof(c->cancel_key) || (has_key && size < CANCEL_KEY);
	if (in->bad || !has_key)
		return;
	memcpy(c->cancel_key, key, size);
	c->cancel_key_size = (uint8_t)size;
	in->bad |= cancel_find(c->peer.world, c->cancel_pid, key, size) || !cancel_enlist(c);
}

/* ---- requests ---- */

/* Queues the request for a connection. */
static void cancel_queue(struct client *canceller)
{
	struct pool *pool = canceller->cancel_target->pooled.pool;

	pool_client_join(&canceller->pooled, pool, NULL);
	pool_mark(pool);
}

/* Whether the server executes something for its client. */
static bool works_for_client(const struct server *s)
{
	return s->task ? s->task->serves_client : !ledger_is_empty(&s->ledger);
}

void cancel_refuse_waiting(struct client *c)
{
	struct bytes out = BYTES_EMPTY;

	if (c->pooled.state != CLIENT_WAITING)
		return;
	ASSERT(bytes_size(&c->peer.held) >= PG_HEADER);
	pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_IDLE, c->peer.world->now);
	c->pooled.is_held = false;
	if (c->retry && c->retry->step == AUTO_DOUBTED)
		c->retry->step = AUTO_NOT;
	/* the BEGIN that reads.c holds back has begun a transaction for the client */
	if (c->reads & READING_BEGIN) {
		c->reads = (uint8_t)((c->reads & (READING_SESSION | READING_BEGIN)) |
				     READING_FAILED);
	} else {
		c->reads &= READING_SESSION;
		c->in_transaction = false;
		c->transaction_started = 0;
	}
	/* in the extended protocol up to the Sync */
	c->refused_until = *bytes_front(&c->peer.held);
	if (c->refused_until != PGC_QUERY && c->refused_until != PGC_CALL)
		c->refused_until = PGC_SYNC;
	pg_build_report(&out, 'E', "ERROR", "57014", "canceling statement due to user request",
			NULL, NULL);
	client_send(c, &out);
	bytes_free(&out);
	flow_unblock(&c->peer, FLOW_HELD);
}

void cancel_request(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	struct client *target = cancel_find(w, request->cancel_pid, request->cancel_key,
					    request->cancel_key_size);
	bool is_cancelled;
	struct server *s;

	client_address_leave(canceller);
	if (!target || peer_is_stopped(&target->peer)) {
		if (!peers_forward(canceller, request) && !predecessors_forward(canceller, request))
			client_end(canceller, REASON_CANCEL_UNKNOWN, NULL);
		return;
	}
	if (target->is_console) {
		is_cancelled = w->console.ops && w->console.ops->cancel(w->console.context, target);
		client_end(canceller, is_cancelled ? REASON_CANCEL_DONE : REASON_CANCEL_IDLE, NULL);
		return;
	}
	if (target->pooled.state == CLIENT_WAITING) {
		peer_post(&target->peer, POST_REFUSE);
		client_end(canceller, REASON_CANCEL_DONE, NULL);
		return;
	}
	s = target->pooled.link ? server_of(target->pooled.link) : NULL;
	if (!s || !s->cancel_key || !((s->task && s->task->is_cancelable) || works_for_client(s))) {
		client_end(canceller, REASON_CANCEL_IDLE, NULL);
		return;
	}
	if (s->pooled.cancels >= CANCELS_MOST) {
		client_end(canceller, REASON_CANCEL_CROWD, NULL);
		return;
	}
	pool_client_become(w->pools, &canceller->pooled, CLIENT_WAITING_CANCEL, w->now);
	canceller->cancel_target = s;
	s->pooled.cancels++;
	if (target->retry)
		target->retry->is_canceled = true;
	if (works_for_client(s))
		cancel_queue(canceller);
}

void cancel_read(struct client *canceller)
{
	char scrap[512];
	ssize_t r;

	peers_go_on(canceller);
	r = stream_read(&canceller->peer.stream, scrap, sizeof(scrap));
	/* the request is valid even if the client does not wait for its result */
	if (r < 0)
		flow_block(&canceller->peer, FLOW_EOF);
}

static void connected(struct server *carrier)
{
	struct client *canceller = carrier->carries_for;
	struct server *target = canceller ? canceller->cancel_target : carrier->own_cancel;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!target) {
		server_end(carrier, REASON_CANCEL_GIVEN_UP, NULL);
		return;
	}
	pool_server_become(&carrier->pooled, SERVER_ACTIVE_CANCEL, carrier->peer.world->now);
	pg_build_key(&out, 0, target->backend_pid, target->cancel_key, target->cancel_key_size);
	sent = !out.failed && stream_write_bytes(&carrier->peer.stream, out.data, bytes_size(&out));
	bytes_wipe(&out);
	if (!sent)
		server_end(carrier, REASON_SERVER_CRASHED, NULL);
}

void cancel_dial(struct pool *pool, struct pool_client *request)
{
	struct client *canceller = client_of(request);
	struct world *w = pool->pools->owner;
	struct server *carrier = dial_for_cancel(canceller->cancel_target, connected);

	/* the time until the carrier is connected counts for cancel_wait_timeout */
	pool_client_become(w->pools, &canceller->pooled, CLIENT_ACTIVE_CANCEL,
			   canceller->pooled.since);
	if (!carrier) {
		client_end(canceller, REASON_CANCEL_FAILED, NULL);
		return;
	}
	canceller->cancel_carrier = carrier;
	carrier->carries_for = canceller;
}

bool cancel_abandoned(struct server *target)
{
	struct pool *pool = target->pooled.pool;
	int64_t size = pool->allowed.size;
	struct server *carrier;

	/* the limit of schedule_pool() */
	if (!target->cancel_key || target->pooled.cancels > 0 ||
	    (size > 0 && pool->apart_logins + pool->server_count[SERVER_ACTIVE_CANCEL] >= 2 * size))
		return false;
	carrier = dial_for_cancel(target, connected);
	if (!carrier)
		return false;
	carrier->own_cancel = target;
	target->own_cancel = carrier;
	target->pooled.cancels++;
	return true;
}

/* The last cancel request for the target has ended, and the target may wait for that. */
static void go_on_uncanceled(struct server *target)
{
	if (target->pooled.cancels > 0)
		return;
	if (target->pooled.state == SERVER_BEING_CANCELED)
		server_release(target);
	else if (target->pooled.state == SERVER_FINISHING)
		peer_come_again(&target->peer);
}

void cancel_release_waiting(struct client *target)
{
	struct server *s = target->pooled.link ? server_of(target->pooled.link) : NULL;
	struct list *waiting = &target->peer.world->pools->unauthenticated[CLIENT_WAITING_CANCEL];

	if (!s || s->pooled.cancels == 0)
		return;
	LIST_EACH_SAFE(node, waiting) {
		struct client *canceller = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (canceller->cancel_target == s)
			cancel_queue(canceller);
	}
}

static void disown(struct client *canceller)
{
	ASSERT(canceller->cancel_target->pooled.cancels > 0);
	canceller->cancel_target->pooled.cancels--;
	canceller->cancel_target = NULL;
}

/* Removes the references of these requests to the target, and ends the requests if they have no
   connection to it yet. */
static void disown_all(struct list *cancellers, const struct server *target, bool has_no_carrier)
{
	LIST_EACH_SAFE(node, cancellers) {
		struct client *canceller = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (canceller->cancel_target != target)
			continue;
		disown(canceller);
		if (has_no_carrier)
			client_end(canceller, REASON_CANCEL_IDLE, NULL);
	}
}

void cancel_query_over(struct server *target)
{
	if (target->pooled.cancels == 0)
		return;
	disown_all(&target->pooled.pool->clients[CLIENT_WAITING_CANCEL], target, true);
	disown_all(&target->peer.world->pools->unauthenticated[CLIENT_WAITING_CANCEL], target,
		   true);
}

/* Whether the request was sent over this connection, which may have ended since. */
static bool has_sent(const struct server *carrier)
{
	return (peer_is_ending(&carrier->peer) ? carrier->peer.ended_in : carrier->pooled.state) ==
	       SERVER_ACTIVE_CANCEL;
}

void cancel_forget_client(struct client *c)
{
	struct world *w = c->peer.world;
	struct server *carrier = c->cancel_carrier, *target = c->cancel_target;

	peers_forget(c);
	if (c->has_cancel_key) {
		HASH_DELETE(by_cancel_pid, w->cancels->by_pid, c);
		c->has_cancel_key = false;
	}
	c->cancel_carrier = NULL;
	if (carrier) {
		carrier->carries_for = NULL;
		server_end(carrier, has_sent(carrier) ? REASON_CANCEL_SENT : REASON_CANCEL_GIVEN_UP,
			   NULL);
	}
	if (!target)
		return;
	disown(c);
	go_on_uncanceled(target);
}

void cancel_forget_server(struct server *s)
{
	struct client *canceller = s->carries_for;

	s->carries_for = NULL;
	if (canceller) {
		canceller->cancel_carrier = NULL;
		client_end(canceller, has_sent(s) ? REASON_CANCEL_DONE : REASON_CANCEL_FAILED,
			   NULL);
	}
	if (s->own_cancel) {
		struct server *target = s->pooled.is_cancel ? s->own_cancel : s;

		s->own_cancel->own_cancel = NULL;
		s->own_cancel = NULL;
		target->pooled.cancels--;
		if (target != s)
			go_on_uncanceled(target);
	}
	if (s->pooled.cancels == 0)
		return;
	/* the server ends and is not released, so the requests must not release it when they end */
	disown_all(&s->pooled.pool->clients[CLIENT_ACTIVE_CANCEL], s, false);
	disown_all(&s->pooled.pool->clients[CLIENT_WAITING_CANCEL], s, true);
	disown_all(&s->peer.world->pools->unauthenticated[CLIENT_WAITING_CANCEL], s, true);
	/* requests that end in the same reap refer to the target until then */
	LIST_EACH(node, &s->peer.world->peers.ending) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);
		struct client *c = LIST_OBJECT(peer, struct client, peer);

		if (peer->is_client && c->cancel_target == s)
			disown(c);
	}
	ASSERT(s->pooled.cancels == 0);
}
