/*
 * Connections in a handover: the state of clients and servers, and their sockets.
 *
 * A client can be handed over in most states: idle, in the queue, in a transaction, in the middle
 * of a message, with owed answers (the ledger belongs to its server), with unsent output. It cannot
 * be handed over with TLS (the state is in the library), during authentication, while a console
 * command waits, as a cancel request, or with a server that cannot be handed over.
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
#include "cancel/cancel.h"
#include "conn/connection_record.h"
#include "login/login.h"
#include "pool/pool_record.h"
#include "pool/role.h"
#include "relay/offload.h"
#include "relay/release.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_functions.h"
#include "state/session_question.h"
#include "state/session_record.h"
#include "state/session_restore.h"
#include "state/server_identity.h"
#include "state/session_values.h"

#include <string.h>
#include <unistd.h>

/* ---- connections that can be handed over ---- */

static bool stream_may_be_given(const struct stream *s)
{
	return s->phase == STREAM_OPEN && !s->ssl && !s->write_failed;
}

/* Whether the server can be handed over, without a look at its client and the listener of its
   pool. */
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

/* Whether the client can be handed over, without a look at the other clients of its pool, which may
   have to stay with it. */
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
		return !c->console.is_connected ||
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
	bool client_listens;

	if (c)
		return client_itself_may_be_given(c) &&
		       !(c->pooled.listens && listener_stays(c->pooled.pool));
	client_listens = s->pooled.link && !s->pooled.link->is_internal && s->pooled.link->listens;
	return server_itself_may_be_given(s) &&
	       !((client_listens || s->pooled.state == SERVER_LISTENING) &&
		 listener_stays(s->pooled.pool));
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

/* ---- clients ---- */

void client_record_pack(struct sender *sender, struct bytes *out, const struct client *c)
{
	bytes_append_u8(out, c->pooled.state);
	pack_text(out, c->pooled.login_user ? c->pooled.login_user->name : NULL);
	pack_u64(out, c->peer.id);
	peer_pack(out, &c->peer);
	if (c->pooled.state == CLIENT_STARTUP) {
		login_pack(out, c);
		return;
	}
	pool_client_pack(out, &c->pooled);
	client_pack(out, c);
	pack_bool(out, c->console.is_admin);
	cancel_key_pack(out, c);
	request_pack(out, c);
	session_client_pack(out, c);
	prepared_client_pack(&sender->statements, out, c);
	notify_client_pack(out, c);
}

/* Puts the client into its pool, in its state. */
static void client_take_place(struct unpack *in, struct handover *h, struct client *c,
			      enum client_state state, const char *login_user,
			      const struct pool_client_record *place)
{
	struct world *w = c->peer.world;
	struct user *user = login_user ? user_get(w->pools, login_user) : NULL;

	in->bad |= !user || !h->pool || !c->params || !c->pooled.startup ||
		   (state == CLIENT_ACTIVE) != (h->server != NULL) ||
		   (state != CLIENT_IDLE && state != CLIENT_WAITING && state != CLIENT_ACTIVE) ||
		   c->console.is_connected != h->pool->database->is_console ||
		   (c->console.is_connected && state != CLIENT_IDLE);
	if (in->bad)
		return;
	pool_client_join(&c->pooled, h->pool, user);
	in->bad |= !c->console.is_connected && !pool_client_adopt(&c->pooled, w->now);
	client_prepare_request(c);
	in->bad |= !pool_client_restore(&c->pooled, state, h->server ? &h->server->pooled : NULL,
					place, w->now);
	in->bad |= c->console.is_connected && !w->console.ops->adopt(w->console.context, c);
}

static void logged_in_unpack(struct unpack *in, struct handover *h, struct client *c,
			     enum client_state state, const char *login_user)
{
	struct pool_client_record place = pool_client_unpack(in, &c->pooled);
	struct request_record request;

