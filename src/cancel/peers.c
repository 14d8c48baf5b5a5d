/*
 * Cancel requests that arrive at the wrong process of a group.
 *
 * Several poolers may listen on one port (so_reuseport), and a CancelRequest comes on a connection of its own, so it
 * may reach a process that has never seen the client. With peer_id set, a client's key names the process that made it (peer_key.c).
 *
 * A process that does not know a key hands it to the peer it names, with one hop less; where the peer is not known, or no hop is
 * left, the request ends. The other end closes the connection when it is done, and only then does the canceller hear so.
 *
 * At most pool_size requests are on their way to a peer at a time; the others wait for one of them to end. A request needs no login, and its
 * key only has to name a peer, so unauthenticated clients can make as many as they like. They are not counted as clients (a pooler that is full
 * must still cancel), hence the line of each peer has an end of its own, and addresses take turns in it (verify/queue.c). When it is full, a
 * request of an address that has few in it displaces the youngest of the address with most, and is dropped otherwise. A canceller that has left still holds its place and its descriptor: it may only have
 * closed its own direction, and then it waits to hear that the request has been carried out.
 *
 * Invariant: a call is in the line of its peer, waits in its queue or has begun, and the counts of the line are those of its calls
 * (peers_check). A line stays until the next tick after its last call.
 *
 * All addresses of a peer's name are tried in turn, each for an equal part of what is left of cancel_wait_timeout, until one can
 * be connected to. From there on the request is on its way, and is not sent a second time.
 */
#include "cancel/peers.h"

#include "auth/auth.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "cancel/peer_key.h"
#include "pg/build.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LINE_LEAST 100			/* so many may wait for the smallest peer: an application that stops cancels all it has */

/* The requests for one peer. */
struct peer_line {
	int id;
	struct verify_queue waiting;
	struct list begun;
	struct peer_count count;
	bool is_told;			/* the log has it that the line is full; until none waits */
	UT_hash_handle hh;
};

enum call_phase { CALL_WAITS, CALL_CONNECTS, CALL_HANDED_OVER };

/* A request on its way to a peer, or that waits to be. */
struct peer_call {
	struct verify_place place;	/* in its line, while it waits */
	struct list node;		/* in its line, when it has begun */
	struct peer_line *line;
	enum call_phase phase;
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
	struct address one, *addresses;	/* to be tried; they are &one, or owned */
	int address_count, next_address;
	usec_t way_ends;		/* the one that is being tried has time until then; 0: as long as there is any */
	uint16_t port;
	uint32_t pid;
	size_t key_size;
	uint8_t key[CANCEL_KEY_LONG];
};

/* ---- lines ---- */

static struct peer_line *line_find(const struct cancels *all, int id)
{
	struct peer_line *line;

	HASH_FIND_INT(all->lines, &id, line);
	return line;
}

