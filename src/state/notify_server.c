/*
 * The listener of a pool (session_state = full): a server connection that LISTENs to the channels of all listening clients of the pool. Its
 * notifications are delivered to each of these clients, whether the client has a server or not (notify_client.c).
 *
 * A client LISTENs on its own server and keeps this server (PIN_LISTENING) while its channels move to the listener. The first such server of a pool
 * becomes the listener's server. For the next clients:
 *
 *	the listener		LISTEN "a"				(step WAITS)
 *	the client's server	LISTEN marker; NOTIFY marker, '7'	(step MARKS)
 *	the client's server	UNLISTEN *				(step LEAVES)
 *
 * All servers receive notifications in the order of commits ("NOTIFY" in the documentation of PostgreSQL). The client therefore receives the
 * notifications before the marker from its own server and the notifications after the marker from the listener: none is lost or comes twice.
 *
 * The listener is sent one query at a time: LISTEN and UNLISTEN for all channels that have changed since the last query, or an empty query. After
 * its answer the listener has received everything that was committed before the query was sent (notify_client.barrier, heard).
 *
 * The sender. PostgreSQL names the server process that executed NOTIFY. A client knows another number: the process ID of its BackendKeyData. A
 * notification therefore gets the number of the client that the server process works for, or has worked for last. A notification may arrive after
 * the server is assigned to its next client. A server whose client may have sent a notification (server->notifies) therefore waits after the link
 * (task_hear) until each listener has answered a query that was sent after the transaction. A notification that arrives at the client's own server,
 * when it is pinned or in session mode, can still come later.
 *
 * Servers are found by process ID and address: two clusters may have processes with the same ID.
 *
 * Invariant: while a listener has a server, each channel with a subscription from_listener is CHANNEL_HEARD.
 */
#include "state/notify_server.h"

#include "backend/server_info.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "pg/message.h"
#include "state/notify_client.h"
#include "state/server_session.h"
#include "state/task.h"

#include <string.h>

static struct notify_client *notify_client_at(struct list *node) { return LIST_OBJECT(node, struct notify_client, node); }
static struct subscription *of_client_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_client); }

/* ---- listeners and channels ---- */

struct notify_server *notify_server_of(const struct pool *pool)
{
	const struct server_info *info = pool->server_cache;

	return info ? info->notify_server : NULL;
}

struct notify_server *notify_server_get(struct pool *pool, struct params_table *table)
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

void notify_server_free(struct notify_server **place)
{
	ASSERT(!*place || (list_is_empty(&(*place)->clients) && !(*place)->channels));
	mem_free(*place);
	*place = NULL;
}

/* Returns how many servers of these pools are servers of listeners. */
static int64_t count_listening(const struct list *pools, size_t offset)
{
	int64_t count = 0;

	LIST_EACH(node, pools)
		count += ((const struct pool *)(const void *)((const char *)node - offset))->server_count[SERVER_LISTENING];
	return count;
}

/* Whether the limits allow `more` additional listeners and one server for work. */
bool notify_server_has_room(const struct pool *pool, int64_t more)
{
	int64_t size = pool->allowed.size, of_database = database_max_servers(pool->database), of_user = user_max_servers(pool->pools, pool->user);

	return pool_keeps_state(pool) && pool->allowed.mode != MODE_SESSION && size != 1 &&
	       (of_database == 0 || of_database > count_listening(&pool->database->members, offsetof(struct pool, of_database)) + more) &&
	       (of_user == 0 || of_user > count_listening(&pool->user->members, offsetof(struct pool, of_user)) + more);
}

/* Without a server no channel is LISTENed to. */
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

