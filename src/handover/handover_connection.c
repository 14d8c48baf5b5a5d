/*
 * Connections in a handover: the state of clients and servers, and their sockets.
 *
 * A client can be handed over in most states: idle, in the queue, in a transaction, in the middle
 * of a message, with owed answers (the ledger belongs to its server), with unsent output; not with
 * TLS (the state is in the library), during authentication, while a console command waits, as a
 * cancel request, or with a server that cannot be handed over.
 *
 * A server's record has its session, the answers it owes (the ledger), its current task and its
 * link: the record of its client follows. A server cannot be handed over with TLS, while it is
 * being opened, or while cancel requests for it are in progress (their connections are in this
 * process).
 *
 * Invariant: an unpacked client is registered before anything else is done with it, so that
 * handover_undo finds it after any later failure.
 */
#include "handover/handover_parts.h"

#include "auth/client_address.h"
#include "auth/lookup.h"
#include "backend/server_info.h"
#include "base/assert.h"
#include "cancel/cancel.h"
#include "conn/client.h"
#include "login/login.h"
#include "pool/host.h"
#include "pool/role.h"
#include "prepared/prepared.h"
#include "relay/read_auto.h"
#include "relay/release.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_functions.h"
#include "state/session_question.h"
#include "state/session_restore.h"
#include "state/identity.h"
#include "state/session_state.h"
#include "state/session_values.h"

#include <string.h>
#include <unistd.h>

#define KEY_LEAST 4

/* ---- connections that can be handed over ---- */

static bool stream_may_be_given(const struct stream *s)
{
	return s->phase == STREAM_OPEN && !s->ssl && !s->write_failed;
}

/* Without checking its client and the listener of its pool. */
static bool server_itself_may_be_given(const struct server *s)
{
	const struct pool_server *p = &s->pooled;
	const struct client *c;

	if (!stream_may_be_given(&s->peer.stream) || p->is_cancel || p->is_watcher ||
	    p->cancels > 0 || s->dial || s->lookup)
		return false;
	switch ((enum server_state)p->state) {
	case SERVER_IDLE: case SERVER_USED: case SERVER_TESTED: case SERVER_LISTENING:
		return true;
	case SERVER_ACTIVE:
		c = p->link->is_internal ? NULL : client_of(p->link);
		return c && !c->login && stream_may_be_given(&c->peer.stream);
	case SERVER_LOGIN:
	case SERVER_LOOKUP:
	case SERVER_BEING_CANCELED:
	case SERVER_ACTIVE_CANCEL:
	case SERVER_FINISHING:
	case SERVER_WATCHING:
	case SERVER_DEAD:
	case SERVER_STATES:
		return false;
	}
	return false;
}

/* Without checking the other clients of its pool that must stay or be handed over together with
   it. */
static bool client_itself_may_be_given(const struct client *c)
{
	const struct world *w = c->peer.world;

	if (!stream_may_be_given(&c->peer.stream))
		return false;
	/* a replication client has its login until it has a server */
	if (c->login && c->pooled.state != CLIENT_STARTUP)
		return false;
	switch ((enum client_state)c->pooled.state) {
	case CLIENT_STARTUP:
		return c->login && c->login->step == LOGIN_PACKET && !c->login->user &&
		       !c->login->direct && bytes_size(&c->login->out) == 0;
	case CLIENT_IDLE:
	case CLIENT_WAITING:
		return !c->is_console ||
		       (w->console.ops && w->console.ops->is_at_rest(w->console.context, c));
	case CLIENT_ACTIVE:
		return c->pooled.link && server_itself_may_be_given(server_of(c->pooled.link));
	case CLIENT_AUTH:
	case CLIENT_LOOKUP:
	case CLIENT_WAITING_LOGIN:
	case CLIENT_WAITING_CANCEL:
	case CLIENT_ACTIVE_CANCEL:
	case CLIENT_DEAD: case CLIENT_STATES:
		return false;
	}
	return false;
}

/* The listener of a pool and the clients that LISTEN are handed over together or not at all,
   because notifications for the listener must reach its clients. They stay if one of them cannot be
   handed over, while channels move between connections, and while a client waits for the
   listener. */
