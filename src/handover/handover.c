/*
 * Online restart without dropping clients: the state of the running process moves to a new process.
 *
 * The old process sends everything, including descriptors; the new process builds the same world and confirms; only then does
 * the old process give up its connections. Until then both processes hold the sockets, and neither reads or writes: the old
 * process waits, and the new process has not started its event loop. Therefore no byte can be read by one process and handled
 * by the other, and if one process fails, the other has everything.
 *
 * Connections need not be idle. The state in the middle of a message, owed answers and unsent bytes are in the structs and are
 * handed over. Sessions under TLS, logins and cancel requests cannot be handed over. Clients that cannot be handed over are
 * served by the old process until they leave (it is a predecessor then: see predecessors.c).
 *
 * Invariant: until handover_finish the new process sends no byte to any peer.
 */
#include "handover/handover_parts.h"

#include "auth/lookup.h"
#include "backend/retire.h"
#include "base/assert.h"
#include "base/log.h"
#include "conn/listening.h"
#include "pg/build.h"
#include "relay/relay.h"

#include <stdlib.h>
#include <unistd.h>

struct unsent {
	struct peer *peer;
	struct bytes bytes;
};

struct rejected {
	int fd;
	enum reject_way way;
	enum close_reason why;
};

/* ---- the old process ---- */

const char *handover_refusal(const struct world *w)
{
	if (w->successor)
		return "it has been replaced already";
	if (w->drain != DRAIN_OFF)
		return "it is shutting down";
	if (w->pools->paused || w->pools->suspended)
		return "it is paused or suspended: RESUME it first";
	for (const struct database *d = w->pools->databases; d; d = d->hh.next)
		if (d->paused)
			return "a database of it is paused: RESUME it first";
	return NULL;
}

bool handover_is_calm(const struct world *w)
{
	const int *unauthenticated = w->pools->unauthenticated_count;

	if (unauthenticated[CLIENT_AUTH] + unauthenticated[CLIENT_LOOKUP] + unauthenticated[CLIENT_WAITING_CANCEL] > 0 || w->lookups->by_key)
		return false;
	/* posts are not in the records */
	if (!list_is_empty(&w->again) && LIST_OBJECT(w->again.next, struct peer, again)->posted)
		return false;
	LIST_EACH(node, &w->pools->all) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);

		const int *clients = pool->client_count, *servers = pool->server_count;

		if (clients[CLIENT_WAITING_LOGIN] + clients[CLIENT_WAITING_CANCEL] + clients[CLIENT_ACTIVE_CANCEL] +
		    servers[SERVER_ACTIVE_CANCEL] + servers[SERVER_BEING_CANCELED] + pool->cancel_logins > 0 || !listener_is_calm(pool))
			return false;
	}
	LIST_EACH(node, &w->pools->unauthenticated[CLIENT_STARTUP])
		if (!client_may_be_given(client_of(LIST_OBJECT(node, struct pool_client, node))))
			return false;
	return true;
}

static bool listeners_send(const struct listening *on, struct records *to, int patience, struct handover_counts *counts)
{
	for (int i = 0; i < on->count; i++) {
		struct bytes out = BYTES_EMPTY;
		bool sent;

		pack_bool(&out, on->all[i]->file.ours);
		sent = records_send(to, HANDOVER_LISTENER, &out, on->all[i]->fd, patience);
		bytes_free(&out);
		if (!sent)
			return false;
		counts->listeners++;
	}
	return true;
}

bool handover_send(struct world *w, struct records *to, int patience, struct handover_counts *counts)
{
	struct bytes out = BYTES_EMPTY;
	bool sent;

	listeners_decide(w);
	*counts = (struct handover_counts){ .listeners = 0 };
	world_pack(&out, w);
	sent = records_send(to, HANDOVER_WORLD, &out, -1, patience);
	bytes_wipe(&out);
	if (!sent || !listeners_send(&w->listening, to, patience, counts) ||
	    !predecessors_send(w->cancels, to, HANDOVER_PREDECESSOR, patience) || !handover_send_pools(w, to, patience, counts))
		return false;
	/* pools->clients does not include cancel requests */
	counts->staying = (uint32_t)w->pools->clients - counts->clients;
	bytes_append_u32(&out, counts->listeners);
	bytes_append_u32(&out, counts->servers);
	bytes_append_u32(&out, counts->clients);
	bytes_append_u32(&out, counts->staying);
	sent = records_send(to, HANDOVER_END, &out, -1, patience);
	bytes_free(&out);
	return sent;
}

static void let_servers_go(struct list *servers, bool all)
{
	LIST_EACH_SAFE(node, servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (all || server_may_be_given(s))
			server_hand_over(s);
	}
}

static void let_clients_go(struct list *clients, bool all)
{
	LIST_EACH_SAFE(node, clients) {
		struct client *c = LIST_OBJECT(node, struct client, peer.node);

		if (all || client_may_be_given(c))
			client_hand_over(c);
	}
}

