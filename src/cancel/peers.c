/*
 * Cancel requests that arrive at the wrong process of a group.
 *
 * Several poolers may listen on one port (so_reuseport), and a CancelRequest arrives on a separate connection, so it may reach
 * a process that does not know the client. With peer_id set, a client's key contains the id of the process that made it
 * (peer_key.c).
 *
 * A process that does not know a key forwards it to that peer, with one hop less. If the peer is unknown or no hop is left, the
 * request ends. The peer closes the connection when it is done, and only then is the canceller's connection closed. A canceller
 * that has shut down its sending side is kept: it may wait to see the end of the request.
 *
 * All addresses of a peer's name are tried in turn until one accepts the connection. Each attempt gets an equal part of the
 * rest of cancel_wait_timeout. After that the request is in progress and is not sent again.
 */
#include "cancel/peer_line.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "cancel/peer_key.h"
#include "pg/build.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* The request could not be forwarded. */
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
	call->attempt_ends = 0;
	peer_call_become(call, CALL_HANDED_OVER);
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
	usec_t limit = w->conf->settings.cancel_wait_timeout, left = call->canceller->pooled.since + limit - w->now;
	int others = call->address_count - call->next_address;

	call->attempt_ends = limit > 0 && others > 0 ? w->now + left / (others + 1) : 0;
}

/* `error`: of the previous address. */
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

	peer_call_become(call, CALL_CONNECTS);
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

/* Whether the key has the length of a key of pgweir. */
static bool may_be_a_peers(const struct pg_startup *request)
{
	return request->cancel_key_size == CANCEL_KEY || request->cancel_key_size == CANCEL_KEY_LONG;
}

/* NULL: no memory. */
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
	if (peer_call_join(call, line))
		return call;
	mem_free(call);
	return NULL;
}

/* Drops a request. Logged once until the queue is empty again, so that a client cannot flood the log. */
static void turn_away(struct client *canceller, struct peer_line *line)
{
	if (!line->is_told)
		log_warning("peer %d: %d cancel requests wait for it already, others are dropped", line->id, line->count.queued);
	line->is_told = true;
	client_end(canceller, REASON_CANCEL_CROWD, NULL);
}

/* Begins requests while there is room. */
static void line_go_on(const struct world *w, struct peer_line *line)
{
	const struct conf_peer *peer = find_peer(w->conf, line->id);
	struct peer_call *call;

	while ((!peer || peer_line_has_room(w, line, peer)) && (call = peer_line_next(line)) != NULL) {
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
	line = peer ? peer_line_get(w->cancels, id) : NULL;
	if (!line)
		return false;
	if (!peer_line_make_room(w, line, peer, canceller)) {
		turn_away(canceller, line);
		return true;
	}
	canceller->peer_call = call_new(canceller, line, request);
	if (!canceller->peer_call)
		return false;
	pool_client_become(w->pools, &canceller->pooled, CLIENT_WAITING_CANCEL, w->now);
	peers_go_on(canceller);
	return true;
}

void peers_forget(struct client *canceller)
{
	struct peer_call *call = canceller->peer_call;

	if (!call)
		return;
	canceller->peer_call = NULL;
	peer_call_leave(call);
	line_go_on(canceller->peer.world, call->line);
	if (call->request)
		dns_cancel(&call->request);
	if (call->addresses != &call->one)
		mem_free(call->addresses);
	stream_close(&call->stream);
	mem_wipe(call, sizeof(*call));
	mem_free(call);
}

/* Ends attempts that have timed out, then begins requests that have room, for example after a RELOAD with a higher limit. */
static void line_tick(const struct world *w, struct peer_line *line)
{
	LIST_EACH_SAFE(node, &line->begun) {
		struct peer_call *call = LIST_OBJECT(node, struct peer_call, node);

		if (call->attempt_ends > 0 && w->now >= call->attempt_ends)
			connect_to_next(call, "no answer in time");
	}
	line_go_on(w, line);
}

void peers_tick(struct world *w)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, w->cancels->lines, line, next) {
		line_tick(w, line);
		if (peer_line_is_empty(line))
			peer_line_free(w->cancels, line);
	}
}

void peers_free(struct cancels *all)
{
	struct peer_line *line, *next;

	HASH_ITER(hh, all->lines, line, next) {
		ASSERT(peer_line_is_empty(line));
		peer_line_free(all, line);
	}
}