static bool is_busy(const struct notify_server *l)
{
	return l->server &&
	       (l->server->task || !list_is_empty(&l->movers) || !list_is_empty(&l->barriers));
}

void listeners_decide(const struct world *w)
{
	LIST_EACH(node, &w->pools->all) {
		struct notify_server *l = notify_server_of(LIST_OBJECT(node, struct pool, node));
		bool goes = l && l->server && !is_busy(l) && server_itself_may_be_given(l->server);

		if (!l)
			continue;
		LIST_EACH(other, &l->clients)
			goes = goes &&
			       client_itself_may_be_given(
				       LIST_OBJECT(other, struct notify_client, node)->client);
		l->stays = l->server && !goes;
	}
}

static bool listener_stays(const struct pool *pool)
{
	const struct notify_server *l = notify_server_of(pool);

	return l && l->stays;
}

bool handover_includes(struct peer *peer)
{
	const struct client *c = peer->is_client ? LIST_OBJECT(peer, struct client, peer) : NULL;
	const struct server *s = peer->is_client ? NULL : LIST_OBJECT(peer, struct server, peer);
	bool hears;

	if (c)
		return client_itself_may_be_given(c) &&
		       !(c->hears && listener_stays(c->pooled.pool));
	hears = s->pooled.link && !s->pooled.link->is_internal && client_of(s->pooled.link)->hears;
	return server_itself_may_be_given(s) &&
	       !((hears || s->pooled.state == SERVER_LISTENING) && listener_stays(s->pooled.pool));
}

bool handover_is_calm(const struct world *w)
{
	const int *unauthenticated = w->pools->unauthenticated_count;

	if (unauthenticated[CLIENT_AUTH] + unauthenticated[CLIENT_LOOKUP] +
			    unauthenticated[CLIENT_WAITING_CANCEL] >
		    0 ||
	    w->logins.lookups->by_key)
		return false;
	/* posts are not in the records */
	if (!list_is_empty(&w->peers.again) &&
	    LIST_OBJECT(w->peers.again.next, struct peer, again)->posted)
		return false;
	LIST_EACH(node, &w->pools->all) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);
		const struct notify_server *listener = notify_server_of(pool);
		const int *clients = pool->client_count, *servers = pool->server_count;

		if (clients[CLIENT_WAITING_LOGIN] + clients[CLIENT_WAITING_CANCEL] +
				    clients[CLIENT_ACTIVE_CANCEL] + servers[SERVER_ACTIVE_CANCEL] +
				    servers[SERVER_BEING_CANCELED] + servers[SERVER_FINISHING] +
				    pool->apart_logins >
			    0 ||
		    (listener && is_busy(listener)))
			return false;
	}
	LIST_EACH(node, &w->pools->unauthenticated[CLIENT_STARTUP])
		if (!handover_includes(
			    &client_of(LIST_OBJECT(node, struct pool_client, node))->peer))
			return false;
	return true;
}

/* ---- members that clients and servers share ---- */

static void peer_pack(struct bytes *out, const struct peer *peer)
{
	bytes_append_u8(out, peer->remote.family);
	bytes_append_u16(out, peer->remote.port);
	pack_blob(out, &peer->remote.u, sizeof(peer->remote.u));
	pack_i64(out, peer->connected_at);
	pack_i64(out, peer->request_at);
	bytes_append_u32(out, peer->passing);
	pack_bool(out, peer->passing_dropped);
	pack_blob(out, peer->held.data ? bytes_front(&peer->held) : NULL, bytes_size(&peer->held));
	pack_blob(out, peer->stream.out.data ? bytes_front(&peer->stream.out) : NULL,
		  stream_unsent(&peer->stream));
}

