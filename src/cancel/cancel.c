/*
 * Cancel requests ("Canceling Requests in Progress").
 *
 * A CancelRequest names a client by the key that pgweir gave it: a process id, which pgweir made or which belongs to the
 * client's server (session_link), and a secret of the length that the client's protocol version allows. The pair is unique
 * among the clients. The state of the client decides:
 * - waiting in the queue: its request is refused here, and no server sees it;
 * - linked, and the server owes answers: a separate connection (the carrier) sends the server's key to the server;
 * - on the console: a waiting command ends;
 * - a client of a peer of the group: the request is forwarded (peers.c); of a process that was replaced: sent to that process
 *   (predecessors.c);
 * - otherwise there is nothing to cancel.
 *
 * A request must cancel the right query and no other. The server counts the requests for it (pooled.cancels), and is not lent
 * again before their carriers have ended, because PostgreSQL closes the carrier only after it has sent the signal. A request
 * that is still waiting when its query ends is dropped. If the server executes pgweir's own SET, the request waits for its end.
 *
 * A request cancels whatever its target executes when it arrives, so a few requests have the same effect as many: at most
 * CANCELS_MOST requests are in progress for one server, and further requests are dropped.
 */
#include "cancel/cancel.h"
#include "state/server_session.h"

#include "auth/client_address.h"
#include "backend/dial.h"
#include "base/assert.h"
#include "base/mem.h"
#include "cancel/peers.h"
#include "cancel/predecessors.h"
#include "pg/build.h"

#include <string.h>

#define CANCELS_MOST 16			/* requests in progress per server */
#define DRAWS_MOST 16			/* attempts to find a secret that no client with the same process number has */

struct cancels *cancels_new(void)
{
	struct cancels *all = mem_try(sizeof(*all));

	if (all)
		list_init(&all->predecessors);
	return all;
}

void cancels_free(struct cancels **place)
{
	struct cancels *all = *place;

	if (!all)
		return;
	ASSERT(!all->by_pid);
	peers_free(all);
	predecessors_free(all);
	mem_free(all);
	*place = NULL;
}

/* With session_link = login a server chooses the process number; a keyed hash prevents that it chooses the bucket. */
bool cancel_enlist(struct client *c)
{
	HASH_ADD(by_cancel_pid, c->peer.world->cancels->by_pid, cancel_pid, sizeof(c->cancel_pid), c);
	c->has_cancel_key = HASH_HAS(by_cancel_pid, c);
	return c->has_cancel_key;
}

/* Returns the first client with this process number; the others follow in its bucket. NULL: no such client. */
static struct client *first_of(const struct cancels *all, uint32_t pid)
{
	struct client *found;

	HASH_FIND(by_cancel_pid, all->by_pid, &pid, sizeof(pid), found);
	return found;
}

struct client *cancel_find(const struct world *w, uint32_t pid, const uint8_t *key, size_t size)
{
	uint8_t own[CANCEL_KEY_LONG], asked[CANCEL_KEY_LONG];

	for (struct client *c = first_of(w->cancels, pid); c; c = HASH_NEXT_IN_BUCKET(by_cancel_pid, c)) {
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

/* Draws a process number that no other client has. Other clients are not told this number (state/notify_server.c). */
static bool draw_pid(struct client *c)
{
	struct world *w = c->peer.world;

	do {
		uint32_t random;

		if (!randomness_draw(&w->randomness, &random, sizeof(random)))
			return false;
		c->cancel_pid = random & INT32_MAX;
	} while (c->cancel_pid <= SERVER_PID_MOST || first_of(w->cancels, c->cancel_pid));
	return true;
}

/* `pid` may be a server's process number; servers on different machines may have the same. Such a number is not secret, and with peer_id the
   rest of a short key has 16 random bits, which can be guessed in seconds. */
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
		if ((pid == 0 && !draw_pid(c)) || !randomness_draw(&w->randomness, c->cancel_key, c->cancel_key_size))
			return false;
		if (peer_id != 0) {
			c->cancel_key[0] = (uint8_t)(peer_id >> 6);
			c->cancel_key[1] = (uint8_t)((peer_id & 0x3f) << 2 | PEER_KEY_HOPS);
		}
	} while (pid != 0 && cancel_find(w, pid, c->cancel_key, c->cancel_key_size));
	return cancel_enlist(c);
}

/* Queues the request for a connection. */
static void queue(struct client *canceller)
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
	/* in the extended protocol up to the Sync */
	c->refused_until = *bytes_front(&c->peer.held);
	if (c->refused_until != PGC_QUERY && c->refused_until != PGC_CALL)
		c->refused_until = PGC_SYNC;
	pg_build_error(&out, "ERROR", "57014", "canceling statement due to user request", NULL, NULL);
	client_send(c, &out);
	bytes_free(&out);
	flow_unblock(&c->peer, FLOW_HELD);
}