/* NULL: no memory. */
static struct peer_line *line_get(struct cancels *all, int id)
{
	struct peer_line *line = line_find(all, id);

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

static bool line_is_empty(const struct peer_line *line)
{
	return line->count.queued == 0 && list_is_empty(&line->begun);
}

static void line_free(struct cancels *all, struct peer_line *line)
{
	HASH_DEL(all->lines, line);
	mem_free(line);
}

static int *count_of(struct peer_call *call)
{
	struct peer_count *count = &call->line->count;

	switch (call->phase) {
	case CALL_WAITS:
		return &count->queued;
	case CALL_CONNECTS:
		return &count->connecting;
	case CALL_HANDED_OVER:
		break;
	}
	return &count->handed_over;
}

/* False: no memory. */
static bool call_join(struct peer_call *call, struct peer_line *line)
{
	const struct verify_source source = auth_verify_source(call->canceller);

	verify_place_init(&call->place);
	list_init(&call->node);
	if (!verify_queue_add(&line->waiting, &call->place, &source))
		return false;
	call->line = line;
	call->phase = CALL_WAITS;
	line->count.queued++;
	return true;
}

static void call_leave(struct peer_call *call)
{
	--*count_of(call);
	verify_queue_remove(&call->line->waiting, &call->place);
	list_remove(&call->node);
	call->line->is_told &= call->line->count.queued > 0;
}

static void call_become(struct peer_call *call, enum call_phase phase)
{
	ASSERT(phase > call->phase);
	call_leave(call);
	call->phase = phase;
	++*count_of(call);
	list_append(&call->line->begun, &call->node);
}

static int64_t size_of(const struct conf *conf, const struct conf_peer *peer)
{
	return peer->pool_size == CONF_UNSET ? conf->settings.default_pool_size : peer->pool_size;
}

static bool has_room(const struct world *w, const struct peer_line *line, const struct conf_peer *peer)
{
	int64_t most = size_of(w->conf, peer);

	return most == 0 || line->count.connecting + line->count.handed_over < most;
}

static struct peer_call *call_at(struct verify_place *place)
{
	return LIST_OBJECT(place, struct peer_call, place);
}

/* The line takes one more of this canceller's address; for that, one of another address may have to go. */
static bool has_place(const struct world *w, struct peer_line *line, const struct conf_peer *peer, const struct client *canceller)
{
	const struct verify_source source = auth_verify_source(canceller);
	int64_t most = 2 * size_of(w->conf, peer);
	struct verify_place *place;

	if (has_room(w, line, peer) || line->waiting.waiting < (most > LINE_LEAST ? most : LINE_LEAST))
		return true;
	place = verify_queue_displace(&line->waiting, &source);
	if (place)
		client_end(call_at(place)->canceller, REASON_CANCEL_CROWD, NULL);
	return place != NULL;
}

static bool any_source(void *context, const struct verify_source *source)
{
	(void)context, (void)source;
	return true;
}

static bool is_open(void *context, struct verify_place *place)
{
	(void)context;
	return !peer_is_stopped(&call_at(place)->canceller->peer);
}

/* The next that waits for others to end, taken out of the queue. NULL: none. */
static struct peer_call *next_in(struct peer_line *line)
{
	static const struct verify_fit fit = { .source = any_source, .place = is_open };
	struct verify_place *place = verify_queue_next_if(&line->waiting, &fit);

	return place ? call_at(place) : NULL;
}

/* ---- calls ---- */

/* The request could not be handed on. */
static void give_up(struct peer_call *call, const char *why)
{
	char who[256];

	log_warning("%s cancel request for a peer: %s", client_text(call->canceller, who, sizeof(who)), why);
	client_end(call->canceller, REASON_CANCEL_UNKNOWN, NULL);
}

static void connect_to_next(struct peer_call *call, const char *error);

static void on_connected(struct stream *stream, const char *error)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	world_wake(call->canceller->peer.world);
	if (peer_is_stopped(&call->canceller->peer))
		return;
	if (error) {
		connect_to_next(call, error);
		return;
	}
	call->way_ends = 0;
	call_become(call, CALL_HANDED_OVER);
	pg_build_cancel(&out, call->pid, call->key, call->key_size);
	sent = !out.failed && stream_write_bytes(stream, out.data, bytes_size(&out));
	bytes_wipe(&out);
	if (!sent)
		give_up(call, "connection lost");
}

static void on_readable(struct stream *stream)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	char scrap[64];

	world_wake(call->canceller->peer.world);
	if (stream_read(stream, scrap, sizeof(scrap)) < 0)
		client_end(call->canceller, REASON_CANCEL_DONE, NULL);
}

static void on_drained(struct stream *stream)
{
	(void)stream;
}

static const struct stream_ops call_ops = { .on_readable = on_readable, .on_drained = on_drained, .on_connected = on_connected };

static void give_time(struct peer_call *call)
{
	const struct world *w = call->canceller->peer.world;
	usec_t limit = w->conf->settings.cancel_wait_timeout, left = call->canceller->policy.since + limit - w->now;
	int others = call->address_count - call->next_address;

	call->way_ends = limit > 0 && others > 0 ? w->now + left / (others + 1) : 0;
}