/* Keeps unsent bytes for handover_finish. */
static void peer_unpack(struct unpack *in, struct handover *h, struct peer *peer)
{
	const uint8_t *held, *unsent;
	size_t held_size, unsent_size;
	struct unsent *more;

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
	in->bad |= peer->held.failed;
	if (in->bad || unsent_size == 0)
		return;
	more = mem_resize(h->unsent, (h->unsent_count + 1) * sizeof(*more));
	in->bad |= !more;
	if (!more)
		return;
	h->unsent = more;
	more += h->unsent_count++;
	*more = (struct unsent){ .peer = peer, .bytes = BYTES_EMPTY };
	bytes_append(&more->bytes, unsent, unsent_size);
	in->bad |= more->bytes.failed;
}

/* Takes the descriptor, which is closed at the end of the handover with the reason in
   h->no_place. */
static void reject(struct handover *h, int fd, enum reject_way way)
{
	struct rejected *more = mem_resize(h->rejected, (h->rejected_count + 1) * sizeof(*more));

	/* without memory the connection ends when this process closes it; it has to end anyway */
	if (!more) {
		close(fd);
		return;
	}
	h->rejected = more;
	h->rejected[h->rejected_count++] = (struct rejected){ fd, way, h->no_place };
}

/* Looks at the record of a peer that is not unpacked. No other message can be sent to the peer
   after unsent bytes, and none to its other side in the middle of a message that this peer sends. A
   malformed record counts as both. */
static void peer_skim(struct unpack in, bool *has_unsent, bool *is_in_message)
{
	uint32_t passing;
	size_t size;

	unpack_u8(&in);
	unpack_u16(&in);
	unpack_blob(&in, &size);
	unpack_i64(&in);
	unpack_i64(&in);
	passing = unpack_u32(&in);
	*is_in_message = !unpack_bool(&in) && passing > 0;
	unpack_blob(&in, &size);
	unpack_blob(&in, &size);
	*has_unsent = in.bad || size > 0;
	*is_in_message |= in.bad;
}

/* ---- the channels of a client ---- */

static void notify_client_pack(struct bytes *out, const struct client *c)
{
	const struct notify_client *h = c->hears ? c->session->notify_client : NULL;

	pack_bool(out, h != NULL);
	if (!h)
		return;
	LIST_EACH(node, &h->subscriptions) {
		const struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		pack_text(out, s->channel->name);
		pack_bool(out, s->from_server);
		pack_bool(out, s->from_listener);
	}
	pack_text(out, NULL);
	bytes_append_u8(out, h->step);
	pack_blob(out, h->pending.data ? bytes_front(&h->pending) : NULL, bytes_size(&h->pending));
}

static void notify_client_unpack(struct unpack *in, struct client *c)
{
	const uint8_t *pending;
	const char *name;
	size_t size;
	struct notify_client *h;
	uint8_t step;

	if (!unpack_bool(in) || in->bad)
		return;
	in->bad |= !c->session;
	while (!in->bad && (name = unpack_text(in)) != NULL) {
		bool from_server = unpack_bool(in), from_listener = unpack_bool(in);

		in->bad = in->bad || !*name ||
			  !notify_client_restore(c, name, from_server, from_listener);
	}
	step = unpack_u8(in);
	h = in->bad ? NULL : c->session->notify_client;
	in->bad |= !h || step > NOTIFY_LEAVES;
	if (in->bad)
		return;
	h->step = step;
	pending = unpack_blob(in, &size);
	if (in->bad)
		return;
	bytes_append(&h->pending, pending, size);
	in->bad |= h->pending.failed;
}

/* ---- packing a client ---- */

static void client_session_pack(struct bytes *out, const struct client *c)
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
	pack_bool(out, session->has_prepared);
	pack_u64(out, session->prepared_as_of);
	pack_bool(out, session->unlistens);
	bytes_append_u8(out, session->notifies);
	pack_bool(out, session->draws);
	pack_bool(out, session->sets_values);
	pack_bool(out, session->fills);
	pack_bool(out, session->unnamed_fills);
	pack_bool(out, session->prepared_reads);
	pack_bool(out, session->asks_values_first);
	session_values_pack(out, session->values);
	pack_bool(out, c->has_lost_values);
	pack_blob(out, session->names.data ? bytes_front(&session->names) : NULL,
		  bytes_size(&session->names));
}