	client_unpack(in, c);
	if (unpack_bool(in))
		client_address_set_administrator(c);
	cancel_key_unpack(in, c);
	request = request_unpack(in);
	session_client_unpack(in, c);
	if (!in->bad)
		client_take_place(in, h, c, state, login_user, &place);
	if (in->bad)
		return;
	in->bad |= !request_restore(c, &request);
	if (in->bad)
		return;
	prepared_client_unpack(in, &h->statements, c, h->server);
	notify_client_unpack(in, c);
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

/* Unpacks a peer; handover_finish() sends its unsent bytes. */
static void handover_peer_unpack(struct unpack *in, struct handover *h, struct peer *peer)
{
	struct bytes unsent = BYTES_EMPTY;
	struct unsent *more;

	peer_unpack(in, peer, &unsent);
	if (in->bad || bytes_size(&unsent) == 0) {
		bytes_free(&unsent);
		return;
	}
	more = mem_resize(h->unsent, (h->unsent_count + 1) * sizeof(*more));
	in->bad |= !more;
	if (!more) {
		bytes_free(&unsent);
		return;
	}
	h->unsent = more;
	h->unsent[h->unsent_count++] = (struct unsent){ .peer = peer, .bytes = unsent };
}

void client_record_unpack(struct unpack *in, struct handover *h, int fd)
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
	handover_peer_unpack(in, h, &c->peer);
	if (state == CLIENT_STARTUP)
		login_unpack(in, c);
	in->bad |= !client_address_enter(c);
	if (state != CLIENT_STARTUP)
		logged_in_unpack(in, h, c, (enum client_state)state, login_user);
	h->server = NULL;
}

/* ---- servers ---- */

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

/* Whether the server only waits for listeners: it owes nothing, and the new process lends it at
   once. */
static bool waits_for_listeners(const struct server *s)
{
	return s->pooled.state == SERVER_TESTED && s->task == &task_hear;
}

static void task_pack(struct bytes *out, const struct server *s)
{
	const struct server_task *task = waits_for_listeners(s) ? NULL : s->task;
	uint8_t number = 0;

	while (task && number < TASKS && tasks[number] != task)
		number++;
	bytes_append_u8(out, number);
}

static void task_unpack(struct unpack *in, struct server *s)
{
	uint8_t task = unpack_u8(in);

	in->bad |= task >= TASKS || (task > 0 && !tasks[task]);
	if (!in->bad && task > 0)
		server_task_to(s, tasks[task]);
}

void server_record_pack(struct sender *sender, struct bytes *out, const struct server *s)
{
	bytes_append_u8(out, waits_for_listeners(s) ? SERVER_IDLE : s->pooled.state);
	pack_u64(out, s->peer.id);
	peer_pack(out, &s->peer);
	task_pack(out, s);
	server_pack(out, s);
	server_welcome_pack(out, s);
	session_server_pack(out, s);
	prepared_server_pack(&sender->statements, out, s);
	pool_server_pack(out, &s->pooled);
	notify_server_pack(out, s);
}

void server_record_unpack(struct unpack *in, struct handover *h, int fd)
{
	uint8_t state = unpack_u8(in);
	uint64_t id = unpack_u64(in);
	struct server *s;
	bool has_unsent;

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
	handover_peer_unpack(in, h, &s->peer);
	task_unpack(in, s);
	server_unpack(in, s);
	server_welcome_unpack(in, s);
	session_server_unpack(in, s);
	prepared_server_unpack(in, &h->statements, s);
	in->bad = in->bad || (state != SERVER_TESTED && state != SERVER_ACTIVE &&
			       !(ledger_is_empty(&s->ledger) && !s->task && s->status == 'I'));
	pool_server_unpack(in, &s->pooled, (enum server_state)state);
	if (in->bad)
		return;
	if (h->mode_differs && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_OBSOLETE;
	h->server = state == SERVER_ACTIVE ? s : NULL;
	notify_server_unpack(in, s);
}
