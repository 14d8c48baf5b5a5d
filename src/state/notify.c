/*
 * The listener of a pool (session_state = full): a server connection that LISTENs to the channels
 * of all listening clients of the pool. Its notifications are delivered to each of these clients,
 * whether the client has a server or not.
 *
 * The story of one channel, in the order of time. S is the client's own server, L the listener's
 * server:
 *
 *  1. The client sends LISTEN a to S. At the end of the transaction S is asked for its channels
 *     (session_question.c), and notify_client_learn() makes a subscription to each of them:
 *     from_server, because only S delivers so far. The client keeps S (PIN_LISTENING), because S
 *     must not become another client's server while it LISTENs (step WAITS).
 *
 *  2. must_continue() (relay/release.c) calls notify_client_move() whenever the client is between
 *     two transactions. If the pool has no listener yet, S itself becomes L
 *     (notify_server_begin()), the subscriptions become from_listener, and the client gets another
 *     server for its next message: the story goes on at 5. Otherwise notify_server_work() sends
 *     LISTEN a to L, and the client waits for the answer.
 *
 *  3. Now S and L both LISTEN to a. notify_client_move() sends LISTEN marker; NOTIFY marker, '7' to
 *     S (step MARKS); L LISTENs to the marker, too. PostgreSQL sends notifications in the order of
 *     commits, to each session in the same order. S therefore receives the marker after everything
 *     that was committed before it:
 *
 *	S	x committed	marker 7
 *	L	x committed	marker 7	y committed
 *
 *     notify_client_passes() forwards x from S, and at the marker ends from_server.
 *     marker_received() makes the subscription from_listener: y is delivered from L. No
 *     notification is lost, and none is delivered twice.
 *
 *  4. mark_done() sends UNLISTEN * to S (step LEAVES). unlisten_done() ends the pin, and S returns
 *     to its pool. If S refuses the marker, the client keeps S (step RESTS).
 *
 *  5. Another session commits NOTIFY a. notify_clients_deliver() appends the message of L to the
 *     buffer of each client with the channel (notify_order.c). notify_clients_flush() sends each
 *     buffer once a turn, between two messages and outside of transactions, as PostgreSQL does;
 *     inside, the buffer waits for the next ReadyForQuery. One message can be for many clients, so
 *     the number of deliveries in a turn is bounded (notify_clients_have_share()).
 *
 *  6. The client itself sends NOTIFY a on any server. It must receive its own notification before
 *     the ReadyForQuery of the commit. holds_ready() (relay/from_server.c) therefore holds this
 *     message until L has answered a later query (notify_client.barrier). L gets one query at a
 *     time: LISTEN and UNLISTEN for all changed channels, or an empty query. When the answer
 *     arrives, L has received everything that was committed before the query.
 *
 *  7. The client sends UNLISTEN, or a text that reads its channels. Its server of the moment lacks
 *     them: session_restore_channels() LISTENs to them first. The answer to the next question is
 *     exact, and notify_client_learn() ends the subscriptions that are gone. L sends UNLISTEN for a
 *     channel without subscriptions; without clients it returns to its pool as an ordinary server.
 *
 *  8. L ends. notify_server_end() ends each client that L delivers to, because notifications may
 *     be lost. Clients that still have their own server keep it.
 *
 * What may be trusted: if a subscription is from_server only, S delivers everything; from_server
 * and from_listener, S delivers until its marker; from_listener only, L delivers everything since
 * the marker.
 *
 * The process ID of BackendKeyData is half of a client's cancel key. Only the client itself is told
 * this number in a notification. All other clients are told a hash of the number, which is the same
 * for all of them until an online restart.
 *
 * Invariant: while a listener has a server, each channel with a subscription from_listener is
 * CHANNEL_HEARD.
 */
#include "state/notify.h"

#include "backend/server_info.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/message.h"
#include "state/notifiers.h"
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

static struct notify_client *notify_client_at(struct list *node)
{
	return LIST_OBJECT(node, struct notify_client, node);
}
static struct subscription *of_client_at(struct list *node)
{
	return LIST_OBJECT(node, struct subscription, of_client);
}
static struct subscription *of_channel_at(struct list *node)
{
	return LIST_OBJECT(node, struct subscription, of_channel);
}

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