/* Returns how many bytes of a statement for a standby are still to be sent, or the size of a
   statement that a lost server may have executed. */
static uint32_t unsent_of(const struct client *c)
{
	const struct retry *r = c->retry;

	if (r && r->step == AUTO_DOUBTED)
		return (uint32_t)r->size;
	return r && r->step == AUTO_AWAY && read_is_incomplete(c) ? (uint32_t)(r->size - r->sent)
								  : 0;
}

void client_pack(struct sender *sender, struct bytes *out, const struct client *c)
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
	pack_i64(out, c->pooled.since);
	pack_i64(out, c->login_since);
	pack_i64(out, c->last_active);
	pack_i64(out, c->query_started);
	pack_i64(out, c->transaction_started);
	pack_bool(out, c->pooled.notified);
	bytes_append_u8(out, c->pooled.own_target);
	bytes_append_u8(out, c->reads & (READING_SESSION | READING_BEGIN | READING_HERE |
					 READING_PRIMARY | READING_FAILED));
	pack_blob(out, c->begin, c->reads & READING_BEGIN ? 1 + pg_u32_at(c->begin + 1) : 0);
	pack_bool(out, c->retry && c->pooled.link && c->retry->step == AUTO_AWAY);
	bytes_append_u32(out, unsent_of(c));
	bytes_append_u32(out, c->pooled.dedicated);
	pack_blob(out, c->login_took, sizeof(c->login_took));
	bytes_append_u8(out, c->waited);
	bytes_append_u8(out, c->waited_for);
	bytes_append_u32(out, c->waited_at);
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
	pack_bool(out, c->has_cancel_key);
	bytes_append_u32(out, c->cancel_pid);
	pack_blob(out, c->cancel_key, c->cancel_key_size);
	params_or_none_pack(out, w->params, c->params);
	params_or_none_pack(out, w->params, c->pooled.startup);
	client_session_pack(out, c);
	prepared_client_pack(&sender->statements, out, c);
	notify_client_pack(out, c);
}

/* ---- unpacking a client ---- */

/* Puts the client into its pool, in its state. */
static void client_take_place(struct unpack *in, struct handover *h, struct client *c,
			      enum client_state state, const char *login_user, usec_t since)
{
	struct world *w = c->peer.world;
	struct user *user = login_user ? user_get(w->pools, login_user) : NULL;
	bool notified = c->pooled.notified;

	in->bad |= !user || !h->pool || !c->params || !c->pooled.startup ||
		   (state == CLIENT_ACTIVE) != (h->server != NULL) ||
		   (state != CLIENT_IDLE && state != CLIENT_WAITING && state != CLIENT_ACTIVE) ||
		   c->is_console != h->pool->database->is_console ||
		   (c->is_console && state != CLIENT_IDLE);
	if (in->bad)
		return;
	pool_client_join(&c->pooled, h->pool, user);
	in->bad |= !c->is_console && !pool_client_adopt(&c->pooled, w->now);
	client_prepare_retry(c);
	pool_client_become(w->pools, &c->pooled, CLIENT_IDLE, since);
	if (state == CLIENT_WAITING)
		pool_client_become(w->pools, &c->pooled, CLIENT_WAITING, since);
	if (state == CLIENT_ACTIVE) {
		struct stats *total = &h->pool->database->stats.total, before = *total;

		pool_link(&h->server->pooled, &c->pooled, since);
		/* the previous process has counted this assignment */
		*total = before;
	}
	c->pooled.notified = notified;
	in->bad |= c->is_console && !w->console.ops->adopt(w->console.context, c);
}

/* Returns the pins, to be set when the client has its server. */
static unsigned client_session_unpack(struct unpack *in, struct client *c)
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
	read.has_prepared = unpack_bool(in);
	read.prepared_as_of = unpack_u64(in);
	read.unlistens = unpack_bool(in);
	read.notifies = unpack_u8(in);
	read.draws = unpack_bool(in);
	read.sets_values = unpack_bool(in);
	read.draws_now = true;
	read.fills = unpack_bool(in);
	read.unnamed_fills = unpack_bool(in);
	read.prepared_reads = unpack_bool(in);
	read.asks_values_first = unpack_bool(in);
	in->bad |= !session_values_unpack(in, &read.values);
	c->has_lost_values = unpack_bool(in);
	names = unpack_blob(in, &size);
	if (!session_state_unpack(c, &read, first, (const char *)names, size))
		in->bad = true;
	if (!c->session)
		session_values_free(&read.values);
	params_drop(c->peer.world->params, &first);
	return pins;
}

