/*
 * The queues of the peers: cancel requests that wait for a peer, and requests in progress.
 *
 * At most pool_size requests to a peer are in progress at a time. A request needs no login, and its key only has to name a
 * peer, so unauthenticated clients can send any number of them. They do not count as clients, because a full pooler must still
 * cancel. Therefore the queue of each peer is limited, and addresses take turns in it (verify/queue.c). If the queue is full, a
 * request from an address with few requests displaces the newest request of the address with the most; otherwise it is dropped.
 *
 * Invariant: a call belongs to the queue of its peer, and either waits in it or has begun; the counts equal the calls
 * (peers_check). A queue is freed in the next tick after its last call has ended.
 */
#include "cancel/peer_line.h"

#include "base/assert.h"

#define LINE_LEAST 100			/* the limit for the smallest peer: an application that stops cancels all its queries */

static struct peer_line *line_find(const struct cancels *all, int id)
{
	struct peer_line *line;

	HASH_FIND_INT(all->lines, &id, line);
	return line;
}

struct peer_line *peer_line_get(struct cancels *all, int id)
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

bool peer_line_is_empty(const struct peer_line *line)
{
	return line->count.queued == 0 && list_is_empty(&line->begun);
}

void peer_line_free(struct cancels *all, struct peer_line *line)
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

bool peer_call_join(struct peer_call *call, struct peer_line *line)
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

void peer_call_leave(struct peer_call *call)
{
	--*count_of(call);
	verify_queue_remove(&call->line->waiting, &call->place);
	list_remove(&call->node);
	call->line->is_told &= call->line->count.queued > 0;
}

void peer_call_become(struct peer_call *call, enum call_phase phase)
{
	ASSERT(phase > call->phase);
	peer_call_leave(call);
	call->phase = phase;
	++*count_of(call);
	list_append(&call->line->begun, &call->node);
}

static int64_t size_of(const struct conf *conf, const struct conf_peer *peer)
{
	return peer->pool_size == CONF_UNSET ? conf->settings.default_pool_size : peer->pool_size;
}

bool peer_line_has_room(const struct world *w, const struct peer_line *line, const struct conf_peer *peer)
{
	int64_t most = size_of(w->conf, peer);

	return most == 0 || line->count.connecting + line->count.handed_over < most;
}

static struct peer_call *call_at(struct verify_place *place)
{
	return LIST_OBJECT(place, struct peer_call, place);
}

bool peer_line_make_room(const struct world *w, struct peer_line *line, const struct conf_peer *peer, const struct client *canceller)
{
	const struct verify_source source = auth_verify_source(canceller);
	int64_t most = 2 * size_of(w->conf, peer);
	struct verify_place *place;

	if (peer_line_has_room(w, line, peer) || line->waiting.waiting < (most > LINE_LEAST ? most : LINE_LEAST))
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

struct peer_call *peer_line_next(struct peer_line *line)
{
	static const struct verify_fit fit = { .source = any_source, .place = is_open };
	struct verify_place *place = verify_queue_next_if(&line->waiting, &fit);

	return place ? call_at(place) : NULL;
}

/* ---- for SHOW, and the check of the world ---- */

struct peer_count peers_count(const struct cancels *all, int id)
{
	const struct peer_line *line = line_find(all, id);

	return line ? line->count : (struct peer_count){ 0, 0, 0 };
}

static void check_call(const struct peer_call *call, const struct peer_line *line, struct peer_count *left)
{
	ASSERT(call->line == line && call->canceller->peer_call == call);
	ASSERT(call->canceller->pooled.state == CLIENT_WAITING_CANCEL && !call->canceller->pooled.pool);
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
