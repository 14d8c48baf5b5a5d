/*
 * Cancel requests ("Canceling Requests in Progress").
 *
 * In the order of time:
 *
 * 1. A client opens a second connection, the canceller, and sends a CancelRequest with the key that
 *    pgweir gave it (cancel_key.c). No login precedes it. startup_packet.c calls cancel_request().
 * 2. The state of the client with this key decides:
 *     - waiting in the queue: its request is refused here, and no server sees it;
 *     - linked, and the server owes answers: the server is the target, see 3;
 *     - on the console: a waiting command ends;
 *     - unknown here: the request is forwarded to a peer of the group (peers.c), or to a process
 *       that was replaced (predecessors.c);
 *     - otherwise there is nothing to cancel.
 * 3. The target counts the request (pooled.cancels), and the canceller waits in the target's pool
 *    (WAITING_CANCEL). The scheduler calls cancel_dial(), which opens a connection, the carrier;
 *    connected() sends the server's key there (ACTIVE_CANCEL). If the server executes pgweir's own
 *    SET, the request waits for the end of the SET (cancel_release_waiting()).
 * 4. PostgreSQL closes the carrier after it has sent the signal. Then the canceller ends, and the
 *    count falls. Until it is 0, the server is not lent again (BEING_CANCELED), because the signal
 *    could hit the query of the next client.
 * 5. If the query ends before the carrier is opened, the request is dropped (cancel_query_over()).
 *
 * Example. A client of pgweir has the key (1234567890, s1), and its query runs on the process 4711
 * with the secret s2. psql sends (1234567890, s1) to pgweir, and pgweir sends (4711, s2) to
 * PostgreSQL.
 *
 * cancel_abandoned() sends a request of pgweir's own, for a client that has left its query.
 *
 * A request cancels whatever its target executes when the request arrives, so a few requests have
 * the same effect as many: at most CANCELS_MOST requests are in progress for one server, and
 * further requests are dropped.
 */
#include "cancel/cancel_inside.h"

#include "auth/client_address.h"
#include "backend/dial.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "cancel/predecessors.h"
#include "conn/client_request.h"
#include "pg/build.h"
#include "state/server_session.h"

#include <stdio.h>
#include <string.h>

#define CANCELS_MOST 16			/* requests in progress per server */

void cancels_free(struct cancels **place)
{
	struct cancels *all = *place;

	if (!all)
		return;
	ASSERT(!all->by_pid && list_is_empty(&all->predecessors));
	peers_free(all);
	mem_free(all);
	*place = NULL;
}

struct server *cancel_target_of(const struct client *c)
{
	return c->cancel_request ? c->cancel_request->target : NULL;
}

/* Queues the request for a connection. */
static void cancel_queue(struct client *canceller)
{
	struct pool *pool = canceller->cancel_request->target->pooled.pool;

	pool_client_join(&canceller->pooled, pool, NULL);
	pool_mark(pool);
}

/* Whether the server executes something for its client. */
static bool works_for_client(const struct server *s)
{
	return s->task ? s->task->serves_client : !ledger_is_empty(&s->ledger);
}

bool cancel_refuse_waiting(struct client *c)
{
	struct bytes out = BYTES_EMPTY;

	if (c->pooled.state != CLIENT_WAITING)
		return false;
	ASSERT(bytes_size(&c->peer.held) >= PG_HEADER);
	pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_IDLE, c->peer.world->now);
	/* if a BEGIN is held, the client is in a transaction: see request_refused() */
	if (!request_holds_begin(c))
		client_left_transaction(c);
	/* in the extended protocol up to the Sync */
	c->minds.refused_until = *bytes_front(&c->peer.held);
	if (c->minds.refused_until != PGC_QUERY && c->minds.refused_until != PGC_CALL)
		c->minds.refused_until = PGC_SYNC;
	pg_build_report(&out, 'E', "ERROR", "57014", "canceling statement due to user request",
			NULL, NULL);
	client_send(c, &out);
	bytes_free(&out);
	flow_unblock(&c->peer, FLOW_HELD);
	return true;
}

void cancel_request(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	struct client *target = cancel_find(w, request->cancel_pid, request->cancel_key,
					    request->cancel_key_size);
	bool is_cancelled;
	struct server *s;

	client_address_leave(canceller);
	canceller->cancel_request = mem_try(sizeof(*canceller->cancel_request));
	if (!canceller->cancel_request) {
		client_end(canceller, REASON_NO_MEMORY, NULL);
		return;
	}
	if (!target || peer_is_stopped(&target->peer)) {
		if (!peers_forward(canceller, request) && !predecessors_forward(canceller, request))
			client_end(canceller, REASON_CANCEL_UNKNOWN, NULL);
		return;
	}
	if (target->console.is_connected) {
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
	canceller->cancel_request->target = s;
	s->pooled.cancels++;
	if (target->request)
		target->request->is_canceled = true;
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
	struct server *target = canceller ? cancel_target_of(canceller) : carrier->own_cancel;
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
	struct server *carrier = dial_for_cancel(cancel_target_of(canceller), connected);

	/* the time until the carrier is connected counts for cancel_wait_timeout */
	pool_client_become(w->pools, &canceller->pooled, CLIENT_ACTIVE_CANCEL,
			   canceller->pooled.since);
	if (!carrier) {
		client_end(canceller, REASON_CANCEL_FAILED, NULL);
		return;
	}
	canceller->cancel_request->carrier = carrier;
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

		if (cancel_target_of(canceller) == s)
			cancel_queue(canceller);
	}
}

static void disown(struct client *canceller)
{
	ASSERT(canceller->cancel_request->target->pooled.cancels > 0);
	canceller->cancel_request->target->pooled.cancels--;
	canceller->cancel_request->target = NULL;
}

/* Removes the references of these requests to the target, and ends the requests if they have no
   connection to it yet. */
static void disown_all(struct list *cancellers, const struct server *target, bool has_no_carrier)
{
	LIST_EACH_SAFE(node, cancellers) {
		struct client *canceller = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (cancel_target_of(canceller) != target)
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
	struct cancel_request *request = c->cancel_request;
	struct server *carrier, *target;

	cancel_key_forget(c);
	if (!request)
		return;
	peers_forget(c);
	carrier = request->carrier;
	target = request->target;
	if (carrier) {
		carrier->carries_for = NULL;
		server_end(carrier, has_sent(carrier) ? REASON_CANCEL_SENT : REASON_CANCEL_GIVEN_UP,
			   NULL);
	}
	if (target)
		disown(c);
	c->cancel_request = NULL;
	mem_free(request);
	if (target)
		go_on_uncanceled(target);
}

void cancel_forget_server(struct server *s)
{
	struct client *canceller = s->carries_for;

	s->carries_for = NULL;
	if (canceller) {
		canceller->cancel_request->carrier = NULL;
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

		if (peer->is_client && cancel_target_of(c) == s)
			disown(c);
	}
	ASSERT(s->pooled.cancels == 0);
}
