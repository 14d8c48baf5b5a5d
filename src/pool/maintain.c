/*
 * Periodic work: server lifetimes and idle timeouts, timeouts in the queue, unused pools, ends of statistics periods.
 *
 * These functions run several times a second for every pool, so a pool without due work must cost little: the lists are in
 * order of time, and only their ends are looked at, independent of the number of clients.
 *
 * Invariant: this file closes only servers without a client and refuses only clients without a server.
 */
#include "pool/inside.h"

#define SETTINGS(pool) (&(pool)->pools->conf->settings)

/* Returns the unused server that was opened first and has reached server_lifetime, or NULL. */
static struct pool_server *oldest_aged(const struct pool *pool, usec_t lifetime, usec_t now)
{
	static const enum server_state states[] = { SERVER_USED, SERVER_IDLE };
	struct pool_server *oldest = NULL;

	for (int i = 0; i < 2; i++) {
		LIST_EACH(node, &pool->servers[states[i]]) {
			struct pool_server *server = server_at(node);

			/* With a lifetime of 0, a server that has not served a client yet may still serve one. */
			if (lifetime == 0 ? !server->lent : now - server->opened < lifetime)
				continue;
			if (!oldest || server->opened < oldest->opened)
				oldest = server;
		}
	}
	return oldest;
}

/* At least lifetime / size passes between two closes, so that a pool does not lose all its servers at the same time. */
static void close_aged(struct pool *pool, usec_t now)
{
	usec_t lifetime = pool->allowed.server_lifetime, since_last = now - pool->pools->maintained_at;
	int64_t size = pool->allowed.size > 0 ? pool->allowed.size : pool->live;
	usec_t gap = size > 0 ? lifetime / size : 0, due = pool->last_lifetime_close;
	usec_t grace = gap > since_last ? gap : since_last;
	struct pool_server *server;

	/* Closes that were due since the last maintenance are made up for, but not closes from an earlier quiet period. */
	if (due < now - grace)
		due = now - grace;
	while (due + gap <= now && (server = oldest_aged(pool, lifetime, now)) != NULL) {
		if (!server_drop(server, REASON_SERVER_LIFETIME))
			return;
		due += gap;
		pool->last_lifetime_close = lifetime > 0 ? due : pool->last_lifetime_close;
	}
}

/* Closes servers that only look-ups have used: if no client has logged in to the database and no login needs them, or, when a
   look-up of another pool waits for max_auth_query_connections, the idle ones. */
static void close_internal_servers(struct pool *pool)
{
	static const enum server_state states[] = { SERVER_LOGIN, SERVER_TESTED, SERVER_IDLE, SERVER_USED };
	bool unwanted = pool_is_unwanted(pool);

	for (int i = 0; i < 4; i++) {
		bool is_idle = states[i] == SERVER_IDLE || states[i] == SERVER_USED;

		LIST_EACH_SAFE(node, &pool->servers[states[i]]) {
			struct pool_server *server = server_at(node);

			if (server->is_cancel || !server->for_internal)
				continue;
			if (unwanted)
				server_drop(server, REASON_LOOKUP_OVER);
			else if (pool->pools->internal_servers_missed && is_idle)
				server_drop(server, REASON_INTERNAL_SERVERS);
		}
	}
}

static void maintain_servers(struct pool *pool, usec_t now)
{
	int64_t size = pool->allowed.size, most = size + pool->allowed.reserve;
	usec_t timeout = SETTINGS(pool)->server_idle_timeout;
	struct pool_server *server;

	if (pool->pools->internal_servers > 0)
		close_internal_servers(pool);
	pool_age(pool, now);
	/* After pool_size was lowered. Reserve connections stay until their idle timeout. */
	while (size > 0 && pool->live > most && (server = pool_longest_idle(pool)) != NULL && server_drop(server, REASON_TOO_MANY_SERVERS))
		;
	if (pool_longest_idle(pool))
		close_aged(pool, now);
	while (timeout > 0 && (server = pool_longest_idle(pool)) != NULL && pool->live > pool_floor(pool) && now - server->since >= timeout &&
	       server_drop(server, REASON_SERVER_IDLE))
		;
	pool_open_unasked(pool, now);
}