/* error: of the address before. */
static void connect_to_next(struct peer_call *call, const char *error)
{
	struct world *w = call->canceller->peer.world;

	stream_close(&call->stream);
	while (call->next_address < call->address_count) {
		const struct address *a = &call->addresses[call->next_address++];

		give_time(call);
		if (stream_connect(&call->stream, w->base, &a->u.any, a->size, NULL, &call_ops))
			return;
		error = "connect failed";
	}
	give_up(call, error);
}

static void resolved(void *context, const struct dns_answer *answer)
{
	struct peer_call *call = context;

	world_wake(call->canceller->peer.world);
	call->request = NULL;
	if (peer_is_stopped(&call->canceller->peer))
		return;
	if (answer->count == 0) {
		give_up(call, "its name does not resolve");
		return;
	}
	call->addresses = mem_try((size_t)answer->count * sizeof(*call->addresses));
	if (!call->addresses) {
		give_up(call, "out of memory");
		return;
	}
	call->address_count = answer->count;
	for (int i = 0; i < answer->count; i++) {
		struct address *a = &call->addresses[i];

		*a = *dns_answer_at(answer, i);
		if (a->u.any.sa_family == AF_INET6)
			a->u.v6.sin6_port = htons(call->port);
		else
			a->u.v4.sin_port = htons(call->port);
	}
	connect_to_next(call, "connect failed");
}

static void find_address(struct peer_call *call, const char *host)
{
	bool is_unix = host[0] == '/' || host[0] == '@';

	call_become(call, CALL_CONNECTS);
	if (is_unix ? address_from_unix(&call->one, host, call->port) : address_from_ip(&call->one, host, call->port)) {
		call->addresses = &call->one;
		call->address_count = 1;
		connect_to_next(call, "connect failed");
		return;
	}
	call->request = is_unix ? NULL : dns_lookup(call->canceller->peer.world->dns, host, resolved, call);
	if (!call->request)
		give_up(call, "it has no address");
}

static const struct conf_peer *find_peer(const struct conf *conf, int id)
{
	for (size_t i = 0; i < conf->peer_count; i++)
		if (conf->peers[i]->id == id)
			return conf->peers[i];
	return NULL;
}

/* Of a length that poolers make. */
static bool may_be_a_peers(const struct pg_startup *request)
{
	return request->cancel_key_size == CANCEL_KEY || request->cancel_key_size == CANCEL_KEY_LONG;
}

/* NULL: there is no memory. */
static struct peer_call *call_new(struct client *canceller, struct peer_line *line, const struct pg_startup *request)
{
	struct peer_call *call = mem_try(sizeof(*call));

	if (!call)
		return NULL;
	call->stream.fd = -1;
	call->canceller = canceller;
	call->pid = request->cancel_pid;
	call->key_size = request->cancel_key_size;
	memcpy(call->key, request->cancel_key, call->key_size);
	peer_key_hop(call->key);
	if (call_join(call, line))
		return call;
	mem_free(call);
	return NULL;
}

/* Told once until the line is empty again: a client that fills it must not fill the log as well. */
static void turn_away(struct client *canceller, struct peer_line *line)
{
	if (!line->is_told)
		log_warning("peer %d: %d cancel requests wait for it already, others are dropped", line->id, line->count.queued);
	line->is_told = true;
	client_end(canceller, REASON_CANCEL_CROWD, NULL);
}

/* Requests begin, as many as there is room for. */
static void line_go_on(const struct world *w, struct peer_line *line)
{
	const struct conf_peer *peer = find_peer(w->conf, line->id);
	struct peer_call *call;

	while ((!peer || has_room(w, line, peer)) && (call = next_in(line)) != NULL) {
		if (!peer) {
			give_up(call, "a RELOAD has taken it away");
			continue;
		}
		call->port = (uint16_t)peer->port;
		find_address(call, peer->host);
	}
}