void handover_done(struct world *w, struct records **successor)
{
	listening_let_go(&w->listening, false);
	let_servers_go(&w->servers, false);
	let_clients_go(&w->clients, false);
	predecessors_free(w->cancels);
	successor_free(&w->successor);
	/* remaining clients are served, but idle servers are closed */
	pools_drain(w->pools, POOL_DRAIN_REPLACED);
	if (!predecessors_follow(w, successor))
		log_warning("out of memory: cancel requests for clients that stay will not arrive");
}

/* ---- the new process ---- */

struct handover *handover_begin(struct world *w)
{
	struct handover *h = mem_try(sizeof(*h));

	if (h)
		h->world = w;
	return h;
}

bool handover_put_by(struct handover *h, struct peer *peer, const uint8_t *bytes, size_t size)
{
	struct unsent *more = mem_resize(h->unsent, (h->unsent_count + 1) * sizeof(*more)), *u;

	if (!more)
		return false;
	h->unsent = more;
	u = &more[h->unsent_count++];
	*u = (struct unsent){ .peer = peer, .bytes = BYTES_EMPTY };
	bytes_append(&u->bytes, bytes, size);
	return !u->bytes.failed;
}

void handover_reject(struct handover *h, int fd, enum reject_way way)
{
	struct rejected *more = mem_resize(h->rejected, (h->rejected_count + 1) * sizeof(*more));

	if (!more) {
		/* the connection has to end anyway, and does when this process closes it */
		close(fd);
		return;
	}
	h->rejected = more;
	h->rejected[h->rejected_count++] = (struct rejected){ fd, way, h->no_place };
}

static void listener_unpack(struct unpack *in, struct handover *h, int fd)
{
	bool owns_file = unpack_bool(in);

	if (in->bad || !world_offer_listener(h->world, fd, owns_file, h->problems)) {
		in->bad = true;
		close(fd);
		return;
	}
	h->counts.listeners++;
}

static void end_unpack(struct unpack *in, struct handover *h)
{
	const struct handover_counts *c = &h->counts, *p = &h->announced;

	h->announced.listeners = unpack_u32(in);
	h->announced.servers = unpack_u32(in);
	h->announced.clients = unpack_u32(in);
	h->announced.staying = h->counts.staying = unpack_u32(in);
	in->bad |= !h->has_world || c->listeners != p->listeners || c->servers != p->servers || c->clients != p->clients;
	h->is_whole = !in->bad;
}

static void take(struct handover *h, const struct record *r, struct unpack *in)
{
	struct records *channel;

	switch ((enum handover_record)r->type) {
	case HANDOVER_WORLD:
		world_unpack(in, h);
		return;
	case HANDOVER_LISTENER:
		listener_unpack(in, h, r->fd);
		return;
	case HANDOVER_PREDECESSOR:
		channel = records_new(r->fd);
		if (!channel)
			close(r->fd);
		in->bad |= !channel || !predecessors_add(h->world, &channel);
		return;
	case HANDOVER_STATEMENT:
		known_statement_unpack(in, h);
		return;
	case HANDOVER_DATABASE:
		database_unpack(in, h);
		return;
	case HANDOVER_POOL:
		pool_unpack(in, h);
		return;
	case HANDOVER_UNAUTHENTICATED:
		h->pool = NULL;
		h->no_place = REASON_NONE;
		return;
	case HANDOVER_SERVER:
		server_unpack(in, h, r->fd);
		h->counts.servers++;
		return;
	case HANDOVER_CLIENT:
		client_unpack(in, h, r->fd);
		h->counts.clients++;
		return;
	case HANDOVER_END:
		end_unpack(in, h);
		return;
	default:
		in->bad = true;
	}
}

bool handover_take(struct handover *h, const struct record *r, struct conf_problems *problems)
{
	struct unpack in = unpack_of(r->body, r->size);
	bool has_descriptor = r->type == HANDOVER_LISTENER || r->type == HANDOVER_PREDECESSOR || r->type == HANDOVER_SERVER ||
			      r->type == HANDOVER_CLIENT;
	bool in_order = !h->is_whole && (!h->server || r->type == HANDOVER_CLIENT || r->type == HANDOVER_STATEMENT);

	h->problems = problems;
	if (has_descriptor != (r->fd >= 0) || !in_order) {
		if (r->fd >= 0)
			close(r->fd);
		in.bad = true;
	} else {
		take(h, r, &in);
	}
	if (unpack_is_done(&in))
		return true;
	conf_problem_add(problems, false, NULL, 0, "the running process has sent something that cannot be used (record '%c')", r->type);
	return false;
}

bool handover_is_whole(const struct handover *h)
{
	return h->is_whole;
}

const struct handover_counts *handover_counted(const struct handover *h)
{
	return &h->counts;
}

/* ---- completing ---- */

static void handover_free(struct handover **place)
{
	struct handover *h = *place;

	*place = NULL;
	for (size_t i = 0; i < h->unsent_count; i++)
		bytes_wipe(&h->unsent[i].bytes);
	for (size_t i = 0; i < h->rejected_count; i++)
		close(h->rejected[i].fd);
	known_statements_free(h->world->statements, &h->statements);
	mem_free(h->unsent);
	mem_free(h->rejected);
	mem_free(h->moved);
	mem_free(h);
}

