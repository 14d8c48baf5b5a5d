/*
 * A client that LISTENs (session_state = full): its channels, and the delivery of notifications to it. notify_server.c describes both sides.
 *
 * A notification is sent between two messages and outside of transactions, as PostgreSQL does; other notifications are pending until the next
 * ReadyForQuery. A client must receive its own NOTIFY before the ReadyForQuery of its commit: the ReadyForQuery waits for the answer of the listener
 * to a query that is sent after the commit (a barrier).
 *
 * One message of the listener can be for many clients. Messages are delivered into buffers, and each client's buffer is sent once a turn. The number
 * of deliveries in a turn is bounded (notify_clients_have_share), so that other clients are served in between.
 *
 * The process ID of BackendKeyData is half of a client's cancel key. Only the client itself is told this number in a notification. All other clients
 * are told a hash of the number, which is the same for all of them until an online restart.
 *
 * UNLISTEN and pg_listening_channels() are executed by the current server of the client. That server LISTENs to the client's channels first
 * (notify_client_relisten): outside of transactions before such a text, otherwise before the text that begins the transaction. At the end of the link
 * the server is asked for the remaining channels if there was an UNLISTEN, and it UNLISTENs. In between the client receives its own notifications from
 * the server: PostgreSQL omits the channels that a transaction leaves, the listener does not.
 */
#include "state/notify_client.h"

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "pg/message.h"
#include "state/server_session.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "state/task.h"

#include <stdlib.h>
#include <string.h>

/* The body of a NotificationResponse; channel and payload point into the frame. */
struct notification { uint32_t pid; const char *channel, *payload; };
#define NOTIFICATION_HEAD 4		/* bytes of the body before the channel */
#define DELIVERY_BYTES 256	/* these bytes of a notification count as one more delivery */
#define FLUSHES_MOST 16		/* clients to which notifications are sent in one turn */
#define PENDING_MOST (1024 * 1024)	/* bytes of notifications that one client may leave unread */

static struct subscription *of_client_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_client); }
static struct subscription *of_channel_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_channel); }

/* ---- channels ---- */

static struct channel *channel_find(const struct notify_server *l, const char *name)
{
	struct channel *channel;

	HASH_FIND(hh, l->channels, name, strlen(name), channel);
	return channel;
}

/* Makes the channel if it is missing. NULL: no memory. */
static struct channel *channel_get(struct notify_server *l, const char *name)
{
	struct channel *channel = channel_find(l, name);
	size_t size = strlen(name);

	if (channel)
		return channel;
	channel = mem_try(sizeof(*channel) + size + 1);
	if (!channel)
		return NULL;
	memcpy(channel->name, name, size);
	list_init(&channel->subscriptions);
	list_init(&channel->node);
	HASH_ADD_KEYPTR(hh, l->channels, channel->name, size, channel);
	if (HASH_HAS(hh, channel))
		return channel;
	mem_free(channel);
	return NULL;
}

void channel_changes(struct notify_server *l, struct channel *channel)
{
	bool is_wanted = !list_is_empty(&channel->subscriptions);

	/* the channel is looked at again when the query is answered */
	if (channel->state == CHANNEL_ASKED || channel->state == CHANNEL_LEFT)
		return;
	list_remove(&channel->node);
	if (is_wanted != (channel->state == CHANNEL_HEARD)) {
		list_append(&l->changed, &channel->node);
	} else if (!is_wanted) {
		HASH_DEL(l->channels, channel);
		mem_free(channel);
	}
}

/* Returns the subscription of the client to the channel, or NULL. Ends with the shorter one of the two lists. */
static struct subscription *subscription_of(const struct notify_client *h, const struct channel *channel)
{
	struct list *mine = h->subscriptions.next, *its = channel->subscriptions.next;

	for (; mine != &h->subscriptions && its != &channel->subscriptions; mine = mine->next, its = its->next) {
		if (of_client_at(mine)->channel == channel)
			return of_client_at(mine);
		if (of_channel_at(its)->notify_client == h)
			return of_channel_at(its);
	}
	return NULL;
}

static bool subscribe(struct notify_client *h, const char *name, bool from_server, bool from_listener)
{
	struct channel *channel = channel_get(h->notify_server, name);
	struct subscription *s = channel ? mem_try(sizeof(*s)) : NULL;

	if (channel && !s)
		channel_changes(h->notify_server, channel);
	if (!s)
		return false;
	*s = (struct subscription){ .channel = channel, .notify_client = h, .from_server = from_server, .from_listener = from_listener, .is_there = true };
	list_append(&channel->subscriptions, &s->of_channel);
	list_append(&h->subscriptions, &s->of_client);
	channel_changes(h->notify_server, channel);
	return true;
}