void peers_go_on(struct client *canceller)
{
	const struct peer_call *call = canceller->peer_call;

	if (call && call->phase == CALL_WAITS)
		line_go_on(canceller->peer.world, call->line);
}

bool peers_forward(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	const uint8_t *key = request->cancel_key;
	const struct conf_peer *peer;
	struct peer_line *line;
	int id;

	if (w->conf->settings.peer_id == 0 || !may_be_a_peers(request) || !peer_key_has_hops(key))
		return false;
	id = peer_key_id(key);
	peer = id == w->conf->settings.peer_id ? NULL : find_peer(w->conf, id);
	line = peer ? line_get(w->cancels, id) : NULL;
	if (!line)
		return false;
	if (!has_place(w, line, peer, canceller)) {
		turn_away(canceller, line);
		return true;
	}
	canceller->peer_call = call_new(canceller, line, request);
	if (!canceller->peer_call)
		return false;
	pool_client_become(w->pools, &canceller->policy, CLIENT_WAITING_CANCEL, w->now);
	peers_go_on(canceller);
	return true;
}

void peers_forget(struct client *canceller)
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

/* The ways that have taken too long; then the requests that have found room, as when a RELOAD has made more. */
static void line_tick(const struct world *w, struct peer_line *line)
{
	LIST_EACH_SAFE(node, &line->begun) {
		struct peer_call *call = LIST_OBJECT(node, struct peer_call, node);

		if (!peer_is_stopped(&call->canceller->peer) && call->way_ends > 0 && w->now >= call->way_ends)
			connect_to_next(call, "no answer in time");
	}
	line_go_on(w, line);
}

void peers_tick(struct world *w)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, w->cancels->lines, line, next) {
		line_tick(w, line);
		if (line_is_empty(line))
			line_free(w->cancels, line);
	}
}

void peers_free(struct cancels *all)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, all->lines, line, next) {
		ASSERT(line_is_empty(line));
		line_free(all, line);
	}
}

struct peer_count peers_count(const struct cancels *all, int id)
{
	const struct peer_line *line = line_find(all, id);

	return line ? line->count : (struct peer_count){ 0, 0, 0 };
}

static void check_call(const struct peer_call *call, const struct peer_line *line, struct peer_count *left)
{
	ASSERT(call->line == line && call->canceller->peer_call == call);
	ASSERT(call->canceller->policy.state == CLIENT_WAITING_CANCEL && !call->canceller->policy.pool);
	ASSERT((call->phase == CALL_HANDED_OVER) == (call->stream.phase == STREAM_OPEN));
	left->queued -= call->phase == CALL_WAITS;
	left->connecting -= call->phase == CALL_CONNECTS;
	left->handed_over -= call->phase == CALL_HANDED_OVER;
}

static void check_waiting(void *context, struct verify_place *place)
{
	struct peer_count *left = context;
	const struct peer_call *call = call_at(place);

	ASSERT(call->phase == CALL_WAITS);
	check_call(call, call->line, left);
}

static int check_line(const struct peer_line *line)
{
	const struct peer_count *count = &line->count;
	struct peer_count left = *count;

	verify_queue_each(&line->waiting, check_waiting, &left);
	LIST_EACH(node, &line->begun)
		check_call(LIST_OBJECT(node, struct peer_call, node), line, &left);
	ASSERT(left.queued == 0 && left.connecting == 0 && left.handed_over == 0);
	return count->queued + count->connecting + count->handed_over;
}

void peers_check(const struct world *w)
{
	int calls = 0;

	for (const struct peer_line *line = w->cancels->lines; line; line = line->hh.next)
		calls += check_line(line);
	LIST_EACH(node, &w->pools->unauthenticated[CLIENT_WAITING_CANCEL])
		calls -= client_of(LIST_OBJECT(node, struct pool_client, node))->peer_call != NULL;
	ASSERT(calls == 0);
}
