/*
 * A client in a handover: all members of its struct, and its socket.
 *
 * A client can be handed over in most states: idle, in the queue, in a transaction, in the middle of a message, with owed
 * answers (the ledger belongs to its server), with unsent output. It cannot be handed over if a part of its state is elsewhere:
 * with TLS (the state is in the library), during authentication, while a console command waits, as a cancel request, or with a
 * server that cannot be handed over.
 *
 * Invariant: an unpacked client is registered before anything else is done with it, so that handover_undo finds it after any
 * later failure.
 */
#include "handover/handover_parts.h"

#include "auth/client_address.h"
#include "state/session_state.h"
#include "base/assert.h"
#include "cancel/cancel.h"
#include "login/login.h"
#include "prepared/prepared.h"

#include <string.h>
#include <unistd.h>

#define KEY_LEAST 4

/* ---- clients that can be handed over ---- */

static bool stream_may_be_given(const struct stream *stream)
{
	return stream->phase == STREAM_OPEN && !stream->ssl && !stream->write_failed;
}

static bool is_fresh(const struct client *c)
{
	return c->login && c->login->step == LOGIN_PACKET && !c->login->user && !c->login->direct && bytes_size(&c->login->out) == 0;
}

static bool console_is_at_rest(const struct client *c)
{
	const struct world *w = c->peer.world;

	return w->console && w->console->is_at_rest(w->console_context, c);
}

bool client_itself_may_be_given(const struct client *c)
{
	if (!stream_may_be_given(&c->peer.stream))
		return false;
	/* a replication client has its login until it has a server */
	if (c->login && c->pooled.state != CLIENT_STARTUP)
		return false;
	switch ((enum client_state)c->pooled.state) {
	case CLIENT_STARTUP:
		return is_fresh(c);
	case CLIENT_IDLE:
	case CLIENT_WAITING:
		return c->is_console ? console_is_at_rest(c) : true;
	case CLIENT_ACTIVE:
		return c->pooled.link && server_itself_may_be_given(server_of(c->pooled.link));
	case CLIENT_AUTH: case CLIENT_LOOKUP: case CLIENT_WAITING_LOGIN: case CLIENT_WAITING_CANCEL: case CLIENT_ACTIVE_CANCEL:
	case CLIENT_DEAD: case CLIENT_STATES:
		return false;
	}
	return false;
}

bool client_may_be_given(const struct client *c)
{
	return client_itself_may_be_given(c) && !(c->hears && listener_stays(c->pooled.pool));
}

/* ---- members shared with servers ---- */

void peer_pack(struct bytes *out, const struct peer *peer)
{
	bytes_append_u8(out, peer->remote.family);
	bytes_append_u16(out, peer->remote.port);
	pack_blob(out, &peer->remote.u, sizeof(peer->remote.u));
	pack_i64(out, peer->connected_at);
	pack_i64(out, peer->request_at);
	bytes_append_u32(out, peer->passing);
	pack_bool(out, peer->passing_dropped);
	pack_blob(out, peer->held.data ? bytes_front(&peer->held) : NULL, bytes_size(&peer->held));
	pack_blob(out, peer->stream.out.data ? bytes_front(&peer->stream.out) : NULL, stream_unsent(&peer->stream));
}

void peer_unpack(struct unpack *in, struct handover *h, struct peer *peer)
{
	const uint8_t *held, *unsent;
	size_t held_size, unsent_size;

	peer->remote.family = unpack_u8(in);
	peer->remote.port = unpack_u16(in);
	unpack_exactly(in, &peer->remote.u, sizeof(peer->remote.u));
	peer->connected_at = unpack_i64(in);
	peer->request_at = unpack_i64(in);
	peer->passing = unpack_u32(in);
	peer->passing_dropped = unpack_bool(in);
	held = unpack_blob(in, &held_size);
	unsent = unpack_blob(in, &unsent_size);
	if (in->bad)
		return;
	bytes_append(&peer->held, held, held_size);
	in->bad |= peer->held.failed || (unsent_size > 0 && !handover_put_by(h, peer, unsent, unsent_size));
}

/* In the middle of a message to the other side, no other message can be sent there. */
bool peer_is_in_message(struct unpack in)
{
	size_t size;
	uint32_t passing;

	unpack_u8(&in);
	unpack_u16(&in);
	unpack_blob(&in, &size);
	unpack_i64(&in);
	unpack_i64(&in);
	passing = unpack_u32(&in);
	return in.bad || (passing > 0 && !unpack_bool(&in));
}

/* Unsent bytes may be the rest of a message: no other message can be sent there. */
static bool peer_has_unsent(struct unpack in)
{
	size_t size;

	unpack_u8(&in);
	unpack_u16(&in);
	unpack_blob(&in, &size);
	unpack_i64(&in);
	unpack_i64(&in);
	unpack_u32(&in);
	unpack_bool(&in);
	unpack_blob(&in, &size);
	unpack_blob(&in, &size);
	return in.bad || size > 0;
}

