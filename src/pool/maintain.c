/*
 * Periodic work: server lifetimes and idle timeouts, timeouts in the queue, unused pools, ends of statistics periods.
 *
 * These functions run several times a second for every pool, so a pool without due work must cost little: the lists are in
 * order of time, and only their ends are looked at, independent of the number of clients.
 *
 * Invariant: this file closes only servers without a client and refuses only clients without a server. It opens servers only
 * for min_pool_size and to probe a server that is down, and never evicts a server for these.
 */
#include "pool/inside.h"

#define SETTINGS(pool) (&(pool)->pools->conf->settings)

static bool drop(struct pool_server *server, enum close_reason why)
{
	server->pool->pools->ops->drop(server, why);
	return server->state == SERVER_DEAD;
}

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
	usec_t lifetime = pool_server_lifetime_of(pool), since_last = now - pool->pools->maintained_at;
	int64_t size = pool_size_of(pool) > 0 ? pool_size_of(pool) : pool_live(pool);
	usec_t gap = size > 0 ? lifetime / size : 0, due = pool->last_lifetime_close;
	usec_t grace = gap > since_last ? gap : since_last;
	struct pool_server *server;

	/* Closes that were due since the last maintenance are made up for, but not closes from an earlier quiet period. */
	if (due < now - grace)
		due = now - grace;
	while (due + gap <= now && (server = oldest_aged(pool, lifetime, now)) != NULL) {
		if (!drop(server, REASON_SERVER_LIFETIME))
			return;
		due += gap;
		pool->last_lifetime_close = lifetime > 0 ? due : pool->last_lifetime_close;
	}
}

static void close_long_idle(struct pool *pool, usec_t now)
{
	usec_t timeout = SETTINGS(pool)->server_idle_timeout;
	struct pool_server *server;

	while (timeout > 0 && pool_live(pool) > pool_floor(pool) && (server = pool_longest_idle(pool)) != NULL &&
	       now - server->since >= timeout) {
		if (!drop(server, REASON_SERVER_IDLE))
			return;
	}
}

/* Closes idle servers after pool_size was lowered. Reserve connections stay until their idle timeout. */
static void close_excess(struct pool *pool)
{
	int64_t size = pool_size_of(pool), most = size + pool_reserve_of(pool);
	struct pool_server *server;

	while (size > 0 && pool_live(pool) > most && (server = pool_longest_idle(pool)) != NULL) {
		if (!drop(server, REASON_TOO_MANY_SERVERS))
			return;
	}
}

static bool is_reached(int64_t count, int64_t limit)
{
	return limit > 0 && count >= limit;
}

static bool limits_have_room(const struct pool *pool)
{
	return !is_reached(pool->database->servers, database_max_servers(pool->database)) &&
	       !is_reached(pool->user->servers, user_max_servers(pool->pools, pool->user)) &&
	       !is_reached(pool->pools->internal_servers, pool_max_internal_servers(pool));
}

/* server_login_retry protects a server from failing logins. A restarted server is back sooner, so pgweir probes it twice a
   second. Without clients there is no probe, unless a client got the error and has left. */
static void look_for_server(struct pool *pool, usec_t now)
{
	bool may_look = pool->login_failure == FAILURE_AWAY || pool->login_failure == FAILURE_BUSY || pool->login_failure == FAILURE_FULL;
	struct pool_match match;

	if (!pool->login_failed || !may_look || now - pool->login_failed_at < POOL_LOOK_EVERY)
		return;
	if (pool_clients(pool) == 0 && !pool->missed)
		return;
	if (pool_usable(pool) > 0 || pool_is_full(pool) || pool_is_held(pool) || pool->database->removed ||
	    pool->pools->draining == POOL_DRAIN_SERVERS || !limits_have_room(pool))
		return;
	pool->missed = false;
	pool_match(pool, &match);
	pool->pools->ops->dial(pool, match.unserved ? match.unserved : pool_first_client(pool, CLIENT_WAITING_LOGIN));
}

