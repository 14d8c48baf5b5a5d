/*
 * A client connection: from the accepted descriptor to the last word. What happens in between lies in login.c,
 * relay_client.c and cancel.c; here is what they all need: the beginning, the end, and the text that log lines begin with.
 *
 * Invariant: a client is in exactly one state, on exactly the list of that state, and dies once (client_end). The struct itself
 * stays until the turn ends, so that whoever is on the stack may still look at its state.
 */
#include "session/client.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text.h"
#include "pg/build.h"
#include "session/auth.h"
#include "session/cancel.h"
#include "session/handshake.h"
#include "session/link.h"
#include "session/login.h"
#include "session/origin.h"
#include "session/prepared.h"
#include "session/relay.h"

#include <string.h>
#include <unistd.h>

static void on_readable(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	/* mostly it has a request; one that ends is not idle any more */
	if (c->policy.state == CLIENT_IDLE && !c->is_console)
		relay_from_client(c, true);
	else
		client_readable(c, true);
}

void client_readable(struct client *c, bool from_socket)
{
	if (c->peer.stopped)
		return;
	switch ((enum client_state)c->policy.state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
	case CLIENT_LOOKUP:
	case CLIENT_WAITING_LOGIN:
		login_read(c, from_socket);
		return;
	case CLIENT_IDLE:
	case CLIENT_WAITING:
	case CLIENT_ACTIVE:
		if (c->is_console)
			console_read(c, from_socket);
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

static void on_drained(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	if (!c->peer.stopped)
		relay_client_drained(c);
}

static void on_secured(struct stream *stream, const char *error)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	if (!c->peer.stopped)
		login_secured(c, error);
}

static bool may_step(struct stream *stream)
{
	struct client *c = LIST_OBJECT(stream, struct client, peer.stream);

	world_wake(c->peer.world);
	return handshake_may_step(c);
}

const struct stream_ops client_stream_ops = {
	.on_readable = on_readable,
	.on_drained = on_drained,
	.on_secured = on_secured,
	.may_step = may_step,
};

/* The limit that a crowd of logins runs against. */
static enum goodbye too_many(const struct world *w)
{
	return w->conf->settings.max_login_clients > 0 ? GOODBYE_MAX_LOGIN_CLIENTS : GOODBYE_MAX_CLIENT_CONN;
}

bool client_open(struct world *w, int fd, const struct address *remote, bool is_unix, uint16_t port)
{
	struct client *c = mem_try(sizeof(*c));

	if (c)
		c->peer.world = w;
	if (!c || !login_begin(c) || !stream_open(&c->peer.stream, w->base, fd, &client_stream_ops)) {
		if (c)
			login_free(c);
		mem_free(c);
		close(fd);
		log_warning("out of memory: a new connection was closed");
		return false;
	}
	c->peer.is_client = true;
	c->peer.id = ++w->last_id;
	c->peer.connected_at = c->peer.request_at = w->now_wall;
	c->last_active = c->login_since = w->now;
	list_init(&c->peer.again);
	list_init(&c->peer.node);
	list_append(&w->clients, &c->peer.node);
	brief_address_of(&c->peer.remote, remote, port);
	/* who cannot be told is nobody, and not root */
	if (is_unix && !address_unix_peer(fd, &c->peer.remote.u.peer.pid, &c->peer.remote.u.peer.uid))
		c->peer.remote.u.peer.uid = UINT32_MAX;
	pool_client_init(w->pools, &c->policy, w->now);
	if (!origin_enter(c)) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return false;
	}
	/* tcp_defer_accept: what the client has to say is mostly here already */
	client_readable(c, true);
	if (origin_has_login(c) && origin_is_crowded(w) && !origin_make_room(c, too_many(w)))
		client_end(c, too_many(w), NULL);
	return true;
}

const char *client_text(const struct client *c, char *buf, size_t size)
{
	char where[80], shown[2][PRINTABLE_NAME];
	const char *database = c->policy.pool ? c->policy.pool->database->name : c->login ? c->login->database : NULL;
	const char *user = c->policy.login_user ? c->policy.login_user->name : c->login ? c->login->user : NULL;

	snprintf(buf, size, "C-0x%llx: %s/%s@%s", (unsigned long long)c->peer.id,
		 database ? printable_name(database, shown[0], sizeof(shown[0])) : "(nodb)",
		 user ? printable_name(user, shown[1], sizeof(shown[1])) : "(nouser)",
		 brief_address_and_port(&c->peer.remote, where, sizeof(where)));
	return buf;
}

bool client_send(struct client *c, const struct bytes *bytes)
{
	if (c->peer.stopped)
		return false;
	if (bytes->failed) {
		client_end(c, GOODBYE_NO_MEMORY, NULL);
		return false;
	}
	if (!stream_write_bytes(&c->peer.stream, bytes->data + bytes->start, bytes_size(bytes))) {
		client_end(c, GOODBYE_CLIENT_EOF, NULL);
		return false;
	}
	return true;
}

static void mark(struct client *c, enum peer_fate fate, enum goodbye why, const char *detail)
{
	struct world *w = c->peer.world;

	c->peer.ended_in = c->policy.state;
	peer_end(&c->peer, fate, why, detail);
	if (c->policy.link)
		server_of(c->policy.link)->peer.stopped = true;
	else
		pool_client_become(w->pools, &c->policy, CLIENT_DEAD, w->now);
}

void client_end(struct client *c, enum goodbye why, const char *detail)
{
	if (c->peer.fate != PEER_STAYS)
		return;
	if (why == GOODBYE_CLIENT_EOF && stream_abuse(&c->peer.stream)) {
		why = GOODBYE_CLIENT_TLS;
		detail = stream_abuse(&c->peer.stream);
	}
	mark(c, PEER_ENDS, why, detail);
}

void client_hand_over(struct client *c)
{
	mark(c, PEER_HANDED_OVER, GOODBYE_NONE, NULL);
}

void client_end_bad_header(struct client *c, const uint8_t *at, size_t n)
{
	char hex[2 * 8 + 1];

	text_hex(hex, at, n < 8 ? n : 8);
	client_end(c, GOODBYE_BAD_HEADER, hex);
}
