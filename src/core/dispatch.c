/*
 * Event handlers of connections, which pass events to the room that handles the state of the
 * connection; and opening of client connections.
 *
 * The rooms below do not call these handlers or rooms above them directly; struct world_ops has the
 * functions that they may call.
 */
#include "core/lifecycle.h"

#include "auth/client_address.h"
#include "auth/lookup.h"
#include "backend/dial.h"
#include "base/inline.h"
#include "base/log.h"
#include "cancel/cancel.h"
#include "core/console_client.h"
#include "login/handshake.h"
#include "login/login.h"
#include "login/proxy.h"
#include "pg/frame.h"
#include "pg/message.h"
#include "relay/link.h"
#include "relay/relay.h"
#include "relay/release.h"
#include "relay/request.h"
#include "state/notifiers.h"
#include "state/notify.h"
#include "state/server_session.h"
#include "watch/watcher.h"

#include <unistd.h>

/* ---- both ---- */

static void on_dispatch_drained(struct stream *stream)
{
	struct peer *peer = LIST_OBJECT(stream, struct peer, stream);

	if (!peer_wake(peer))
		return;
	if (peer->is_client)
		relay_client_drained(LIST_OBJECT(peer, struct client, peer));
	else
		relay_server_drained(LIST_OBJECT(peer, struct server, peer));
}

static void on_dispatch_secured(struct stream *stream, const char *error)
{
	struct peer *peer = LIST_OBJECT(stream, struct peer, stream);

	struct client *c = LIST_OBJECT(peer, struct client, peer);

	if (!peer_wake(peer))
		return;
	if (!peer->is_client) {
		dial_secured(LIST_OBJECT(peer, struct server, peer), error);
	} else if (error) {
		client_end(c, REASON_TLS_HANDSHAKE, error);
	} else {
		login_step_to(c, LOGIN_PACKET);
		login_read(c, true);
	}
}

/* ---- clients ---- */

/* The client of an event; NULL: it is ending, and its events are ignored until the reap. */
static ALWAYS_INLINE struct client *client_of_event(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	return peer_wake(&c->peer) ? c : NULL;
}

/* A cancel request has arrived while the client waits for a server. */
static void refuse_waiting(struct client *c)
{
	if (cancel_refuse_waiting(c))
		request_refused(c);
}

/* Passes input to the room that handles the state of the client: the socket may be readable
   (`from_socket`), or received bytes can be handled now. */
static NEVER_INLINE void client_readable(struct client *c, bool from_socket)
{
	unsigned posted = c->peer.posted;

	if (posted) {
		c->peer.posted = 0;
		if (posted & POST_REFUSE)
			refuse_waiting(c);
		if (posted & (POST_READY | POST_LINK))
			link_posted(c, posted);
		if (peer_is_stopped(&c->peer) || (posted & POST_LEAVE && client_leave(c)))
			return;
	}
	switch ((enum client_state)c->pooled.state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
	case CLIENT_LOOKUP:
	case CLIENT_WAITING_LOGIN:
		login_read(c, from_socket);
		return;
	case CLIENT_IDLE:
	case CLIENT_WAITING:
	case CLIENT_ACTIVE:
		if (c->console.is_connected)
			console_client_read(c, from_socket);
		else
			relay_from_client(c, from_socket);
		return;
	case CLIENT_WAITING_CANCEL:
	case CLIENT_ACTIVE_CANCEL:
		cancel_read(c);
		return;
	case CLIENT_DEAD:
	case CLIENT_STATES:
		return;
	}
}

static void on_client_readable(struct stream *stream)
{
	struct client *c = client_of_event(stream);

	if (!c)
		return;
	/* the common case: a request. A client in LOGIN or ending is not IDLE */
	if (c->pooled.state == CLIENT_IDLE && !c->console.is_connected)
		relay_from_client(c, true);
	else
		client_readable(c, true);
}

static bool request_client_step(struct stream *stream)
{
	struct client *c = client_of_event(stream);

	return c && handshake_request_step(c);
}

static const struct stream_ops client_stream = {
	.on_readable = on_client_readable,
	.on_drained = on_dispatch_drained,
	.on_secured = on_dispatch_secured,
	.request_step = request_client_step,
};

/* A new connection on a listening socket with this port. False: refused, or no memory; the
   descriptor is closed, or will be closed in the reap. */
