/*
 * Cancel requests that arrive at the wrong process of a group.
 *
 * Several poolers may listen on one port (so_reuseport), and a CancelRequest comes on a connection of its own, so it
 * may reach a process that has never seen the client. With peer_id set, the first two bytes of a client's
 * secret key name the process that made it, and how many hops are left:
 *
 *	14 bits  peer_id        2 bits  hops left        16 bits, or 176 with protocol 3.2: random
 *
 * A process that does not know a key hands it to the peer it names, with one hop less; where the peer is not known, or no hop is
 * left, the request ends. The other end closes the connection when it is done, and only then does the canceller hear so.
 *
 * At most pool_size requests are on their way to a peer at a time; the others wait for one of them to end, in the order in which
 * they came.
 *
 * All addresses of a peer's name are tried in turn, each for an equal part of what is left of cancel_wait_timeout, until one can
 * be connected to. From there on the request is on its way, and is not sent a second time.
 */
#include "session/peers.h"

#include "base/text.h"
#include "pg/build.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define HOPS_MOST 3
#define HOPS_BITS 0x03		/* in the second byte of the key */

/* A request on its way to a peer, or that waits to be. */
struct peer_call {
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
	struct address one, *addresses;	/* to be tried; they are &one, or owned */
	int address_count, next_address;
	bool begun;			/* it does not wait for others any more */
	usec_t way_ends;		/* the one that is being tried has time until then; 0: as long as there is any */
	int peer_id;
	uint16_t port;
	uint32_t pid;
	size_t key_size;
	uint8_t key[CANCEL_KEY_LONG];
};

void peers_mark_key(const struct world *w, uint8_t *key)
{
	int64_t id = w->conf->settings.peer_id;

	if (id == 0)
		return;
	key[0] = (uint8_t)(id >> 6);
	key[1] = (uint8_t)((id & 0x3f) << 2 | HOPS_MOST);
}

bool peers_same_key(const struct world *w, const uint8_t *own, const uint8_t *asked, size_t size)
{
	uint8_t a[CANCEL_KEY_LONG], b[CANCEL_KEY_LONG];

	memcpy(a, own, size);
	memcpy(b, asked, size);
	if (w->conf->settings.peer_id != 0) {
		a[1] |= HOPS_BITS;
		b[1] |= HOPS_BITS;
	}
	return mem_equal_constant_time(a, b, size);
}

/* The request could not be handed on. */
static void give_up(struct peer_call *call, const char *why)
{
	char who[256];

	log_warning("%s cancel request for a peer: %s", client_text(call->canceller, who, sizeof(who)), why);
	client_end(call->canceller, GOODBYE_CANCEL_UNKNOWN, NULL);
}

static void connect_to_next(struct peer_call *call, const char *error);

static void on_connected(struct stream *stream, const char *error)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	world_wake(call->canceller->peer.world);
	if (error) {
		connect_to_next(call, error);
		return;
	}
	call->way_ends = 0;
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
		client_end(call->canceller, GOODBYE_CANCEL_DONE, NULL);
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

	call->begun = true;
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

bool peers_forward(struct client *canceller, const struct pg_startup *request)
{
	struct world *w = canceller->peer.world;
	const uint8_t *key = request->cancel_key;
	const struct conf_peer *peer;
	struct peer_call *call;
	int id;

	if (w->conf->settings.peer_id == 0 || !may_be_a_peers(request) || (key[1] & HOPS_BITS) == 0)
		return false;
	id = key[0] << 6 | key[1] >> 2;
	peer = id == w->conf->settings.peer_id ? NULL : find_peer(w->conf, id);
	call = peer ? mem_try(sizeof(*call)) : NULL;
	if (!call)
		return false;
	call->stream.fd = -1;
	call->canceller = canceller;
	call->peer_id = peer->id;
	call->pid = request->cancel_pid;
	call->key_size = request->cancel_key_size;
	memcpy(call->key, key, call->key_size);
	call->key[1]--;
	canceller->peer_call = call;
	pool_client_become(w->pools, &canceller->policy, CLIENT_WAITING_CANCEL, w->now);
	peers_go_on(canceller);
	return true;
}

/* The first that waits for others to end. */
static struct client *next_in_line(const struct world *w, int id)
{
	LIST_EACH(node, &w->pools->strangers[CLIENT_WAITING_CANCEL]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (c->peer_call && !c->peer_call->begun && c->peer_call->peer_id == id)
			return c;
	}
	return NULL;
}

static bool has_room(const struct world *w, const struct conf_peer *peer)
{
	int64_t most = peer->pool_size == CONF_UNSET ? w->conf->settings.default_pool_size : peer->pool_size;
	struct peer_count count = peers_count(w, peer->id);

	return most == 0 || count.connecting + count.handed_over < most;
}

void peers_go_on(struct client *canceller)
{
	struct world *w = canceller->peer.world;
	struct peer_call *call = canceller->peer_call;
	const struct conf_peer *peer;

	if (!call || call->begun)
		return;
	peer = find_peer(w->conf, call->peer_id);
	if (!peer) {
		give_up(call, "a RELOAD has taken it away");
		return;
	}
	if (!has_room(w, peer) || next_in_line(w, peer->id) != canceller)
		return;
	call->port = (uint16_t)peer->port;
	find_address(call, peer->host);
}

void peers_forget(struct client *canceller)
{
	struct peer_call *call = canceller->peer_call;
	struct client *next;

	if (!call)
		return;
	canceller->peer_call = NULL;
	next = next_in_line(canceller->peer.world, call->peer_id);
	if (next)
		peer_come_again(&next->peer);
	if (call->request)
		dns_cancel(&call->request);
	if (call->addresses != &call->one)
		mem_free(call->addresses);
	stream_close(&call->stream);
	mem_wipe(call, sizeof(*call));
	mem_free(call);
}

void peers_tick(struct client *canceller)
{
	struct peer_call *call = canceller->peer_call;

	if (call && call->way_ends > 0 && canceller->peer.world->now >= call->way_ends)
		connect_to_next(call, "no answer in time");
	else
		peers_go_on(canceller);
}

struct peer_count peers_count(const struct world *w, int id)
{
	struct peer_count count = { 0, 0, 0 };

	LIST_EACH(node, &w->pools->strangers[CLIENT_WAITING_CANCEL]) {
		const struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (!c->peer_call || c->peer_call->peer_id != id)
			continue;
		if (!c->peer_call->begun)
			count.queued++;
		else if (c->peer_call->stream.phase == STREAM_OPEN)
			count.handed_over++;
		else
			count.connecting++;
	}
	return count;
}