/* Opens one server at a time for min_pool_size, and only if no client waits and no limit is reached. */
static void fill_to_floor(struct pool *pool, usec_t now)
{
	bool failing = pool->login_failed && now - pool->login_failed_at < SETTINGS(pool)->server_login_retry;

	if (pool_live(pool) >= pool_floor(pool) || pool_is_held(pool) || failing)
		return;
	if (pool->server_count[SERVER_LOGIN] - pool->cancel_logins > 0 || pool->client_count[CLIENT_WAITING] > 0 ||
	    pool->client_count[CLIENT_WAITING_LOGIN] > 0)
		return;
	if (limits_have_room(pool))
		pool->pools->ops->dial(pool, NULL);
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
				drop(server, REASON_LOOKUP_OVER);
			else if (pool->pools->internal_servers_missed && is_idle)
				drop(server, REASON_INTERNAL_SERVERS);
		}
	}
}

static void maintain_servers(struct pool *pool, usec_t now)
{
	if (pool->pools->internal_servers > 0)
		close_internal_servers(pool);
	pool_age(pool, now);
	if (pool_longest_idle(pool)) {
		close_excess(pool);
		close_aged(pool, now);
		close_long_idle(pool, now);
	}
	fill_to_floor(pool, now);
	look_for_server(pool, now);
}

/* query_timeout includes the wait and the time of a PAUSE; query_wait_timeout does not include a PAUSE. */
static enum close_reason overdue(const struct pool_client *client, usec_t now)
{
	usec_t wait = client_query_wait_timeout_of(client), query = client_query_timeout_of(client);

	if (query > 0 && now - client->since >= query)
		return REASON_QUERY_TIMEOUT_WAITING;
	if (wait > 0 && !pool_is_held(client->pool) && pool_waited(client, now) >= wait)
		return REASON_QUERY_WAIT_TIMEOUT;
	return REASON_NONE;
}

/* The queue is in the order of deadlines, unless users have their own timeouts. */
static struct pool_client *first_overdue(const struct pool *pool, enum client_state state, usec_t now)
{
	LIST_EACH(node, &pool->clients[state]) {
		if (overdue(client_at(node), now) != REASON_NONE)
			return client_at(node);
		if (!pool->pools->waits_differ)
			break;
	}
	return NULL;
}

static void refuse_overdue(struct pool *pool, enum client_state state, usec_t now)
{
	struct pool_client *client;

	while ((client = first_overdue(pool, state, now)) != NULL) {
		pool->pools->ops->refuse(client, overdue(client, now));
		if (client->state != CLIENT_DEAD)
			return;
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

static void refuse_cancels(struct pool *pool, usec_t now)
{
	usec_t timeout = SETTINGS(pool)->cancel_wait_timeout;
	struct pool_client *client;

	while (timeout > 0 && (client = pool_first_client(pool, CLIENT_WAITING_CANCEL)) != NULL &&
	       now - client->since >= timeout) {
		pool->pools->ops->refuse(client, REASON_CANCEL_WAIT_TIMEOUT);
		if (client->state != CLIENT_DEAD)
			return;
	}
}

static void maintain_clients(struct pool *pool, usec_t now)
{
	if (pool_is_held(pool))
		pool->held_until = now;
	/* while suspended, the end of a client may not have been read yet */
	if (!pool->pools->suspended) {
		refuse_overdue(pool, CLIENT_WAITING, now);
		refuse_overdue(pool, CLIENT_WAITING_LOGIN, now);
	}
	if (!pool_is_held(pool))
		notify_waiting(pool, now);
	refuse_cancels(pool, now);
	/* The reserve pool and the end of server_login_retry depend on time only. */
	if (pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN] +
	    pool->client_count[CLIENT_WAITING_CANCEL] > 0)
		pool_mark(pool);
}

static bool end_period(struct pools *pools, usec_t now)
{
	if (now - pools->stats_at < pools->conf->settings.stats_period)
		return false;
	pools->stats_at = now;
	for (struct database *database = pools->databases; database; database = database->hh.next)
		stats_period_end(&database->stats, now);
	return true;
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
	return end_period(pools, now);
}