/* The request of a client is not handed over: it cannot be sent again. `is_away`: it is a statement
   for a standby, and the server has not got its last `unsent` bytes. Otherwise `unsent` is the size
   of a statement that a lost server may have executed, or 0. */
static void retry_unpacked(struct client *c, bool is_away, size_t unsent)
{
	struct retry *r = c->retry;

	if (r && !is_away && unsent > 0) {
		r->step = AUTO_DOUBTED;
		r->size = unsent;
	}
	if (!r || !c->pooled.link || r->step == AUTO_DOUBTED)
		return;
	c->is_retry_linked = true;
	/* until the next answer */
	r->is_bound = r->is_ended = true;
	r->size = unsent;
	r->step = is_away ? AUTO_AWAY : AUTO_NOT;
}

static void logged_in_unpack(struct unpack *in, struct handover *h, struct client *c,
			     enum client_state state, const char *login_user)
{
	usec_t since = unpack_i64(in), opened_since = h->server ? h->server->pooled.since : 0;
	bool is_refused, has_key, is_away;
	const uint8_t *key;
	unsigned pins;
	size_t size, unsent;

	c->login_since = unpack_i64(in);
	c->last_active = unpack_i64(in);
	c->query_started = unpack_i64(in);
	c->transaction_started = unpack_i64(in);
	c->pooled.notified = unpack_bool(in);
	c->pooled.own_target = unpack_u8(in);
	in->bad |= c->pooled.own_target > TARGET_PREFER_STANDBY;
	c->reads = unpack_u8(in);
	key = unpack_blob(in, &size);
	if (!in->bad && c->reads & READING_BEGIN)
		c->begin = size > PG_HEADER && size == 1 + pg_u32_at(key + 1) ? mem_try(size)
									      : NULL;
	in->bad |= c->reads & READING_BEGIN && !c->begin;
	if (c->begin)
		memcpy(c->begin, key, size);
	is_away = unpack_bool(in);
	unsent = unpack_u32(in);
	c->pooled.dedicated = unpack_u32(in);
	unpack_exactly(in, c->login_took, sizeof(c->login_took));
	c->waited = unpack_u8(in);
	c->waited_for = unpack_u8(in);
	c->waited_at = unpack_u32(in);
	for (int i = 0; i < LOGIN_PARTS; i++)
		in->bad |= c->login_took[i] >= LATENCY_BUCKETS;
	in->bad |= c->waited >= LATENCY_BUCKETS || c->waited_for >= POOL_LIMITS;
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
	has_key = unpack_bool(in);
	c->cancel_pid = unpack_u32(in);
	key = unpack_blob(in, &size);
	in->bad |= size > sizeof(c->cancel_key) || (has_key && size < KEY_LEAST);
	if (!in->bad && has_key) {
		memcpy(c->cancel_key, key, size);
		c->cancel_key_size = (uint8_t)size;
		in->bad |= cancel_find(c->peer.world, c->cancel_pid, key, size) ||
			   !cancel_enlist(c);
	}
	c->params = params_or_none_unpack(in, c->peer.world->params);
	c->pooled.startup = params_or_none_unpack(in, c->peer.world->params);
	pins = client_session_unpack(in, c);
	if (!in->bad)
		client_take_place(in, h, c, state, login_user, since);
	in->bad |= (pins && !c->pooled.link) ||
		   (!in->bad && !pool_client_aim(&c->pooled, c->peer.world->now));
	if (in->bad)
		return;
	if (pins)
		pool_client_pin(&c->pooled, pins);
	retry_unpacked(c, is_away, unsent);
	if (h->server)
		h->server->pooled.since = opened_since;
	prepared_client_unpack(in, &h->statements, c, h->server);
	notify_client_unpack(in, c);
}

