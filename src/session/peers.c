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
 */
#include "session/peers.h"

#include "base/text.h"
#include "pg/build.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define HOPS_MOST 3
#define HOPS_BITS 0x03		/* in the second byte of the key */

/* A request on its way to a peer. */
struct peer_call {
	struct stream stream;
	struct client *canceller;
	struct dns_request *request;
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

static void on_connected(struct stream *stream, const char *error)
{
	struct peer_call *call = LIST_OBJECT(stream, struct peer_call, stream);
	struct bytes out = BYTES_EMPTY;
	bool sent;

	world_wake(call->canceller->peer.world);
	if (error) {
		give_up(call, error);
		return;
	}
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

static void connect_to(struct peer_call *call, const struct address *a)
{
	struct world *w = call->canceller->peer.world;

	if (!stream_connect(&call->stream, w->base, &a->u.any, a->size, NULL, &call_ops))
		give_up(call, "connect failed");
}

static void resolved(void *context, const struct dns_answer *answer)
{
	struct peer_call *call = context;
	struct address a;

	world_wake(call->canceller->peer.world);
	call->request = NULL;
	if (answer->count == 0) {
		give_up(call, "its name does not resolve");
		return;
	}
	a = *dns_answer_at(answer, 0);
	if (a.u.any.sa_family == AF_INET6)
		a.u.v6.sin6_port = htons(call->port);
	else
		a.u.v4.sin_port = htons(call->port);
	connect_to(call, &a);
}

static void find_address(struct peer_call *call, const char *host)
{
	bool is_unix = host[0] == '/' || host[0] == '@';
	struct address a;

	if (is_unix ? address_from_unix(&a, host, call->port) : address_from_ip(&a, host, call->port)) {
		connect_to(call, &a);
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
	call->port = (uint16_t)peer->port;
	call->pid = request->cancel_pid;
	call->key_size = request->cancel_key_size;
	memcpy(call->key, key, call->key_size);
	call->key[1]--;
	canceller->peer_call = call;
	pool_client_become(w->pools, &canceller->policy, CLIENT_WAITING_CANCEL, w->now);
	find_address(call, peer->host);
	return true;
}

void peers_forget(struct client *canceller)
{
	struct peer_call *call = canceller->peer_call;

	if (!call)
		return;
	canceller->peer_call = NULL;
	if (call->request)
		dns_cancel(&call->request);
	stream_close(&call->stream);
	mem_wipe(call, sizeof(*call));
	mem_free(call);
}

struct peer_count peers_count(const struct world *w, int id)
{
	struct peer_count count = { 0, 0 };

	LIST_EACH(node, &w->pools->strangers[CLIENT_WAITING_CANCEL]) {
		const struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (!c->peer_call || c->peer_call->peer_id != id)
			continue;
		if (c->peer_call->stream.phase == STREAM_OPEN)
			count.handed_over++;
		else
			count.connecting++;
	}
	return count;
}