/* The channel has got its first subscription or lost its last one. The channel may be freed. */
static void channel_changes(struct notify_server *l, struct channel *channel)
{
	bool is_wanted = !list_is_empty(&channel->subscriptions);

	/* the listener has a LISTEN or UNLISTEN for the channel in progress: listen_done() looks at
	   it again */
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

/* ---- listeners ---- */

/* Returns the listener of the pool, and makes it on first use. NULL: no memory. */
static struct notify_server *notify_server_get(struct pool *pool, struct params_table *table)
{
	struct server_info *info = server_info_get(pool, table);

	if (!info || info->notify_server)
		return info ? info->notify_server : NULL;
	info->notify_server = mem_try(sizeof(*info->notify_server));
	if (!info->notify_server)
		return NULL;
	info->notify_server->pool = pool;
	list_init(&info->notify_server->clients);
	list_init(&info->notify_server->barriers);
	list_init(&info->notify_server->movers);
	list_init(&info->notify_server->changed);
	list_init(&info->notify_server->asked);
	list_init(&info->notify_server->of_world);
	return info->notify_server;
}

/* Returns how many servers of these pools are servers of listeners. */
static int64_t count_listening(const struct list *pools, size_t offset)
{
	int64_t count = 0;

	LIST_EACH(node, pools)
		count += ((const struct pool *)(const void *)((const char *)node - offset))
				 ->server_count[SERVER_LISTENING];
	return count;
}

/* Whether the limits allow `more` additional listeners and one server for work. */
bool notify_server_has_room(const struct pool *pool, int64_t more)
{
	int64_t size = pool->allowed.size, of_database = pool->database->servers->limit,
		of_user = pool->user->servers->limit;

	int64_t of_host = pool->pools->conf->settings.max_host_connections;

	/* all listeners together may use half of max_host_connections, so that the other half is
	   left for queries */
	return pool_keeps_state(pool) && pool->allowed.mode != MODE_SESSION && size != 1 &&
	       (of_host == 0 ||
		of_host / 2 >=
			count_listening(&pool->pools->all, offsetof(struct pool, node)) + more) &&
	       (of_database == 0 ||
		of_database > count_listening(&pool->database->members,
					      offsetof(struct pool, of_database)) +
				      more) &&
	       (of_user == 0 ||
		of_user > count_listening(&pool->user->members, offsetof(struct pool, of_user)) +
				  more);
}

/* The listener has lost its server: no channel is LISTENed to any more. */
static void forget_server(struct notify_server *l)
{
	struct channel *channel, *next;

	l->server = NULL;
	list_remove(&l->of_world);
	HASH_ITER(hh, l->channels, channel, next) {
		channel->state = CHANNEL_NEW;
		channel_changes(l, channel);
	}
}

/* Returns the server of a listener without clients and without work to its pool, and frees the
   listener. True: the listener is freed. */
static bool rest(struct notify_server *l)
{
	struct server *s = l->server;
	struct server_info *info = l->pool->server_info;

	if (!list_is_empty(&l->clients) || (s && (s->task || s->pooled.state != SERVER_LISTENING)))
		return false;
	forget_server(l);
	notify_server_free(&info->notify_server);
	if (s) {
		pool_server_become(&s->pooled, SERVER_TESTED, s->peer.world->now);
		server_run(s, &task_unlisten, "UNLISTEN *");
	}
	return true;
}

/* ---- the channels of a client ---- */

/* Returns the subscription of the client to the channel, or NULL. Walks the lists of the client and
   of the channel side by side, and ends with the shorter list. */
static struct subscription *subscription_of(const struct notify_client *h,
					    const struct channel *channel)
{
	struct list *mine = h->subscriptions.next, *its = channel->subscriptions.next;

	for (; mine != &h->subscriptions && its != &channel->subscriptions;
	     mine = mine->next, its = its->next) {
		if (of_client_at(mine)->channel == channel)
			return of_client_at(mine);
		if (of_channel_at(its)->notify_client == h)
			return of_channel_at(its);
	}
	return NULL;
}

static bool subscribe(struct notify_client *h, const char *name, bool from_server,
		      bool from_listener)
{
	struct channel *channel = channel_get(h->notify_server, name);
	struct subscription *s = channel ? mem_try(sizeof(*s)) : NULL;

	if (channel && !s)
		channel_changes(h->notify_server, channel);
	if (!s)
		return false;
	*s = (struct subscription){ .channel = channel,
				    .notify_client = h,
				    .from_server = from_server,
				    .from_listener = from_listener,
				    .is_there = true };
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
	c->pooled.listens = true;
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
	c->pooled.listens = false;
	l->pool->listening--;
	notify_server_work(l);
}

static bool has_channel(const struct notify_client *h, const char *name)
{
	const struct channel *channel = channel_find(h->notify_server, name);

	return channel && subscription_of(h, channel);
}

bool notify_client_learn(struct client *c, const struct session_answer *answer, bool is_exact)
{
	struct notify_client *h = c->session->notify_client;
	const char *names = bytes_size(&answer->channels) > 0
				    ? (const char *)bytes_front(&answer->channels)
				    : "";

	if (!h && bytes_size(&answer->channels) == 0)
		return true;
	h = notify_client_get(c);
	if (!h) {
		client_end(c, REASON_NO_MEMORY, NULL);
		return false;
	}
	LIST_EACH(node, &h->subscriptions)
		of_client_at(node)->is_there = false;
	for (const char *at = names, *end = at + bytes_size(&answer->channels); at < end;
	     at += strlen(at) + 1) {
		struct channel *channel = channel_find(h->notify_server, at);
		struct subscription *s = channel ? subscription_of(h, channel) : NULL;

		if (s) {
			s->is_there = true;
		} else if (!subscribe(h, at, true, false)) {
			client_end(c, REASON_NO_MEMORY, NULL);
			return false;
		}
	}
	/* the server knows all channels that it delivers from, and, if the answer is exact, all
	   channels of the client */
	h->step = bytes_size(&answer->channels) > 0 ? NOTIFY_LEAVES : NOTIFY_RESTS;
	LIST_EACH_SAFE(node, &h->subscriptions) {
		struct subscription *s = of_client_at(node);

		if (!s->is_there && (is_exact || s->from_server))
			unsubscribe(s);
		else if (s->from_server)
			h->step = NOTIFY_WAITS;
	}
	/* PostgreSQL sends no notification of a channel after the UNLISTEN */
	notify_pending_leave(h, has_channel);
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

	if (!h || (channel && subscription_of(h, channel)) ||
	    !subscribe(h, name, from_server, from_listener))
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

/* Sends the pending notifications if the client is between two messages and in no transaction. */
static void flush_if_idle(struct client *c)
{
	const struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	/* between two messages, and outside of transactions */
	if (!s || (!s->task && s->status == 'I' && ledger_is_empty(&s->ledger) &&
		   s->peer.passing == 0 && bytes_size(&s->peer.held) == 0))
		notify_client_flush(c);
}

void notify_clients_flush(struct world *w)
{
	struct list *node;

	for (int count = 0; count < FLUSHES_MOST && (node = list_first(&w->notify.due)) != NULL;
	     count++) {
		list_remove(node);
		flush_if_idle(LIST_OBJECT(node, struct notify_client, due)->client);
	}
	w->notify.deliveries = 0;
	w->notify.clients_wait = !list_is_empty(&w->notify.due);
}

/* Returns the process ID that this client is told for `told` (notify_sender): its own ID, or a
   hash, because it must not see another client's ID. */
static uint32_t sender_for(const struct client *c, uint32_t told)
{
	const uint32_t text[] = { 0x6e746679, told };
	uint32_t public = told;

	if (told == c->cancel_key.pid)
		return told;
	/* IDs of server processes are not secret */
	if (told > SERVER_PID_MOST)
		public = (hash_of(text, sizeof(text)) & INT32_MAX) | (SERVER_PID_MOST + 1);
	return public == c->cancel_key.pid ? public ^ 1 : public;
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

/* The listener has received the marker of a client with moving channels: from now on the listener
   delivers to this client. */
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

/* Whether the process that has sent the notification is the client's current server. */
static bool is_of_server(const struct client *c, uint32_t pid)
{
	return c->pooled.link && pid != 0 && server_of(c->pooled.link)->backend_pid == pid;
}

/* Whether the notification was sent by the client's current server, and this server delivers it to
   the client, because it LISTENs to all channels that the client still has. */
static bool is_from_own_server(const struct client *c, uint32_t pid)
{
	return is_of_server(c, pid) && server_of(c->pooled.link)->session.channels_restored;
}

/* The listener has received a notification for this client. */
static void deliver(struct notify_client *h, const struct pg_frame *f, uint32_t pid, uint32_t told)
{
	if (is_from_own_server(h->client, pid))
		notify_pend_echo(h, f);
	else
		notify_pend_heard(h, f, sender_for(h->client, told));
	h->client->peer.world->notify.deliveries += 1 + (PG_HEADER + f->size) / DELIVERY_BYTES;
}

bool notify_clients_deliver(struct server *s, const struct pg_frame *f)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	struct notification n;
	struct channel *channel;
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
	LIST_EACH(node, &channel->subscriptions)
		if (of_channel_at(node)->from_listener)
			deliver(of_channel_at(node)->notify_client, f, n.pid, told);
	return true;
}

bool notify_client_passes(const struct server *s, struct client *c, const struct pg_frame *f)
{
	struct notify_client *h = c->pooled.listens ? c->session->notify_client : NULL;
	/* the frame is in the read buffer or in the held bytes: both may be changed */
	uint8_t *pid = (uint8_t *)(uintptr_t)f->body;
	const struct channel *channel;
	const struct subscription *sub;
	struct notification n;
	uint32_t told;

	if (h && notification_read(f, &n)) {
		if (strcmp(n.channel, h->notify_server->marker) == 0) {
			LIST_EACH(node, &h->subscriptions)
				of_client_at(node)->from_server = false;
			return false;
		}
		channel = channel_find(h->notify_server, n.channel);
		sub = channel ? subscription_of(h, channel) : NULL;
		/* without `sub`: pgweir learns the channels of the last LISTEN at the end of the
		   transaction */
		if (sub && !sub->from_server && !is_from_own_server(c, n.pid))
			return false;
		/* pending, because notifications that others have committed earlier come first, and
		   the listener may still have to deliver them */
		if (is_of_server(c, n.pid) && notify_client_is_told(h)) {
			told = sender_for(c, notify_sender(s, n.pid));
			notify_pend_own(h, f, told, sub && sub->from_listener);
			return false;
		}
	}
	if (f->here >= NOTIFICATION_HEAD)
		pg_u32_put(pid, sender_for(c, notify_sender(s, pg_u32_at(pid))));
	return true;
}

/* ---- the server of a listener ---- */

static void take_server(struct notify_server *l, struct server *s)
{
	l->server = s;
	l->heard = 0;
	list_append(&s->peer.world->notify.listeners, &l->of_world);
}

void notify_server_begin(struct notify_server *l, struct server *s, struct notify_client *first)
{
	struct world *w = s->peer.world;
	uint8_t random[8];
	char who[256];

	ASSERT(!l->server && s->pooled.state == SERVER_LISTENING);
	take_server(l, s);
	l->marker_is_heard = false;
	if (!randomness_draw(&w->randomness, random, sizeof(random)))
		memcpy(random, &w->peers.last_id, sizeof(random));
	memcpy(l->marker, "pgweir_", 7);
	text_hex(l->marker + 7, random, sizeof(random));
	LIST_EACH(node, &first->subscriptions) {
		struct subscription *sub = of_client_at(node);

		sub->from_server = false;
		sub->from_listener = true;
		sub->channel->state = CHANNEL_HEARD;
		channel_changes(l, sub->channel);
	}
	first->step = NOTIFY_RESTS;
	log_info("%s listens for the clients of its pool", server_text(s, who, sizeof(who)));
	notify_server_work(l);
}

void notify_server_work(struct notify_server *l)
{
	struct server *s = l->server;
	struct bytes sql = BYTES_EMPTY;

	if ((s && s->task) || rest(l) || !s)
		return;
	if (!l->marker_is_heard)
		channel_sql(&sql, "LISTEN ", l->marker);
	LIST_EACH_SAFE(node, &l->changed) {
		struct channel *channel = LIST_OBJECT(node, struct channel, node);
		bool is_new = channel->state == CHANNEL_NEW;

		channel_sql(&sql, is_new ? "LISTEN " : "UNLISTEN ", channel->name);
		channel->state = is_new ? CHANNEL_ASKED : CHANNEL_LEFT;
		list_remove(node);
		list_append(&l->asked, node);
	}
	if (bytes_size(&sql) == 0 && !sql.failed && !l->is_to_answer && list_is_empty(&l->barriers))
		return;
	l->is_to_answer = false;
	l->sent++;
	l->asked_for = s->peer.world->notify.releases;
	server_run_and_free(s, &task_listen, &sql);
}

/* The listener has answered a query and has received everything that was committed before. Clients
   whose ReadyForQuery waits for the answer get it; clients whose channels are LISTENed to now can
   send their marker. */
static enum task_end listen_done(struct server *s, bool failed)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	bool has_changed;

	ASSERT(l && l->server == s);
	if (failed || s->said_fatal) {
		server_end(s, s->said_fatal ? REASON_SERVER_CRASHED : REASON_TEST_FAILED, NULL);
		return TASK_END_NOTHING;
	}
	has_changed = !l->marker_is_heard || !list_is_empty(&l->asked);
	l->answered = l->sent;
	l->heard = l->asked_for;
	l->marker_is_heard = true;
	LIST_EACH_SAFE(node, &l->movers) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, moving);

		/* if both servers were of one database, the marker would have arrived before this
		   answer: the channels cannot move, and the client ends */
		if (h->heard_by > 0 && h->heard_by <= l->answered)
			client_end(h->client, REASON_LISTENER_LOST,
				   "the client has LISTENed on another server");
	}
	LIST_EACH_SAFE(node, &l->asked) {
		struct channel *channel = LIST_OBJECT(node, struct channel, node);

		channel->state = channel->state == CHANNEL_ASKED ? CHANNEL_HEARD : CHANNEL_NEW;
		channel_changes(l, channel);
	}
	LIST_EACH_SAFE(node, &l->barriers) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, waiting);

		if (h->barrier > l->answered)
			continue;
		list_remove(node);
		peer_post(&h->client->peer, POST_READY);
	}
	if (has_changed)
		LIST_EACH(node, &l->clients)
			if (notify_client_at(node)->step == NOTIFY_WAITS)
				peer_post(&notify_client_at(node)->client->peer, POST_LINK);
	s->peer.world->notify.is_wait_due |= s->peer.world->notify.servers_wait;
	notify_server_work(l);
	return TASK_END_NOTHING;
}

