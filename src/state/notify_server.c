/*
 * The listener of a pool, with session_state = full: a server that has LISTENed to the channels of all clients which LISTEN. What it hears goes
 * to each of them (notify_client.c), whether that has a server or not.
 *
 * A client LISTENs on the server that it has, and keeps it (PIN_LISTENING) while its channels move to the listener. The first such server of a
 * pool becomes the listener's itself. For later ones:
 *
 *	the listener		LISTEN "a"				(step WAITS)
 *	the client's server	LISTEN marker; NOTIFY marker, '7'	(step MARKS)
 *	the client's server	UNLISTEN *				(step LEAVES)
 *
 * All servers hear notifications in one order, that of commits ("NOTIFY" in the documentation of PostgreSQL). So the client is told by its own server
 * up to the marker, and by the listener from the marker on: nothing is lost, and nothing comes twice. notify_client.c takes these steps.
 *
 * The listener is sent one query at a time: LISTEN and UNLISTEN for all channels that have come and gone since the last one, or nothing. Its answer
 * also says that all has come which was committed before the query was sent (notify_client_barrier).
 *
 * Invariant: while a listener has a server, each channel with a subscription from_listener is CHANNEL_HEARD.
 */
#include "state/notify_server.h"

#include "state/notify_client.h"
#include "state/notifier.h"
#include "backend/server_info.h"
#include "state/task.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "pg/message.h"

#include <stdlib.h>
#include <string.h>

static struct notify_client *notify_client_at(struct list *node) { return LIST_OBJECT(node, struct notify_client, node); }
static struct subscription *of_client_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_client); }
static struct subscription *of_channel_at(struct list *node) { return LIST_OBJECT(node, struct subscription, of_channel); }

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

/* Servers of these pools that are their listeners'. */
static int64_t count_listening(const struct list *pools, size_t offset)
{
	int64_t count = 0;

	LIST_EACH(node, pools)
		count += ((const struct pool *)(const void *)((const char *)node - offset))->server_count[SERVER_LISTENING];
	return count;
}

/* Whether the limits allow `more` additional listeners, and one server for work. */
static bool has_room(const struct pool *pool, int64_t more)
{
	int64_t size = pool->allowed.size, of_database = database_max_servers(pool->database), of_user = user_max_servers(pool->pools, pool->user);

	return pool_keeps_state(pool) && pool_mode_of(pool) != MODE_SESSION && size != 1 &&
	       (of_database == 0 || of_database > count_listening(&pool->database->members, offsetof(struct pool, of_database)) + more) &&
	       (of_user == 0 || of_user > count_listening(&pool->user->members, offsetof(struct pool, of_user)) + more);
}

bool notify_server_may_begin(const struct pool *pool)
{
	return has_room(pool, 1);
}

bool notify_server_may_stay(const struct pool *pool)
{
	return has_room(pool, 0);
}

struct channel *channel_find(const struct notify_server *l, const char *name)
{
	struct channel *channel;

	HASH_FIND(hh, l->channels, name, strlen(name), channel);
	return channel;
}

struct channel *channel_get(struct notify_server *l, const char *name)
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

static void channel_free(struct notify_server *l, struct channel *channel)
{
	list_remove(&channel->node);
	HASH_DEL(l->channels, channel);
	mem_free(channel);
}

