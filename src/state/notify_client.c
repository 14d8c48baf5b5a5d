/*
 * A client that LISTENs, with session_state = full: its channels, and the delivery of notifications to it. notify_server.c describes both sides.
 *
 * A notification is sent between two messages and outside of transactions, as PostgreSQL does; other notifications wait, and are sent before the next
 * ReadyForQuery. A client must receive its own NOTIFY before the ReadyForQuery of its commit: the ReadyForQuery waits for the answer of the listener
 * to a query that is sent after the commit (a barrier).
 *
 * One message of the listener can be for many clients. The listener delivers into buffers (notify_client_deliver), and each client's buffer is sent
 * once a turn. The number of deliveries in a turn is bounded (notify_clients_have_share); all other clients have their turn in between.
 *
 * UNLISTEN and pg_listening_channels() are executed by the current server of the client. That server LISTENs to the client's channels first
 * (notify_client_relisten): outside of transactions before such a text, otherwise before the text that begins the transaction. At the end of the link
 * it is asked for the remaining channels if there was an UNLISTEN, and it UNLISTENs.
 */
#include "state/notify_client.h"

#include "state/notify_server.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "base/assert.h"
#include "pg/message.h"
#include "state/task.h"

#include <string.h>

#define DELIVERY_BYTES 256	/* of a notification that count as one more */
#define FLUSHES_MOST 16		/* clients to which notifications are sent in one turn */
#define PENDING_MOST (1024 * 1024)	/* bytes of notifications that one client may leave unread, or may be too busy for */

static struct subscription *of_client_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_client); }
static struct subscription *of_channel_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_channel); }

/* ---- channels ---- */

/* The shorter one of the two lists is enough. */
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
	if (l->server)
		notify_server_work(l);
	else
		notify_server_rests(l);
}

/* Drops waiting notifications of channels that the client has left by UNLISTEN. */
static void drop_left(struct notify_client *h)
{
	struct bytes all = h->pending;
	struct pg_frames frames = pg_frames_of(&all);
	struct pg_frame f;

	h->pending = (struct bytes)BYTES_EMPTY;
	while (pg_frames_next(&frames, PG_LENGTH_LIMIT, &f) == PG_OK) {
		struct channel *channel = channel_find(h->notify_server, (const char *)f.body + NOTIFICATION_HEAD);

		if (channel && subscription_of(h, channel))
			bytes_append(&h->pending, f.body - PG_HEADER, PG_HEADER + (size_t)f.size);
	}
	bytes_free(&all);
}

/* Marks the subscriptions with these names, and makes missing ones. False: no memory. */
static bool find_all(struct notify_client *h, const struct bytes *names)
{
	const char *at = bytes_size(names) > 0 ? (const char *)bytes_front(names) : NULL, *end = at ? at + bytes_size(names) : NULL;

	LIST_EACH(node, &h->subscriptions)
		of_client_at(node)->is_there = false;
	for (; at < end; at += strlen(at) + 1) {
		struct channel *channel = channel_find(h->notify_server, at);
		struct subscription *s = channel ? subscription_of(h, channel) : NULL;

		if (s)
			s->is_there = true;
		else if (!subscribe(h, at, true, false))
			return false;
	}
	return true;
}

/* The server knows of all that it tells, or, where the answer is exact, of all that the client listens to. */
static void forget_left(struct notify_client *h, bool is_exact)
{
	LIST_EACH_SAFE(node, &h->subscriptions) {
		struct subscription *s = of_client_at(node);

		if (!s->is_there && (is_exact || s->from_server))
			unsubscribe(s);
	}
	drop_left(h);
}

static enum notify_step step_of(const struct notify_client *h, const struct bytes *names)
{
	LIST_EACH(node, &h->subscriptions)
		if (of_client_at(node)->from_server)
			return NOTIFY_WAITS;
	return bytes_size(names) > 0 ? NOTIFY_LEAVES : NOTIFY_RESTS;
}

bool notify_client_learn(struct client *c, const struct session_answer *answer, bool is_exact)
{
	struct notify_client *h = c->session->notify_client;

	if (!h && bytes_size(&answer->channels) == 0)
		return true;
	h = notify_client_get(c);
	if (!h || !find_all(h, &answer->channels)) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	forget_left(h, is_exact);
	h->step = (uint8_t)step_of(h, &answer->channels);
	if (list_is_empty(&h->subscriptions))
		notify_client_forget(c);
	return true;
}

/* The listener has LISTENed to all channels of the client. */
static bool is_heard(const struct notify_client *h)
{
	LIST_EACH(node, &h->subscriptions)
		if (of_client_at(node)->channel->state != CHANNEL_HEARD)
			return false;
	return h->notify_server->marker_is_heard;
}