/* LISTEN or UNLISTEN, or an empty query. */
const struct server_task task_listen = {
	.name = "listen",
	.description = "LISTEN for the clients of the pool",
	.states = TASK_IN(LISTENING),
	.on_done = listen_done,
};

void notify_server_tick(struct notify_server *l)
{
	const struct world *w = l->server->peer.world;

	if (l->server->task == NULL &&
	    w->now - l->server->task_since > w->conf->settings.server_check_delay) {
		l->is_to_answer = true;
		notify_server_work(l);
	}
	LIST_EACH(node, &l->clients)
		flush_if_idle(notify_client_at(node)->client);
}

/* ---- ends, and the handover ---- */

void notify_server_end(struct server *s, enum close_reason why)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	char words[256];

	if (!l || l->server != s)
		return;
	close_reason_text(why, NULL, words, sizeof(words));
	LIST_EACH(node, &l->clients) {
		struct notify_client *h = notify_client_at(node);

		flush_if_idle(h->client);
		if (notify_client_is_told(h) || !list_is_empty(&h->waiting))
			client_end(h->client, REASON_LISTENER_LOST, words);
		else if (h->step != NOTIFY_RESTS)
			h->step = NOTIFY_WAITS;
	}
	forget_server(l);
	rest(l);
	s->peer.world->notify.is_wait_due |= s->peer.world->notify.servers_wait;
}

bool notify_server_restore_server(struct server *s, const char *marker)
{
	struct notify_server *l = notify_server_get(s->pooled.pool, s->peer.world->params);

	if (!l || l->server || strlen(marker) != LISTENER_MARKER - 1)
		return false;
	take_server(l, s);
	memcpy(l->marker, marker, LISTENER_MARKER);
	l->marker_is_heard = true;
	return true;
}