static bool client_open(struct world *w, int fd, const struct address *remote, bool is_unix,
			uint16_t port)
{
	const struct settings *set = &w->conf->settings;
	enum close_reason too_many = set->max_login_clients > 0 ? REASON_MAX_LOGIN_CLIENTS
								: REASON_MAX_CLIENT_CONN;
	int64_t most = set->max_login_clients > 0 ? set->max_login_clients : set->max_client_conn;
	struct client *c = mem_try(sizeof(*c));

	if (c)
		peer_init(&c->peer, w, true);
	if (!c || !login_begin(c) || !stream_open(&c->peer.stream, w->base, fd, &client_stream)) {
		if (c)
			login_free(c);
		mem_free(c);
		close(fd);
		log_warning("out of memory: a new connection was closed");
		return false;
	}
	peer_number(&c->peer);
	peer_connected(&c->peer);
	client_login_begins(c, w->now);
	client_note_activity(c, w->now);
	peer_enter(&c->peer);
	brief_address_of(&c->peer.remote, remote, port);
	/* if the kernel does not tell the user of the peer, the peer must not count as root */
	if (is_unix &&
	    !address_unix_peer(fd, &c->peer.remote.u.peer.pid, &c->peer.remote.u.peer.uid))
		c->peer.remote.u.peer.uid = UINT32_MAX;
	pool_client_init(w->pools, &c->pooled, w->now);
	if (!client_address_enter(c)) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	proxy_expect(c);
	/* with tcp_defer_accept the start-up packet has usually arrived */
	client_readable(c, true);
	if (c->login && c->login->address && w->logins.addresses->login_count > most &&
	    !displace_login(c, too_many))
		client_end(c, too_many, NULL);
	return true;
}

/* ---- servers ---- */

/* Returns the server of an event; NULL: it is ending, and its events are ignored until the reap. */
static ALWAYS_INLINE struct server *server_of_event(struct stream *stream)
{
	struct server *s = LIST_OBJECT(stream, struct server, peer.stream);

	return peer_wake(&s->peer) ? s : NULL;
}

/* The server connection carries a cancel request. PostgreSQL answers by closing it. */
static void carrier_readable(struct server *carrier)
{
	char scrap[512];
	ssize_t r = stream_read(&carrier->peer.stream, scrap, sizeof(scrap));

	if (r < 0)
		server_end(carrier, REASON_CANCEL_SENT, NULL);
}

/* Passes input to the room that handles the state of the server: the socket may be readable
   (`from_socket`), or received bytes can be handled now. */
static NEVER_INLINE void server_readable(struct server *s, bool from_socket)
{
	switch ((enum server_state)s->pooled.state) {
	case SERVER_LOGIN:
		dial_read(s, from_socket);
		if (s->dial || s->pooled.state != SERVER_LOGIN)
			return;
		if (s->pooled.is_watcher)
			watch_begin(s);
		else
			server_begin(s);
		return;
	case SERVER_ACTIVE_CANCEL:
		carrier_readable(s);
		return;
	case SERVER_LOOKUP:
		lookup_read(s, from_socket);
		return;
	case SERVER_FINISHING:
		relay_from_server(s, from_socket);
		finish_continue(s);
		return;
	case SERVER_IDLE:
	case SERVER_USED:
	case SERVER_TESTED:
	case SERVER_ACTIVE:
	case SERVER_LISTENING:
	case SERVER_BEING_CANCELED:
	case SERVER_WATCHING:
		relay_from_server(s, from_socket);
		return;
	case SERVER_DEAD:
	case SERVER_STATES:
		return;
	}
}

static void on_server_readable(struct stream *stream)
{
	struct server *s = server_of_event(stream);

	if (!s)
		return;
	/* the common case: the server works for a client */
	if (s->pooled.state == SERVER_ACTIVE)
		relay_from_server(s, true);
	else
		server_readable(s, true);
}

static void on_server_connected(struct stream *stream, const char *error)
{
	struct server *s = server_of_event(stream);

	if (s)
		dial_connected(s, error);
}

static const struct stream_ops server_stream = {
	.on_readable = on_server_readable,
	.on_drained = on_dispatch_drained,
	.on_connected = on_server_connected,
	.on_secured = on_dispatch_secured,
};

/* ---- the turn ---- */

/* Reads a peer of world->peers.again. */
static void dispatch_visit(struct peer *peer)
{
	peer_forget_again(peer);
	world_set_current(peer->world, peer);
	if (peer->is_client)
		client_readable(LIST_OBJECT(peer, struct client, peer),
				stream_has_buffered(&peer->stream));
	else
		server_readable(LIST_OBJECT(peer, struct server, peer),
				stream_has_buffered(&peer->stream));
}

void world_again(struct world *w)
{
	world_set_current(w, NULL);
	if (!list_is_empty(&w->peers.again)) {
		struct list now;

		w->loop.reads_again = true;
		/* peers that are put on the list meanwhile are handled in the next turn, unless
		   they have posts */
		list_init(&now);
		while (!list_is_empty(&w->peers.again)) {
			struct list *node = w->peers.again.next;

			list_remove(node);
			list_append(&now, node);
		}
		while (!list_is_empty(&now))
			dispatch_visit(LIST_OBJECT(now.next, struct peer, again));
		while (!list_is_empty(&w->peers.again) &&
		       LIST_OBJECT(w->peers.again.next, struct peer, again)->posted)
			dispatch_visit(LIST_OBJECT(w->peers.again.next, struct peer, again));
		w->loop.reads_again = false;
		world_set_current(w, NULL);
	}
	if (w->notify.deliveries > 0 || w->notify.clients_wait)
		notify_clients_flush(w);
	if (w->notify.is_wait_due)
		notifiers_continue(w);
}

/* ---- functions for the rooms below ---- */

const struct world_ops dispatch_ops = {
	.client_stream = &client_stream,
	.server_stream = &server_stream,
	.accepted = client_open,
	.proven = login_proven,
};