static void unsubscribe(struct subscription *s)
{
	list_remove(&s->of_channel);
	list_remove(&s->of_client);
	channel_changes(s->notify_client->notify_server, s->channel);
	mem_free(s);
}

static struct notify_client *notify_client_get(struct client *c)
{
	struct notify_server *l;
	struct notify_client *h = c->session->notify_client;

	if (h)
		return h;
	l = notify_server_get(c->pooled.pool, c->peer.world->params);
	h = l ? mem_try(sizeof(*h)) : NULL;
	if (!h)
		return NULL;
	h->client = c;
	h->notify_server = l;
	list_init(&h->subscriptions);
	list_init(&h->waiting);
	list_init(&h->moving);
	list_init(&h->due);
	list_append(&l->clients, &h->node);
	c->session->notify_client = h;
	c->hears = true;
	c->pooled.pool->listening++;
	return h;
}

void notify_client_forget(struct client *c)
{
	struct notify_client *h = c->session ? c->session->notify_client : NULL;
	struct notify_server *l;

	if (!h)
		return;
	l = h->notify_server;
	LIST_EACH_SAFE(node, &h->subscriptions)
		unsubscribe(of_client_at(node));
	list_remove(&h->node);
	list_remove(&h->waiting);
	list_remove(&h->moving);
	list_remove(&h->due);
	bytes_free(&h->pending);
	mem_free(h);
	c->session->notify_client = NULL;
	c->hears = false;
	l->pool->listening--;
	notify_server_work(l);
}

