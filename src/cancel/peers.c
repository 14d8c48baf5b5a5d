/*
 * Cancel requests for other poolers of the group ([peers], peer_id).
 *
 * Several poolers may listen on one port (so_reuseport), and a CancelRequest arrives on a separate
 * connection, so it may reach another process than the client's. With peer_id set, a client's key
 * contains the id of the process that made it and the number of hops left (PEER_KEY_HOPS).
 *
 * If a process does not know the key, it forwards the request to that peer, with one hop less.
 * Example: processes 1 and 2 share port 6432. The key of a client of 1 contains the id 1; its
 * CancelRequest reaches 2, which forwards it to 1. If the peer is unknown or no hop is left, the
 * request ends. The peer closes the connection when it is done, and only then is the canceller's
 * connection closed. When a canceller shuts down its sending side, it is kept: it may wait to see
 * the end of the request. All addresses of a peer's name are tried in turn until one accepts the
 * connection. Each attempt gets an equal part of the rest of cancel_wait_timeout. After that the
 * request is in progress and is not sent again.
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
#include "cancel/cancel_inside.h"

#include "auth/client_address.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/build.h"
#include "verify/queue.h"

#include <string.h>

/* the limit of the smallest peer's queue, because a stopping application cancels all its queries at
   once */
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

/* A request to a peer, waiting or in progress. */
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

static void line_free(struct cancels *all, struct peer_line *line)
{
	ASSERT(line->waiting.waiting == 0 && list_is_empty(&line->begun));
	HASH_DEL(all->lines, line);
	mem_free(line);
}

void peers_free(struct cancels *all)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, all->lines, line, next)
		line_free(all, line);
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

void peers_go_on(struct client *canceller)
{
	const struct peer_call *call = canceller->cancel_request->call;

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

bool peers_forward(struct client *canceller, const struct pg_startup *request)
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
	stream_init(&call->stream);
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
	canceller->cancel_request->call = call;
	pool_client_become(w->pools, &canceller->pooled, CLIENT_WAITING_CANCEL, w->now);
	peers_go_on(canceller);
	return true;
}

void peers_forget(struct client *canceller)
{
	struct peer_call *call = canceller->cancel_request->call;

	if (!call)
		return;
	canceller->cancel_request->call = NULL;
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
	ASSERT(call->line == line && call->canceller->cancel_request->call == call);
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
		calls -= client_of(LIST_OBJECT(node, struct pool_client, node))
				 ->cancel_request->call != NULL;
	ASSERT(calls == 0);
}