/* query_timeout includes the wait and the time of a PAUSE; query_wait_timeout does not include a PAUSE. */
static enum close_reason overdue(const struct pool_client *client, usec_t now)
{
	const struct user *user = client->login_user;
	usec_t query = first_set(OF_USER(user, query_timeout), CONF_UNSET, SETTINGS(client->pool)->query_timeout);
	usec_t wait = first_set(OF_USER(user, query_wait_timeout), client->pool->database->conf->query_wait_timeout,
				SETTINGS(client->pool)->query_wait_timeout);

	if (query > 0 && now - client->since >= query)
		return REASON_QUERY_TIMEOUT_WAITING;
	if (wait > 0 && !pool_is_held(client->pool) && pool_waited(client, now) >= wait)
		return REASON_QUERY_WAIT_TIMEOUT;
	return REASON_NONE;
}

static void refuse_overdue(struct pool *pool, enum client_state state, usec_t now)
{
	struct list *head = &pool->clients[state], *node = head->next;

	while (node != head) {
		struct pool_client *client = client_at(node);
		enum close_reason why = overdue(client, now);

		/* The queue is in the order of deadlines, unless users have their own timeouts. */
		if (why == REASON_NONE && !pool->pools->waits_differ)
			return;
		if (why == REASON_NONE) {
			node = node->next;
			continue;
		}
		pool->pools->ops->refuse(client, why);
		if (client->state != CLIENT_DEAD)
			return;
		/* other clients may have ended too */
		node = head->next;
	}
}

static void notify_waiting(struct pool *pool, usec_t now)
{
	usec_t patience = SETTINGS(pool)->query_wait_notify;
	struct list *head = &pool->clients[CLIENT_WAITING], *node = head->next;

	while (patience > 0 && node != head) {
		struct pool_client *client = client_at(node);
		struct list *before = node->prev;

		if (pool_waited(client, now) < patience)
			return;
		if (!client->notified) {
			client->notified = true;
			pool->pools->ops->notify(client, now - client->since);
		}
		/* The client may have ended while the notice was sent. */
		node = client->state == CLIENT_WAITING ? node->next : before->next;
	}
}

static void maintain_clients(struct pool *pool, usec_t now)
{
	usec_t timeout = SETTINGS(pool)->cancel_wait_timeout;
	struct pool_client *first;

	if (pool_is_held(pool))
		pool->held_until = now;
	/* while suspended, the end of a client may not have been read yet */
	if (!pool->pools->suspended) {
		refuse_overdue(pool, CLIENT_WAITING, now);
		refuse_overdue(pool, CLIENT_WAITING_LOGIN, now);
	}
	if (!pool_is_held(pool))
		notify_waiting(pool, now);
	while (timeout > 0 && (first = client_first(pool, CLIENT_WAITING_CANCEL)) != NULL && now - first->since >= timeout) {
		pool->pools->ops->refuse(first, REASON_CANCEL_WAIT_TIMEOUT);
		if (first->state != CLIENT_DEAD)
			break;
	}
	/* The reserve pool and the end of server_login_retry depend on time only. */
	if (pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN] +
	    pool->client_count[CLIENT_WAITING_CANCEL] > 0)
		pool_mark(pool);
}

bool pools_maintain(struct pools *pools, usec_t now)
{
	LIST_EACH(node, &pools->all) {
		struct pool *pool = pool_at(node);

		if (pool->database->is_console)
			continue;
		if (!pools->suspended)
			maintain_servers(pool, now);
		maintain_clients(pool, now);
	}
	if (!pools->suspended)
		registry_sweep(pools, now);
	pools->internal_servers_missed = false;
	pools->maintained_at = now;
	if (now - pools->stats_at < pools->conf->settings.stats_period)
		return false;
	pools->stats_at = now;
	for (struct database *database = pools->databases; database; database = database->hh.next)
		stats_period_end(&database->stats, now);
	return true;
}