/* Draws the number of a marker for the channels that the server of the client tells. */
static uint32_t next_marker(struct notify_client *h)
{
	struct notify_server *l = h->notify_server;

	if (++l->moves == 0)
		l->moves = 1;
	h->move = l->moves;
	h->heard_by = 0;
	LIST_EACH(node, &h->subscriptions)
		if (of_client_at(node)->from_server)
			of_client_at(node)->move = h->move;
	list_remove(&h->moving);
	list_append(&l->movers, &h->moving);
	return h->move;
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

/* The client is between two messages, and in no transaction. */
static bool may_hear_now(const struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	return !s || (!s->task && s->status == 'I' && ledger_is_empty(&s->ledger) && s->peer.passing == 0 &&
		      bytes_size(&s->peer.held) == 0);
}

void notify_client_flush(struct client *c)
{
	struct bytes *pending = &c->session->notify_client->pending;

	if (bytes_size(pending) == 0 && !pending->failed)
		return;
	client_send(c, pending);
	c->pooled.pool->database->stats.total.sent += bytes_size(pending);
	bytes_free(pending);
}

void notify_client_deliver(struct notify_client *h, const uint8_t *message, size_t size, uint32_t pid)
{
	struct client *c = h->client;

	c->pooled.pool->notifications++;
	bytes_append(&h->pending, message, PG_HEADER);
	bytes_append_u32(&h->pending, pid);
	bytes_append(&h->pending, message + PG_HEADER + NOTIFICATION_HEAD, size - PG_HEADER - NOTIFICATION_HEAD);
	if (h->pending.failed)
		client_end(c, REASON_NO_MEMORY, NULL);
	else if (bytes_size(&h->pending) + stream_unsent(&c->peer.stream) > PENDING_MOST)
		client_end(c, REASON_NOTIFICATIONS, NULL);
	else if (list_is_empty(&h->due))
		list_append(&c->peer.world->notify_due, &h->due);
	c->peer.world->deliveries += 1 + (uint32_t)(size / DELIVERY_BYTES);
}

void notify_client_flush_if_idle(struct client *c)
{
	if (may_hear_now(c))
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

bool notification_read(const struct pg_frame *f, struct notification *n)
{
	struct pg_cursor body = pg_cursor_of(f->body, f->here);

	n->pid = pg_read_u32(&body);
	n->channel = pg_read_string(&body);
	n->payload = pg_read_string(&body);
	return !body.bad && body.at == body.end && f->here == f->size;
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
	/* a channel after the last LISTEN is not known yet */
	return !sub || sub->from_server;
}

/* ---- the steps to the listener ---- */

/* Whether the server may become the listener: the client has nothing there but its channels. */
static bool may_become_listener(const struct server *s, const struct client *c)
{
	return notify_server_may_begin(c->pooled.pool) && s->pooled.cancels == 0 && !s->session.unknown && !c->peer.world->pools->paused &&
	       pool_server_is_spent(&s->pooled, s->peer.world->now) == REASON_NONE;
}

/* The listener receives notifications in the encoding of its server. */
static bool is_same_encoding(const struct server *s, const struct client *c)
{
	const char *a = params_get(s->params, PARAM_CLIENT_ENCODING), *b = params_get(c->params, PARAM_CLIENT_ENCODING);

	return a && b && strcmp(a, b) == 0;
}

static void begin_marking(struct server *s, struct notify_client *h)
{
	struct bytes sql = BYTES_EMPTY;

	bytes_append_format(&sql, "LISTEN \"%s\";NOTIFY \"%s\",'%u'", h->notify_server->marker, h->notify_server->marker, next_marker(h));
	server_run_and_free(s, &task_mark, &sql);
}

enum notify_move notify_client_move(struct server *s, struct client *c)
{
	struct notify_client *h = c->session->notify_client;
	struct notify_server *l = h->notify_server;

	if (!(c->pooled.pins & PIN_LISTENING) || ledger_is_in_doubt(&s->ledger))
		return NOTIFY_MOVE_NONE;
	if (h->step == NOTIFY_LEAVES) {
		server_run(s, &task_unlisten, "UNLISTEN *");
		return NOTIFY_MOVE_CHANNELS;
	}
	if (c->pooled.pins != PIN_LISTENING || h->step == NOTIFY_RESTS)
		return NOTIFY_MOVE_NONE;
	if (!l->server)
		return may_become_listener(s, c) ? NOTIFY_MOVE_SERVER : NOTIFY_MOVE_NONE;
	if (s->pooled.close_reason != REASON_NONE || l->server->pooled.state != SERVER_LISTENING || !is_same_encoding(l->server, c))
		return NOTIFY_MOVE_NONE;
	notify_server_work(l);
	if (is_heard(h)) {
		h->step = NOTIFY_MARKS;
		begin_marking(s, h);
	}
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
	/* with the next answer of the listener its server has received the marker */
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

/* No query: the ReadyForQuery of the client, or the next client, waits for an answer of the listener. */
const struct server_task task_hear = {
	.name = "listen", .words = "hearing of the listener", .states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
};

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