void handover_undo(struct handover **place)
{
	struct world *w;

	if (!*place)
		return;
	w = (*place)->world;
	let_servers_go(&w->servers, true);
	let_clients_go(&w->clients, true);
	listening_let_go(&w->listening, true);
	predecessors_free(w->cancels);
	successor_free(&w->successor);
	handover_free(place);
}

static int by_id(const void *a, const void *b)
{
	const struct peer *x = *(struct peer *const *)a, *y = *(struct peer *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Sorts a list of the world by id. Without memory the list stays unsorted, which only affects SHOW. */
static void sort(struct list *list)
{
	struct peer **peers;
	size_t count = 0, i = 0;

	LIST_EACH(node, list)
		count++;
	peers = mem_try((count + 1) * sizeof(*peers));
	if (!peers)
		return;
	LIST_EACH(node, list)
		peers[i++] = LIST_OBJECT(node, struct peer, node);
	qsort(peers, count, sizeof(*peers), by_id);
	for (i = 0; i < count; i++) {
		list_remove(&peers[i]->node);
		list_append(list, &peers[i]->node);
	}
	mem_free(peers);
}

static void tell_rejected(const struct rejected *f)
{
	struct bytes out = BYTES_EMPTY;
	char text[128];

	close_reason_count(f->why);
	if (f->way == REJECT_TELL)
		pg_build_error(&out, "FATAL", "08P01", close_reason_text(f->why, NULL, text, sizeof(text)), NULL, NULL);
	else if (f->way == REJECT_TERMINATE)
		pg_build_terminate(&out);
	/* best effort: the buffer of the socket may be full */
	if (!out.failed && bytes_size(&out) > 0 && send(f->fd, bytes_front(&out), bytes_size(&out), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a connection that has no place here could not be told");
	bytes_free(&out);
}

/* Sends the bytes that the old process could not send. While the peer does not accept them, its partner is not read: reading
   might end both connections before these bytes are sent. A broken socket is noticed when it is read. */
static void send_rest(struct unsent *u)
{
	struct peer *peer = u->peer;
	struct client *c = peer->is_client ? LIST_OBJECT(peer, struct client, peer) : NULL;
	struct server *s = peer->is_client ? NULL : LIST_OBJECT(peer, struct server, peer);

	if (peer_is_stopped(peer) || !stream_write_bytes(&peer->stream, bytes_front(&u->bytes), bytes_size(&u->bytes)))
		return;
	if (stream_unsent(&peer->stream) == 0) {
		if (c)
			relay_client_drained(c);
		else
			relay_server_drained(s);
	} else if (c && c->pooled.link) {
		flow_block(&server_of(c->pooled.link)->peer, FLOW_ROOM);
	} else if (s && s->pooled.link && !s->pooled.link->is_internal) {
		flow_block(&client_of(s->pooled.link)->peer, FLOW_ROOM);
	}
}

/* Whether the peer's input may contain complete messages that the relay has left there. The input of a client in the queue
   stays until the client gets a server. */
static bool keeps_messages(struct peer *peer)
{
	const struct client *c;

	if (!peer->is_client)
		return LIST_OBJECT(peer, struct server, peer)->pooled.link != NULL;
	c = LIST_OBJECT(peer, struct client, peer);
	return (c->pooled.state == CLIENT_IDLE || c->pooled.state == CLIENT_ACTIVE) && !c->is_console;
}

/* Wakes all peers with input. All sockets are read, which also restores the state of clients that must not be read yet. */
static void wake_all(struct list *peers)
{
	LIST_EACH(node, peers) {
		struct peer *peer = LIST_OBJECT(node, struct peer, node);

		if (bytes_size(&peer->held) == 0)
			continue;
		peer->held_first = keeps_messages(peer);
		peer_come_again(peer);
	}
}

void handover_finish(struct handover **place, struct records **predecessor)
{
	struct handover *h = *place;
	struct world *w = h->world;

	ASSERT(h->is_whole);
	if (!predecessors_add(w, predecessor))
		log_warning("out of memory: cancel requests for clients that stay behind will not arrive");
	world_close_unwanted_listeners(w);
	sort(&w->clients);
	sort(&w->servers);
	for (size_t i = 0; i < h->rejected_count; i++)
		tell_rejected(&h->rejected[i]);
	if (h->rejected_count > 0)
		log_warning("%zu connections were closed: this configuration has no place for them", h->rejected_count);
	for (size_t i = 0; i < h->unsent_count; i++)
		send_rest(&h->unsent[i]);
	for (size_t i = 0; i < h->moved_count; i++)
		database_moves(h->moved[i]);
	if (h->tls_differs || h->logins_differ)
		retire_all(w, h->logins_differ);
	retire_unused(w);
	wake_all(&w->clients);
	wake_all(&w->servers);
	pools_mark_all(w->pools);
	handover_free(place);
}