void channel_changes(struct notify_server *l, struct channel *channel)
{
	bool is_wanted = !list_is_empty(&channel->subscriptions);

	/* the answer to that comes first */
	if (channel->state == CHANNEL_ASKED || channel->state == CHANNEL_LEFT)
		return;
	list_remove(&channel->node);
	if (is_wanted != (channel->state == CHANNEL_HEARD))
		list_append(&l->changed, &channel->node);
	else if (!is_wanted)
		channel_free(l, channel);
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

bool notify_server_rests(struct notify_server *l)
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

bool notify_server_has_heard(const struct notify_server *l, const struct server *s)
{
	return l->heard >= s->notified || list_is_empty(&l->clients) || !notifier_is_same_place(l->server, s);
}

static void draw_marker(struct notify_server *l, struct world *w)
{
	uint8_t random[8];

	if (!randomness_draw(&w->randomness, random, sizeof(random)))
		memcpy(random, &w->last_id, sizeof(random));
	memcpy(l->marker, "pgweir_", 7);
	text_hex(l->marker + 7, random, sizeof(random));
}

void notify_server_begin(struct notify_server *l, struct server *s, struct notify_client *first)
{
	char who[256];

	ASSERT(!l->server && s->pooled.state == SERVER_LISTENING);
	take_server(l, s);
	l->marker_is_heard = false;
	draw_marker(l, s->peer.world);
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

static void append_channels(struct notify_server *l, struct bytes *sql)
{
	if (!l->marker_is_heard)
		channel_sql(sql, "LISTEN ", l->marker);
	LIST_EACH_SAFE(node, &l->changed) {
		struct channel *channel = LIST_OBJECT(node, struct channel, node);
		bool is_new = channel->state == CHANNEL_NEW;

		channel_sql(sql, is_new ? "LISTEN " : "UNLISTEN ", channel->name);
		channel->state = is_new ? CHANNEL_ASKED : CHANNEL_LEFT;
		list_remove(node);
		list_append(&l->asked, node);
	}
}

void notify_server_work(struct notify_server *l)
{
	struct server *s = l->server;
	struct bytes sql = BYTES_EMPTY;

	if (!s || s->task != NULL || notify_server_rests(l))
		return;
	append_channels(l, &sql);
	if (bytes_size(&sql) == 0 && !sql.failed && !l->is_to_answer && list_is_empty(&l->barriers))
		return;
	l->is_to_answer = false;
	l->sent++;
	l->asked_for = s->peer.world->notified;
	server_run_and_free(s, &task_listen, &sql);
}

static void end_strangers(struct notify_server *l)
{
	LIST_EACH_SAFE(node, &l->movers) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, moving);

		if (h->heard_by > 0 && h->heard_by <= l->answered)
			client_end(h->client, REASON_LISTENER_LOST, "the client has LISTENed on another server");
	}
}

/* The listener has answered a query, and has received all that was committed before that: clients whose ReadyForQuery waits for it can get it, and
   clients whose channels are heard now can send their marker. */
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
	end_strangers(l);
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

/* ---- notifications ---- */

/* From now on the listener delivers to the client that has sent this marker. */
static void marker_heard(struct notify_server *l, const char *payload)
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

bool notify_server_heard(struct server *s, const struct pg_frame *f)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	struct notification n;
	struct channel *channel;
	struct bytes message = BYTES_EMPTY;
	uint32_t told, public;

	if (!notification_read(f, &n))
		return false;
	if (!l || l->server != s)
		return true;
	if (strcmp(n.channel, l->marker) == 0)
		marker_heard(l, n.payload);
	channel = channel_find(l, n.channel);
	if (!channel)
		return true;
	told = notifier_told(s, n.pid);
	public = notifier_public(told);
	bytes_append_u8(&message, PGS_NOTIFICATION);
	bytes_append_u32(&message, f->size + PG_LENGTH_WORD);
	bytes_append_u32(&message, public);
	bytes_append(&message, f->body + NOTIFICATION_HEAD, f->size - NOTIFICATION_HEAD);
	LIST_EACH(node, &channel->subscriptions) {
		struct subscription *sub = of_channel_at(node);

		if (sub->from_listener && message.failed)
			client_end(sub->notify_client->client, REASON_NO_MEMORY, NULL);
		else if (sub->from_listener)
			notify_client_deliver(sub->notify_client, bytes_front(&message), bytes_size(&message),
					notifier_for(sub->notify_client->client, told, public));
	}
	bytes_free(&message);
	return true;
}

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

/* ---- ends, and the hand-over ---- */

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
	notify_server_rests(l);
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