void cancel_request(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	struct client *target = cancel_find(w, request->cancel_pid, request->cancel_key, request->cancel_key_size);
	bool is_cancelled;
	struct server *s;

	client_address_leave(canceller);
	if (!target || peer_is_stopped(&target->peer)) {
		if (!peers_forward(canceller, request) && !predecessors_forward(canceller, request))
			client_end(canceller, REASON_CANCEL_UNKNOWN, NULL);
		return;
	}
	if (target->is_console) {
		is_cancelled = w->console && w->console->cancel(w->console_context, target);
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
	if (works_for_client(s))
		queue(canceller);
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
	struct server *target = canceller ? canceller->cancel_target : NULL;
	struct bytes out = BYTES_EMPTY;
	bool sent;

	if (!target) {
		server_end(carrier, REASON_CANCEL_GIVEN_UP, NULL);
		return;
	}
	pool_server_become(&carrier->pooled, SERVER_ACTIVE_CANCEL, carrier->peer.world->now);
	pg_build_cancel(&out, target->backend_pid, target->cancel_key, target->cancel_key_size);
	sent = !out.failed && stream_write_bytes(&carrier->peer.stream, out.data, bytes_size(&out));
	bytes_wipe(&out);
	if (!sent)
		server_end(carrier, REASON_SERVER_CRASHED, NULL);
}

void cancel_dial(struct client *canceller)
{
	struct world *w = canceller->peer.world;
	struct server *carrier = dial_for_cancel(canceller->cancel_target, connected);

	/* the time until the carrier is connected counts for cancel_wait_timeout */
	pool_client_become(w->pools, &canceller->pooled, CLIENT_ACTIVE_CANCEL, canceller->pooled.since);
	if (!carrier) {
		client_end(canceller, REASON_CANCEL_FAILED, NULL);
		return;
	}
	canceller->cancel_carrier = carrier;
	carrier->carries_for = canceller;
}

void cancel_server_read(struct server *carrier)
{
	char scrap[512];
	ssize_t r = stream_read(&carrier->peer.stream, scrap, sizeof(scrap));

	if (r < 0)
		server_end(carrier, REASON_CANCEL_SENT, NULL);
}

void cancel_timed_out(struct server *carrier)
{
	struct client *canceller = carrier->carries_for;

	/* it is unknown whether the signal will still be sent */
	if (canceller && canceller->cancel_target)
		canceller->cancel_target->pooled.close_reason = REASON_CONNECT_TIMEOUT;
	server_end(carrier, REASON_CONNECT_TIMEOUT, NULL);
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
			queue(canceller);
	}
}

static void disown(struct client *canceller)
{
	ASSERT(canceller->cancel_target->pooled.cancels > 0);
	canceller->cancel_target->pooled.cancels--;
	canceller->cancel_target = NULL;
}

/* Removes the references of these requests to the target, and ends the requests if they have no connection to it yet. */
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
	disown_all(&target->peer.world->pools->unauthenticated[CLIENT_WAITING_CANCEL], target, true);
}

/* Whether the request was sent over this connection, which may have ended since. */
static bool has_sent(const struct server *carrier)
{
	return (peer_is_ending(&carrier->peer) ? carrier->peer.ended_in : carrier->pooled.state) == SERVER_ACTIVE_CANCEL;
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
		server_end(carrier, has_sent(carrier) ? REASON_CANCEL_SENT : REASON_CANCEL_GIVEN_UP, NULL);
	}
	if (!target)
		return;
	disown(c);
	/* the target may wait for the end of this request */
	if (target->pooled.cancels == 0 && target->pooled.state == SERVER_BEING_CANCELED)
		server_release(target);
}

void cancel_forget_server(struct server *s)
{
	struct client *canceller = s->carries_for;

	s->carries_for = NULL;
	if (canceller) {
		canceller->cancel_carrier = NULL;
		client_end(canceller, has_sent(s) ? REASON_CANCEL_DONE : REASON_CANCEL_FAILED, NULL);
	}
	if (s->pooled.cancels == 0)
		return;
	/* the server ends and is not released, so the requests must not release it when they end */
	disown_all(&s->pooled.pool->clients[CLIENT_ACTIVE_CANCEL], s, false);
	disown_all(&s->pooled.pool->clients[CLIENT_WAITING_CANCEL], s, true);
	disown_all(&s->peer.world->pools->unauthenticated[CLIENT_WAITING_CANCEL], s, true);
	/* requests that end in the same reap refer to the target until then */
	LIST_EACH(node, &s->peer.world->ending) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);
		struct client *c = LIST_OBJECT(peer, struct client, peer);

		if (peer->is_client && c->cancel_target == s)
			disown(c);
	}
	ASSERT(s->pooled.cancels == 0);
}