void client_unpack(struct unpack *in, struct handover *h, int fd)
{
	uint8_t state = unpack_u8(in);
	const char *login_user = unpack_text(in);
	uint64_t id = unpack_u64(in);
	struct client *c;

	if (h->no_place != REASON_NONE) {
		bool in_message, has_unsent;

		peer_skim(*in, &has_unsent, &in_message);
		reject(h, fd,
		       has_unsent || (state == CLIENT_ACTIVE && h->in_message) ? REJECT_CLOSE
									       : REJECT_TELL);
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
	if (state == CLIENT_STARTUP) {
		c->login_since = c->last_active = c->pooled.since = unpack_i64(in);
		in->bad |= !login_begin(c);
		if (!in->bad) {
			c->login->ssl_asked = unpack_bool(in);
			c->login->gss_asked = unpack_bool(in);
		}
	}
	in->bad |= !client_address_enter(c);
	if (state != CLIENT_STARTUP)
		logged_in_unpack(in, h, c, (enum client_state)state, login_user);
	h->server = NULL;
}

/* ---- packing a server ---- */

/* The tasks by their numbers in the record; new ones are added at the end. Look-ups (4) are not
   handed over. */
static const struct server_task *const tasks[] = {
	NULL,		&task_connect_query, &task_reset,  &task_check,	  NULL,
	&task_params,	&task_barrier,	     &task_leave,  &task_note,	  &task_encoding,
	&task_state,	&task_functions,     &task_listen, &task_mark,	  &task_unlisten,
	&task_hear,	&task_relisten,	     &task_drawn,  &task_discard, &task_read_auto,
	&task_identity, &task_values,
};
#define TASKS (sizeof(tasks) / sizeof(*tasks))

/* The server owes nothing: the new process lends it at once. */
static bool waits_for_listeners(const struct server *s)
{
	return s->pooled.state == SERVER_TESTED && s->task == &task_hear;
}

static void server_session_pack(struct bytes *out, const struct server *s)
{
	const struct server_task *task = waits_for_listeners(s) ? NULL : s->task;
	const struct world *w = s->peer.world;
	uint8_t number = 0;

	ledger_pack(out, &s->ledger);
	bytes_append_u32(out, s->batch);
	params_pack(out, w->params, s->params);
	params_pack(out, w->params, s->first_params);
	handover_pack_welcome(out, s->welcome);
	params_pack(out, w->params, s->pooled.startup);
	params_pack_bits(out, w->params, s->session.reported);
	bytes_append_u8(out, (uint8_t)(s->session.unknown & ~UNKNOWN_SOURCES));
	pack_u64(out, s->session.unproven_by);
	pack_u64(out, s->session.values_of);
	bytes_append_u16(out, s->session.doubts);
	pack_bool(out, s->session.was_reset);
	pack_bool(out, s->session.text_was_cut);
	pack_bool(out, s->session.channels_restored);
	bytes_append_u8(out, s->session.plain_set);
	pack_bool(out, s->session.meaning_in_doubt);
	pack_bool(out, s->session.meanings_prepared);
	bytes_append_u8(out, s->session.changes);
	pack_bool(out, s->session.roles_prepared);
	pack_text(out, s->session.role);
	pack_text(out, s->session.search_path);
	while (task && number < TASKS && tasks[number] != task)
		number++;
	bytes_append_u8(out, number);
	pack_bool(out, s->task_failed);
	pack_bool(out, s->task_answered);
	pack_bool(out, s->needs_reset);
	pack_i64(out, s->task_since);
	pack_bool(out, s->said_fatal);
	bytes_append_u8(out, (uint8_t)s->status);
	bytes_append_u8(out, s->minor);
	bytes_append_u8(out, s->replication);
}

void server_pack(struct sender *sender, struct bytes *out, const struct server *s)
{
	const struct notify_server *listener = s->pooled.state == SERVER_LISTENING
						       ? notify_server_of(s->pooled.pool)
						       : NULL;

	bytes_append_u8(out, waits_for_listeners(s) ? SERVER_IDLE : s->pooled.state);
	pack_u64(out, s->peer.id);
	peer_pack(out, &s->peer);
	pack_i64(out, s->pooled.since);
	pack_i64(out, s->pooled.opened);
	pack_u64(out, s->pooled.server_id);
	bytes_append_u32(out, s->pooled.dedicated);
	pack_bool(out, s->pooled.lent);
	/* by name: the numbers differ between versions */
	pack_text(out, s->pooled.close_reason != REASON_NONE
			       ? close_reason_rows[s->pooled.close_reason].name
			       : NULL);
	server_session_pack(out, s);
	bytes_append_u32(out, s->backend_pid);
	bytes_append_u32(out, s->told_pid);
	pack_blob(out, s->cancel_key, s->cancel_key ? s->cancel_key_size : 0);
	pack_text(out, s->host);
	pack_blob(out, s->address ? &s->address->u : NULL, s->address ? s->address->size : 0);
	pack_text(out, s->pooled.host ? s->pooled.host->key : NULL);
	prepared_server_pack(&sender->statements, out, s);
	pack_text(out, listener ? listener->marker : NULL);
}

/* ---- unpacking a server ---- */

static enum close_reason reason_of(const char *name)
{
	for (int why = REASON_NONE + 1; name && why < REASONS; why++)
		if (strcmp(close_reason_rows[why].name, name) == 0)
			return (enum close_reason)why;
	return name ? REASON_CLOSE_NEEDED : REASON_NONE;
}

static void handover_connection_use(struct params_table *table, const struct params **place,
				    const struct params *fresh, struct unpack *in)
{
	in->bad |= !fresh;
	if (!fresh)
		return;
	params_drop(table, place);
	*place = fresh;
}

static void server_session_unpack(struct unpack *in, struct server *s)
{
	struct world *w = s->peer.world;
	const struct server_info *info = s->pooled.pool->server_cache;
	const char *role, *search_path;
	uint8_t task;

	if (!ledger_unpack(in, &s->ledger))
		return;
	s->batch = unpack_u32(in);
	handover_connection_use(w->params, &s->params, params_unpack(in, w->params), in);
	s->first_params = params_unpack(in, w->params);
	s->welcome = handover_unpack_welcome(in, info ? info->reported.welcome : NULL);
	in->bad |= !s->first_params || !s->welcome;
	handover_connection_use(w->params, &s->pooled.startup, params_unpack(in, w->params), in);
	s->session.reported = params_unpack_bits(in, w->params);
	session_set_unknown(s, unpack_u8(in));
	in->bad |= s->session.unknown > (UNKNOWN_PARAMS | UNKNOWN_ROLE | UNKNOWN_SEQUENCES |
					 UNKNOWN_FUNCTIONS | UNKNOWN_SESSION | UNKNOWN_CHANNELS);
	s->session.has_failed = true;
	s->session.unproven_by = unpack_u64(in);
	s->session.values_of = unpack_u64(in);
	session_add_doubt(s, unpack_u16(in));
	s->session.was_reset = unpack_bool(in);
	s->session.text_was_cut = unpack_bool(in);
	s->session.channels_restored = unpack_bool(in);
	s->session.plain_set = unpack_u8(in);
	s->session.meaning_in_doubt = unpack_bool(in);
	s->session.meanings_prepared = unpack_bool(in);
	s->session.changes = unpack_u8(in);
	s->session.roles_prepared = unpack_bool(in);
	role = unpack_text(in);
	search_path = unpack_text(in);
	in->bad |= !in->bad && !server_restore_notes(s, role, search_path);
	task = unpack_u8(in);
	in->bad |= task >= TASKS || (task > 0 && !tasks[task]);
	if (!in->bad && task > 0)
		server_task_to(s, tasks[task]);
	s->task_failed = unpack_bool(in);
	s->task_answered = unpack_bool(in);
	s->needs_reset = unpack_bool(in);
	s->task_since = unpack_i64(in);
	s->said_fatal = unpack_bool(in);
	s->status = (char)unpack_u8(in);
	s->minor = unpack_u8(in);
	s->replication = unpack_u8(in);
	in->bad |= s->status != 'I' && s->status != 'T' && s->status != 'E';
}

static void server_address_unpack(struct unpack *in, struct server *s)
{
	const uint8_t *key, *address;
	size_t key_size, address_size;
	const char *host;

	s->backend_pid = unpack_u32(in);
	s->told_pid = unpack_u32(in);
	key = unpack_blob(in, &key_size);
	host = unpack_text(in);
	address = unpack_blob(in, &address_size);
	in->bad |= address_size > sizeof(s->address->u) ||
		   !pool_server_restore_host(&s->pooled, unpack_text(in));
	if (in->bad)
		return;
	s->cancel_key = key_size > 0 ? mem_try(key_size) : NULL;
	s->host = mem_copy_string(host);
	s->address = address_size > 0 ? mem_try(sizeof(*s->address)) : NULL;
	in->bad |= (key_size > 0 && !s->cancel_key) || (host && !s->host) ||
		   (address_size > 0 && !s->address);
	if (in->bad)
		return;
	s->cancel_key_size = key_size;
	if (key_size > 0)
		memcpy(s->cancel_key, key, key_size);
	if (address_size > 0) {
		s->address->size = (socklen_t)address_size;
		memcpy(&s->address->u, address, address_size);
	}
	in->bad |= !server_enlist(s);
}

void server_unpack(struct unpack *in, struct handover *h, int fd)
{
	uint8_t state = unpack_u8(in);
	uint64_t id = unpack_u64(in);
	usec_t since, opened;
	const char *marker;
	uint32_t dedicated;
	struct server *s;
	bool has_unsent, lent;

	if (h->no_place != REASON_NONE) {
		peer_skim(*in, &has_unsent, &h->in_message);
		reject(h, fd,
		       state == SERVER_IDLE || state == SERVER_USED ? REJECT_TERMINATE
								    : REJECT_CLOSE);
		in->at = in->end;
		return;
	}
	in->bad |= !h->pool || h->pool->database->is_console ||
		   (state != SERVER_IDLE && state != SERVER_USED && state != SERVER_TESTED &&
		    state != SERVER_ACTIVE && state != SERVER_LISTENING);
	s = in->bad ? NULL : server_new(h->pool, h->world, false, NULL);
	if (!s || !stream_open(&s->peer.stream, h->world->base, fd, h->world->ops->server_stream)) {
		close(fd);
		in->bad = true;
		return;
	}
	s->peer.id = id;
	peer_unpack(in, h, &s->peer);
	since = unpack_i64(in);
	opened = unpack_i64(in);
	s->pooled.server_id = unpack_u64(in);
	dedicated = unpack_u32(in);
	lent = unpack_bool(in);
	in->bad |= opened == 0;
	s->pooled.close_reason = (uint8_t)reason_of(unpack_text(in));
	if (h->mode_differs && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_OBSOLETE;
	server_session_unpack(in, s);
	server_address_unpack(in, s);
	prepared_server_unpack(in, &h->statements, s);
	in->bad = in->bad || (state != SERVER_TESTED && state != SERVER_ACTIVE &&
			       !(ledger_is_empty(&s->ledger) && !s->task && s->status == 'I'));
	if (in->bad)
		return;
	s->pooled.lent = lent;
	if (dedicated != 0)
		pool_server_dedicate(&s->pooled, dedicated);
	/* a linked server is idle until the next record, its client, is unpacked */
	pool_server_become(&s->pooled,
			   state == SERVER_TESTED || state == SERVER_LISTENING
				   ? (enum server_state)state
				   : SERVER_IDLE,
			   since);
	if (state == SERVER_USED)
		pool_server_become(&s->pooled, SERVER_USED, since);
	s->pooled.opened = opened;
	h->server = state == SERVER_ACTIVE ? s : NULL;
	marker = unpack_text(in);
	in->bad = in->bad || (state == SERVER_LISTENING) != (marker != NULL) ||
		  (marker && !notify_server_restore_server(s, marker));
}