bool notify_client_learn(struct client *c, const struct session_answer *answer, bool is_exact)
{
	struct notify_client *h = c->session->notify_client;
	const char *names = bytes_size(&answer->channels) > 0 ? (const char *)bytes_front(&answer->channels) : "";
	struct bytes pending;
	struct pg_frames frames;
	struct pg_frame f;

	if (!h && bytes_size(&answer->channels) == 0)
		return true;
	h = notify_client_get(c);
	if (!h) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	LIST_EACH(node, &h->subscriptions)
		of_client_at(node)->is_there = false;
	for (const char *at = names, *end = at + bytes_size(&answer->channels); at < end; at += strlen(at) + 1) {
		struct channel *channel = channel_find(h->notify_server, at);
		struct subscription *s = channel ? subscription_of(h, channel) : NULL;

		if (s) {
			s->is_there = true;
		} else if (!subscribe(h, at, true, false)) {
			client_end(c, REASON_NO_MEMORY, NULL);
			return false;
		}
	}
	/* the server knows all channels that it delivers from, and, if the answer is exact, all channels of the client */
	h->step = bytes_size(&answer->channels) > 0 ? NOTIFY_LEAVES : NOTIFY_RESTS;
	LIST_EACH_SAFE(node, &h->subscriptions) {
		struct subscription *s = of_client_at(node);

		if (!s->is_there && (is_exact || s->from_server))
			unsubscribe(s);
		else if (s->from_server)
			h->step = NOTIFY_WAITS;
	}
	/* notifications of channels that the client has left are not sent */
	pending = h->pending;
	frames = pg_frames_of(&pending);
	h->pending = (struct bytes)BYTES_EMPTY;
	while (pg_frames_next(&frames, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct channel *channel = channel_find(h->notify_server, (const char *)f.body + NOTIFICATION_HEAD);

		if (channel && subscription_of(h, channel))
			bytes_append(&h->pending, f.body - PG_HEADER, PG_HEADER + (size_t)f.size);
	}
	bytes_free(&pending);
	if (list_is_empty(&h->subscriptions))
		notify_client_forget(c);
	return true;
}

bool notify_client_is_told(const struct notify_client *h)
{
	LIST_EACH(node, &h->subscriptions)
		if (of_client_at(node)->from_listener)
			return true;
	return !list_is_empty(&h->moving);
}

bool notify_client_restore(struct client *c, const char *name, bool from_server, bool from_listener)
{
	struct notify_client *h = notify_client_get(c);
	struct channel *channel = h ? channel_find(h->notify_server, name) : NULL;

	if (!h || (channel && subscription_of(h, channel)) || !subscribe(h, name, from_server, from_listener))
		return false;
	if (from_server)
		h->step = NOTIFY_WAITS;
	if (from_listener) {
		channel = channel_find(h->notify_server, name);
		channel->state = CHANNEL_HEARD;
		channel_changes(h->notify_server, channel);
	}
	return true;
}

/* ---- notifications ---- */

void notify_client_flush(struct client *c)
{
	struct bytes *pending = &c->session->notify_client->pending;

	if (bytes_size(pending) == 0 && !pending->failed)
		return;
	client_send(c, pending);
	c->pooled.pool->database->stats.total.sent += bytes_size(pending);
	bytes_free(pending);
}

void notify_client_flush_if_idle(struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	/* between two messages, and outside of transactions */
	if (!s || (!s->task && s->status == 'I' && ledger_is_empty(&s->ledger) && s->peer.passing == 0 && bytes_size(&s->peer.held) == 0))
		notify_client_flush(c);
}

void notify_clients_flush(struct world *w)
{
	struct list *node;

	for (int count = 0; count < FLUSHES_MOST && (node = list_first(&w->notify_due)) != NULL; count++) {
		list_remove(node);
		notify_client_flush_if_idle(LIST_OBJECT(node, struct notify_client, due)->client);
	}
	w->deliveries = 0;
	w->notify_waits = !list_is_empty(&w->notify_due);
}

uint32_t notify_sender_for(const struct client *c, uint32_t told)
{
	const uint32_t text[] = { 0x6e746679, told };
	uint32_t public = told;

	if (told == c->cancel_pid)
		return told;
	/* IDs of server processes are not secret */
	if (told > SERVER_PID_MOST)
		public = (hash_of(text, sizeof(text)) & INT32_MAX) | (SERVER_PID_MOST + 1);
	return public == c->cancel_pid ? public ^ 1 : public;
}

/* Appends the message, with this process ID, to the pending notifications of the client. */
static void deliver(struct notify_client *h, const struct bytes *message, uint32_t pid)
{
	struct client *c = h->client;
	size_t size = bytes_size(message);

	c->pooled.pool->notifications++;
	bytes_append(&h->pending, bytes_front(message), PG_HEADER);
	bytes_append_u32(&h->pending, pid);
	bytes_append(&h->pending, bytes_front(message) + PG_HEADER + NOTIFICATION_HEAD, size - PG_HEADER - NOTIFICATION_HEAD);
	if (h->pending.failed)
		client_end(c, REASON_NO_MEMORY, NULL);
	else if (bytes_size(&h->pending) + stream_unsent(&c->peer.stream) > PENDING_MOST)
		client_end(c, REASON_NOTIFICATIONS, NULL);
	else if (list_is_empty(&h->due))
		list_append(&c->peer.world->notify_due, &h->due);
	c->peer.world->deliveries += 1 + (uint32_t)(size / DELIVERY_BYTES);
}

/* Reads a complete frame. False: it is malformed. */
static bool notification_read(const struct pg_frame *f, struct notification *n)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->here);

	n->pid = pg_read_u32(&body);
	n->channel = pg_read_string(&body);
	n->payload = pg_read_string(&body);
	return !body.bad && body.at == body.end && f->here == f->size;
}

/* From now on the listener delivers to the client whose server has sent this marker. */
static void marker_received(struct notify_server *l, const char *payload)
{
	unsigned long move = strtoul(payload, NULL, 10);

	LIST_EACH_SAFE(node, &l->movers) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, moving);

		LIST_EACH(of_client, &h->subscriptions) {
			struct subscription *s = of_client_at(of_client);

			s->from_listener |= s->move == move;
			s->move = s->move == move ? 0 : s->move;
		}
		if (h->move == move)
			list_remove(&h->moving);
	}
}

/* The notification is the client's own, and its server LISTENs to all channels that the client still has. */
static bool is_from_own_server(const struct client *c, uint32_t pid)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	return s && s->session.channels_restored && pid != 0 && s->backend_pid == pid;
}

bool notify_clients_deliver(struct server *s, const struct pg_frame *f)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	struct notification n;
	struct channel *channel;
	struct bytes message = BYTES_EMPTY;
	uint32_t told;

	if (!notification_read(f, &n))
		return false;
	if (!l || l->server != s)
		return true;
	if (strcmp(n.channel, l->marker) == 0)
		marker_received(l, n.payload);
	channel = channel_find(l, n.channel);
	if (!channel)
		return true;
	told = notify_sender(s, n.pid);
	bytes_append_u8(&message, PGS_NOTIFICATION);
	bytes_append_u32(&message, f->size + PG_LENGTH_WORD);
	bytes_append(&message, f->body, f->size);
	LIST_EACH(node, &channel->subscriptions) {
		struct subscription *sub = of_channel_at(node);

		if (sub->from_listener && message.failed)
			client_end(sub->notify_client->client, REASON_NO_MEMORY, NULL);
		else if (sub->from_listener && !is_from_own_server(sub->notify_client->client, n.pid))
			deliver(sub->notify_client, &message, notify_sender_for(sub->notify_client->client, told));
	}
	bytes_free(&message);
	return true;
}