/* ---- packing ---- */

static void key_pack(struct bytes *out, const struct client *c)
{
	pack_bool(out, c->has_cancel_key);
	bytes_append_u32(out, c->cancel_pid);
	pack_blob(out, c->cancel_key, c->cancel_key_size);
}

static void facts_pack(struct bytes *out, const struct client *c)
{
	pack_i64(out, c->pooled.since);
	pack_i64(out, c->login_since);
	pack_i64(out, c->last_active);
	pack_i64(out, c->query_started);
	pack_i64(out, c->transaction_started);
	pack_bool(out, c->pooled.notified);
	bytes_append_u32(out, c->pooled.dedicated);
	bytes_append_u8(out, c->replication);
	pack_bool(out, c->shares_server);
	pack_bool(out, c->shares_names);
	pack_bool(out, c->in_transaction);
	pack_bool(out, c->refused_until != 0);
	bytes_append_u8(out, c->refused_until);
	bytes_append_u32(out, c->collects);
	bytes_append_u8(out, c->minor);
	pack_bool(out, c->is_console);
	pack_bool(out, c->is_admin);
	pack_bool(out, c->may_show);
}

static void params_or_none_pack(struct bytes *out, const struct params_table *table, const struct params *set)
{
	pack_bool(out, set != NULL);
	if (set)
		params_pack(out, table, set);
}

static void session_pack(struct bytes *out, const struct client *c)
{
	const struct client_session *session = c->session;

	pack_bool(out, c->keeps_state);
	bytes_append_u8(out, c->pooled.pins);
	params_or_none_pack(out, c->peer.world->params, session ? session->first : NULL);
	if (!session)
		return;
	bytes_append_u16(out, session->calls);
	bytes_append_u16(out, session->unnamed_calls);
	bytes_append_u8(out, session->pins_logged);
	pack_bool(out, session->pin_is_granted);
	pack_i64(out, session->pinned_since);
	pack_i64(out, session->asked_at);
	pack_bool(out, session->unlistens);
	pack_bool(out, session->draws);
	pack_bool(out, session->reads_values);
	pack_blob(out, session->names.data ? bytes_front(&session->names) : NULL, bytes_size(&session->names));
}

void client_pack(struct bytes *out, const struct client *c)
{
	const struct world *w = c->peer.world;

	bytes_append_u8(out, c->pooled.state);
	pack_text(out, c->pooled.login_user ? c->pooled.login_user->name : NULL);
	pack_u64(out, c->peer.id);
	peer_pack(out, &c->peer);
	if (c->pooled.state == CLIENT_STARTUP) {
		pack_i64(out, c->login_since);
		pack_bool(out, c->login->ssl_asked);
		pack_bool(out, c->login->gss_asked);
		return;
	}
	facts_pack(out, c);
	key_pack(out, c);
	params_or_none_pack(out, w->params, c->params);
	params_or_none_pack(out, w->params, c->pooled.startup);
	session_pack(out, c);
	prepared_client_pack(out, c);
	notify_client_pack(out, c);
}

/* ---- unpacking ---- */

static void key_unpack(struct unpack *in, struct client *c)
{
	bool has = unpack_bool(in);
	const uint8_t *key;
	size_t size;

	c->cancel_pid = unpack_u32(in);
	key = unpack_blob(in, &size);
	in->bad |= size > sizeof(c->cancel_key) || (has && size < KEY_LEAST);
	if (in->bad || !has)
		return;
	memcpy(c->cancel_key, key, size);
	c->cancel_key_size = (uint8_t)size;
	in->bad |= cancel_find(c->peer.world, c->cancel_pid, key, size) || !cancel_enlist(c);
}

/* Returns when its state began. */
static usec_t facts_unpack(struct unpack *in, struct client *c)
{
	usec_t since = unpack_i64(in);
	bool is_refused;

	c->login_since = unpack_i64(in);
	c->last_active = unpack_i64(in);
	c->query_started = unpack_i64(in);
	c->transaction_started = unpack_i64(in);
	c->pooled.notified = unpack_bool(in);
	c->pooled.dedicated = unpack_u32(in);
	c->replication = unpack_u8(in);
	in->bad |= c->replication > REPLICATION_PHYSICAL;
	c->shares_server = unpack_bool(in);
	c->shares_names = unpack_bool(in);
	c->in_transaction = unpack_bool(in);
	is_refused = unpack_bool(in);
	c->refused_until = unpack_u8(in);
	/* older versions sent the type of the last refused request */
	if (!is_refused)
		c->refused_until = 0;
	c->collects = unpack_u32(in);
	c->minor = unpack_u8(in);
	c->is_console = unpack_bool(in);
	if (unpack_bool(in))
		client_address_set_administrator(c);
	c->may_show = unpack_bool(in);
	return since;
}