/* Returns the server of a listener without clients and without work to its pool, and frees the listener. True: the listener is freed. */
static bool rest(struct notify_server *l)
{
	struct server *s = l->server;
	struct server_info *info = l->pool->server_cache;

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

/* ---- its server ---- */

static void take_server(struct notify_server *l, struct server *s)
{
	l->server = s;
	l->heard = 0;
	list_append(&s->peer.world->listeners, &l->of_world);
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
		memcpy(random, &w->last_id, sizeof(random));
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
	l->asked_for = s->peer.world->notified;
	server_run_and_free(s, &task_listen, &sql);
}

/* The listener has answered a query and has received everything that was committed before. Clients whose ReadyForQuery waits for the answer get it;
   clients whose channels are LISTENed to now can send their marker. */
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

		/* the marker would have arrived before this answer if both servers were of one database */
		if (h->heard_by > 0 && h->heard_by <= l->answered)
			client_end(h->client, REASON_LISTENER_LOST, "the client has LISTENed on another server");
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
	s->peer.world->notifiers_due |= s->peer.world->notifiers_wait;
	notify_server_work(l);
	return TASK_END_NOTHING;
}

/* LISTEN or UNLISTEN, or an empty query. */
const struct server_task task_listen = {
	.name = "listen", .words = "LISTEN for the clients of the pool", .states = TASK_IN(LISTENING), .on_done = listen_done,
};

void notify_server_tick(struct notify_server *l)
{
	const struct world *w = l->server->peer.world;

	if (l->server->task == NULL && w->now - l->server->task_since > w->conf->settings.server_check_delay) {
		l->is_to_answer = true;
		notify_server_work(l);
	}
	LIST_EACH(node, &l->clients)
		notify_client_flush_if_idle(notify_client_at(node)->client);
}

/* ---- servers whose clients have sent notifications ---- */

static bool is_same_cluster(const struct server *a, const struct server *b)
{
	return a->address && b->address && a->peer.remote.port == b->peer.remote.port && address_is_same_host(a->address, b->address);
}

/* Returns the server connection of process `pid` in the cluster of `beside`, or NULL. */
static const struct server *find_process(const struct server *beside, uint32_t pid)
{
	const struct server *s;

	if (pid == beside->backend_pid)
		return beside;
	HASH_FIND(by_backend_pid, beside->peer.world->by_backend_pid, &pid, sizeof(pid), s);
	for (; s; s = HASH_NEXT_IN_BUCKET(by_backend_pid, s))
		if (s->backend_pid == pid && is_same_cluster(s, beside))
			return s;
	return NULL;
}

uint32_t notify_sender(const struct server *to, uint32_t pid)
{
	const struct server *from = find_process(to, pid);
	const struct client *c = from && from->pooled.link && !from->pooled.link->is_internal ? client_of(from->pooled.link) : NULL;

	/* a client in its login has executed nothing */
	if (c && c->has_cancel_key)
		return c->cancel_pid;
	return from && from->told_pid != 0 ? from->told_pid : pid;
}

void notifiers_continue(struct world *w)
{
	w->notifiers_due = w->notifiers_wait = false;
	LIST_EACH_SAFE(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		bool is_waiting = false;

		if (s->task != &task_hear || s->pooled.link)
			continue;
		LIST_EACH_SAFE(of_world, &w->listeners) {
			struct notify_server *l = LIST_OBJECT(of_world, struct notify_server, of_world);

			/* the listener has received the notifications, or never will */
			if (l->heard >= s->notified || list_is_empty(&l->clients) || !is_same_cluster(l->server, s))
				continue;
			is_waiting = true;
			l->is_to_answer = true;
			notify_server_work(l);
		}
		if (is_waiting) {
			w->notifiers_wait = true;
			continue;
		}
		s->notifies = false;
		server_task_to(s, NULL);
		server_release(s);
	}
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

		notify_client_flush_if_idle(h->client);
		if (notify_client_is_told(h) || !list_is_empty(&h->waiting))
			client_end(h->client, REASON_LISTENER_LOST, words);
		else if (h->step != NOTIFY_RESTS)
			h->step = NOTIFY_WAITS;
	}
	forget_server(l);
	rest(l);
	s->peer.world->notifiers_due |= s->peer.world->notifiers_wait;
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