bool notify_client_passes(struct client *c, const struct pg_frame *f)
{
	struct notify_client *h = c->session->notify_client;
	struct notification n;
	struct channel *channel;
	struct subscription *sub;

	if (!notification_read(f, &n))
		return true;
	if (strcmp(n.channel, h->notify_server->marker) == 0) {
		LIST_EACH(node, &h->subscriptions)
			of_client_at(node)->from_server = false;
		return false;
	}
	channel = channel_find(h->notify_server, n.channel);
	sub = channel ? subscription_of(h, channel) : NULL;
	/* pgweir learns the channels of the last LISTEN at the end of the transaction */
	return !sub || sub->from_server || is_from_own_server(c, n.pid);
}

/* ---- the steps to the listener ---- */

enum notify_move notify_client_move(struct server *s, struct client *c)
{
	struct notify_client *h = c->session->notify_client;
	struct notify_server *l = h->notify_server;
	const char *encoding, *wanted = params_get(c->params, PARAM_CLIENT_ENCODING);
	bool is_heard = l->marker_is_heard;
	struct bytes sql = BYTES_EMPTY;

	if (!(c->pooled.pins & PIN_LISTENING) || ledger_is_in_doubt(&s->ledger))
		return NOTIFY_MOVE_NONE;
	if (h->step == NOTIFY_LEAVES) {
		server_run(s, &task_unlisten, "UNLISTEN *");
		return NOTIFY_MOVE_CHANNELS;
	}
	if (c->pooled.pins != PIN_LISTENING || h->step == NOTIFY_RESTS)
		return NOTIFY_MOVE_NONE;
	if (!l->server) {
		/* the session must have no other state of the client than its channels */
		if (notify_server_has_room(c->pooled.pool, 1) && s->pooled.cancels == 0 && !s->session.unknown && !c->peer.world->pools->paused &&
		    pool_server_is_spent(&s->pooled, s->peer.world->now) == REASON_NONE)
			return NOTIFY_MOVE_SERVER;
		return NOTIFY_MOVE_NONE;
	}
	/* the listener receives notifications in the encoding of its own session */
	encoding = params_get(l->server->params, PARAM_CLIENT_ENCODING);
	if (s->pooled.close_reason != REASON_NONE || l->server->pooled.state != SERVER_LISTENING || !encoding || !wanted || strcmp(encoding, wanted) != 0)
		return NOTIFY_MOVE_NONE;
	notify_server_work(l);
	LIST_EACH(node, &h->subscriptions)
		is_heard &= of_client_at(node)->channel->state == CHANNEL_HEARD;
	if (!is_heard)
		return NOTIFY_MOVE_CHANNELS;
	/* the listener has LISTENed to all channels of the client: a marker with a new number follows the last notification of this server */
	if (++l->moves == 0)
		l->moves = 1;
	h->move = l->moves;
	h->heard_by = 0;
	LIST_EACH(node, &h->subscriptions)
		if (of_client_at(node)->from_server)
			of_client_at(node)->move = h->move;
	list_remove(&h->moving);
	list_append(&l->movers, &h->moving);
	h->step = NOTIFY_MARKS;
	bytes_append_format(&sql, "LISTEN \"%s\";NOTIFY \"%s\",'%u'", l->marker, l->marker, h->move);
	server_run_and_free(s, &task_mark, &sql);
	return NOTIFY_MOVE_CHANNELS;
}

/* The server has sent all notifications before the marker. */
static enum task_end mark_done(struct server *s, bool failed)
{
	struct notify_client *h;

	if (!s->pooled.link)
		return TASK_END_RELEASE;
	h = client_of(s->pooled.link)->session->notify_client;
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	if (failed) {
		list_remove(&h->moving);
		h->step = NOTIFY_RESTS;
		return TASK_END_RESUME;
	}
	h->step = NOTIFY_LEAVES;
	/* the listener has received the marker with its next answer */
	if (!list_is_empty(&h->moving)) {
		h->heard_by = h->notify_server->sent + 1;
		h->notify_server->is_to_answer = true;
		notify_server_work(h->notify_server);
	}
	server_run(s, &task_unlisten, "UNLISTEN *");
	return TASK_END_NOTHING;
}