static const struct params *params_or_none_unpack(struct unpack *in, struct params_table *table)
{
	const struct params *set;

	if (!unpack_bool(in))
		return NULL;
	set = params_unpack(in, table);
	in->bad |= !set;
	return set;
}

static void fresh_unpack(struct unpack *in, struct client *c)
{
	c->login_since = c->last_active = c->pooled.since = unpack_i64(in);
	if (!login_begin(c)) {
		in->bad = true;
		return;
	}
	c->login->ssl_asked = unpack_bool(in);
	c->login->gss_asked = unpack_bool(in);
}

/* Puts the client into its pool, in its state. */
static void take_place(struct unpack *in, struct handover *h, struct client *c, enum client_state state, const char *login_user, usec_t since)
{
	struct world *w = c->peer.world;
	struct user *user = login_user ? user_get(w->pools, login_user) : NULL;
	bool notified = c->pooled.notified;

	in->bad |= !user || !h->pool || !c->params || !c->pooled.startup || (state == CLIENT_ACTIVE) != (h->server != NULL) ||
		   (state != CLIENT_IDLE && state != CLIENT_WAITING && state != CLIENT_ACTIVE) ||
		   c->is_console != h->pool->database->is_console || (c->is_console && state != CLIENT_IDLE);
	if (in->bad)
		return;
	pool_client_join(&c->pooled, h->pool, user);
	h->pool->reads_sequences |= c->session && c->session->reads_values;
	pool_client_become(w->pools, &c->pooled, CLIENT_IDLE, since);
	if (state == CLIENT_WAITING)
		pool_client_become(w->pools, &c->pooled, CLIENT_WAITING, since);
	if (state == CLIENT_ACTIVE)
		pool_relink(&h->server->pooled, &c->pooled, since);
	c->pooled.notified = notified;
	if (c->is_console)
		in->bad |= !w->console->adopt(w->console_context, c);
}

/* Returns the pins, to be set when the client has its server. */
static unsigned session_unpack(struct unpack *in, struct client *c)
{
	struct client_session read = { .count = 0 };
	const struct params *first;
	const uint8_t *names;
	unsigned pins;
	size_t size;

	c->keeps_state = unpack_bool(in);
	pins = unpack_u8(in);
	first = params_or_none_unpack(in, c->peer.world->params);
	in->bad |= (c->keeps_state && !first) || pins >= 1u << PINS;
	if (!first)
		return pins;
	read.calls = unpack_u16(in);
	read.unnamed_calls = unpack_u16(in);
	read.pins_logged = unpack_u8(in);
	read.pin_is_granted = unpack_bool(in);
	read.pinned_since = unpack_i64(in);
	read.asked_at = unpack_i64(in);
	read.unlistens = unpack_bool(in);
	read.draws = unpack_bool(in);
	read.reads_values = unpack_bool(in);
	names = unpack_blob(in, &size);
	in->bad = in->bad || !session_state_restore(c, &read, first, (const char *)names, size);
	params_drop(c->peer.world->params, &first);
	return pins;
}

static void logged_in_unpack(struct unpack *in, struct handover *h, struct client *c, enum client_state state, const char *login_user)
{
	usec_t since = facts_unpack(in, c), opened_since = h->server ? h->server->pooled.since : 0;
	unsigned pins;

	key_unpack(in, c);
	c->params = params_or_none_unpack(in, c->peer.world->params);
	c->pooled.startup = params_or_none_unpack(in, c->peer.world->params);
	pins = session_unpack(in, c);
	if (!in->bad)
		take_place(in, h, c, state, login_user, since);
	in->bad |= pins && !c->pooled.link;
	if (in->bad)
		return;
	if (pins)
		pool_client_pin(&c->pooled, pins);
	if (h->server)
		h->server->pooled.since = opened_since;
	prepared_client_unpack(in, h, c);
	notify_client_unpack(in, c);
}

void client_unpack(struct unpack *in, struct handover *h, int fd)
{
	uint8_t state = unpack_u8(in);
	const char *login_user = unpack_text(in);
	uint64_t id = unpack_u64(in);
	struct client *c;

	if (h->no_place != REASON_NONE) {
		bool in_message = peer_has_unsent(*in) || (state == CLIENT_ACTIVE && h->in_message);

		handover_reject(h, fd, in_message ? REJECT_CLOSE : REJECT_TELL);
		in->at = in->end;
		return;
	}
	in->bad |= (state == CLIENT_STARTUP) != (h->pool == NULL);
	if (in->bad) {
		close(fd);
		return;
	}
	c = client_adopt(h->world, fd);
	if (!c) {
		in->bad = true;
		return;
	}
	c->peer.id = id;
	peer_unpack(in, h, &c->peer);
	if (state == CLIENT_STARTUP)
		fresh_unpack(in, c);
	in->bad |= !client_address_enter(c);
	if (state != CLIENT_STARTUP)
		logged_in_unpack(in, h, c, (enum client_state)state, login_user);
	h->server = NULL;
}