static enum task_end unlisten_done(struct server *s, bool failed)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (failed || (c && s->said_fatal)) {
		server_end(s, !c ? REASON_RESET_FAILED : s->said_fatal ? REASON_SERVER_CRASHED : REASON_STATE_STAYS, NULL);
		return TASK_END_NOTHING;
	}
	if (!c)
		return TASK_END_RELEASE;
	s->session.channels_restored = false;
	if (c->session->notify_client) {
		c->session->notify_client->step = NOTIFY_RESTS;
		notify_client_flush(c);
	}
	pool_client_pin(&c->pooled, c->pooled.pins & ~(unsigned)PIN_LISTENING);
	return TASK_END_LINK;
}

/* The channels of the client move to the listener. */
const struct server_task task_mark = {
	.name = "listen", .words = "LISTEN and NOTIFY of a marker", .states = TASK_IN(ACTIVE), .on_done = mark_done,
};

/* The channels of the client have moved, or the server was the listener and has no clients. */
const struct server_task task_unlisten = {
	.name = "listen", .words = "UNLISTEN", .states = TASK_IN(ACTIVE) | TASK_IN(TESTED), .on_done = unlisten_done,
};

/* ---- before a ReadyForQuery ---- */

bool notify_client_holds_ready(struct server *s, struct client *c)
{
	struct notify_client *h = c->session->notify_client;
	struct notify_server *l = h->notify_server;

	if (s->status != 'I')
		return false;
	if (s->task || !l->server) {
		notify_client_flush(c);
		return false;
	}
	h->barrier = l->sent + 1;
	list_append(&l->barriers, &h->waiting);
	notify_server_work(l);
	server_task_to(s, &task_hear);
	/* answers to later messages of the client come after the ReadyForQuery */
	if (!ledger_is_empty(&s->ledger)) {
		flow_block(&s->peer, FLOW_READY);
		list_remove(&s->peer.again);
	}
	return true;
}

void notify_client_send_ready(struct server *s, struct client *c)
{
	static const uint8_t ready[] = { PGS_READY, 0, 0, 0, 5, 'I' };

	ASSERT(s->task == &task_hear);
	server_task_to(s, NULL);
	bytes_append(&c->session->notify_client->pending, ready, sizeof(ready));
	notify_client_flush(c);
	if (stream_unsent(&c->peer.stream) > 0)
		flow_block(&s->peer, FLOW_ROOM);
	if (s->peer.blocked & FLOW_READY) {
		s->peer.held_first = bytes_size(&s->peer.held) > 0;
		flow_unblock(&s->peer, FLOW_READY);
		if (!(s->peer.blocked & FLOW_ROOM))
			peer_come_again(&s->peer);
	}
}

/* ---- UNLISTEN ---- */

void notify_client_note_channels(struct server *s, struct client *c)
{
	s->session.channels_restored = true;
	/* with the pin the server already had channels of the client */
	if (!(c->pooled.pins & PIN_LISTENING))
		session_add_doubt(s, FACT_CHANNELS);
}

static enum task_end relisten_done(struct server *s, bool failed)
{
	if (failed || s->said_fatal) {
		server_end(s, s->said_fatal ? REASON_SERVER_CRASHED : REASON_STATE_UNKNOWN, NULL);
		return TASK_END_NOTHING;
	}
	notify_client_note_channels(s, client_of(s->pooled.link));
	return TASK_END_RESUME;
}

const struct server_task task_relisten = {
	.name = "listen", .words = "LISTEN to the channels of the client", .states = TASK_IN(ACTIVE), .on_done = relisten_done,
};

void channel_sql(struct bytes *sql, const char *command, const char *name)
{
	bytes_append_text(sql, command);
	bytes_append_u8(sql, '"');
	for (; *name; name++) {
		if (*name == '"')
			bytes_append_u8(sql, '"');
		bytes_append_u8(sql, (uint8_t)*name);
	}
	bytes_append_text(sql, "\";");
}

void notify_client_sql(const struct notify_client *h, struct bytes *sql)
{
	LIST_EACH(node, &h->subscriptions)
		if (!of_client_at(node)->from_server)
			channel_sql(sql, "LISTEN ", of_client_at(node)->channel->name);
}

void notify_client_relisten(struct server *s, struct client *c)
{
	struct bytes sql = BYTES_EMPTY;

	notify_client_sql(c->session->notify_client, &sql);
	server_run_and_free(s, &task_relisten, &sql);
}
