/*
 * Matches waiting clients to servers, as input for the scheduler's verdict.
 *
 * In transaction and statement mode any server fits any client, and only the heads of the lists are used. In session mode a
 * server fits only clients with the same start-up parameters (shared objects: same parameters, same address), and with
 * replication only the client that it was opened for. In these cases the queue is walked: each connecting or tested server is
 * matched with the first client that it fits, and the first client without a match is the unserved one. The walk ends after at
 * most as many clients as there are such servers, unless there are idle servers that do not fit the first client, or logins
 * were rejected: clients come last if a server has rejected their start-up parameters.
 *
 * Invariant: nothing here changes a pool.
 */
#include "pool/inside.h"

#define FULL_LASTS (15 * USEC)		/* how long a server that was full gets one connection at a time */

static bool matches(const struct pool *pool, const struct pool_server *server, const struct pool_client *client)
{
	return server->dedicated == client->dedicated &&
	       (server->startup == client->startup || !pool_minds_startup(pool, client->dedicated || client->is_internal));
}

static bool are_equals(const struct pool *pool, const struct pool_client *a, const struct pool_client *b)
{
	return a->dedicated == b->dedicated && (a->startup == b->startup || !pool_minds_startup(pool, a->dedicated));
}

static struct pool_server *first_fitting(const struct pool *pool, enum server_state state, const struct pool_client *client,
					 bool oldest_first)
{
	const struct list *head = &pool->servers[state];
	struct list *node = oldest_first ? head->prev : head->next;

	while (node != head) {
		struct pool_server *server = server_at(node);

		if (server->close_reason == REASON_NONE && matches(pool, server, client))
			return server;
		node = oldest_first ? node->prev : node->next;
	}
	return NULL;
}

/* Returns the server that the client had last, or the server that is idle longest, so that other clients find theirs. */
static struct pool_server *idle_with_values(const struct pool *pool, const struct pool_client *client)
{
	LIST_EACH(node, &pool->servers[SERVER_IDLE])
		if (server_at(node)->last == client && server_at(node)->close_reason == REASON_NONE && matches(pool, server_at(node), client))
			return server_at(node);
	return first_fitting(pool, SERVER_IDLE, client, true);
}

struct pool_server *pool_idle_for(const struct pool *pool, const struct pool_client *client)
{
	if (pool->reads_sequences)
		return idle_with_values(pool, client);
	return first_fitting(pool, SERVER_IDLE, client, pool->pools->conf->settings.server_round_robin);
}

static int count_under_way(const struct pool *pool, const struct pool_client *client)
{
	int count = 0;

	LIST_EACH(node, &pool->servers[SERVER_LOGIN]) {
		if (!server_at(node)->is_cancel && matches(pool, server_at(node), client))
			count++;
	}
	LIST_EACH(node, &pool->servers[SERVER_TESTED])
		count += matches(pool, server_at(node), client);
	return count;
}

/* Returns the position of the client among the waiting clients that ask for the same server. */
static int place_among_equals(const struct pool *pool, const struct pool_client *client)
{
	int place = 0;

	LIST_EACH(node, &pool->clients[CLIENT_WAITING]) {
		struct pool_client *other = client_at(node);

		if (are_equals(pool, other, client))
			place++;
		if (other == client)
			break;
	}
	return place;
}

static void note_unserved(const struct pool *pool, struct pool_client *client, struct pool_match *match)
{
	match->unserved = client;
	match->used = first_fitting(pool, SERVER_USED, client, false);
}

static void match_exact(const struct pool *pool, struct pool_match *match)
{
	struct pool_client *refused = NULL;

	LIST_EACH(node, &pool->clients[CLIENT_WAITING]) {
		struct pool_client *client = client_at(node);

		if (pool->server_count[SERVER_IDLE] > 0 && (match->idle = pool_idle_for(pool, client)) != NULL) {
			match->matched = client;
			return;
		}
		if (match->unserved || (refused && client->refused))
			continue;
		if (place_among_equals(pool, client) <= count_under_way(pool, client)) {
			match->covered++;
			continue;
		}
		if (client->refused) {
			refused = client;
			continue;
		}
		note_unserved(pool, client, match);
		if (pool->server_count[SERVER_IDLE] == 0)
			return;
	}
	if (!match->unserved && refused)
		note_unserved(pool, refused, match);
}

static void match_any(const struct pool *pool, struct pool_match *match)
{
	struct pool_client *first = pool_first_client(pool, CLIENT_WAITING);
	int waiting = pool->client_count[CLIENT_WAITING];
	int under_way = pool->server_count[SERVER_LOGIN] - pool->cancel_logins + pool->server_count[SERVER_TESTED];

	if (!first)
		return;
	match->covered = under_way < waiting ? under_way : waiting;
	match->idle = pool_idle_for(pool, first);
	match->matched = match->idle ? first : NULL;
	if (match->covered < waiting) {
		match->unserved = first;
		match->used = first_fitting(pool, SERVER_USED, first, false);
	}
}

void pool_match(const struct pool *pool, struct pool_match *match)
{
	*match = (struct pool_match){ .exact = pool_minds_startup(pool, pool->dedicated > 0) };
	if (match->exact)
		match_exact(pool, match);
	else
		match_any(pool, match);
}

struct pool_server *pool_longest_idle(const struct pool *pool)
{
	struct list *node = list_last(&pool->servers[SERVER_USED]);

	if (!node)
		node = list_last(&pool->servers[SERVER_IDLE]);
	return node ? server_at(node) : NULL;
}

/* A pool with waiting clients needs its idle servers itself. */
static bool may_be_evicted(const struct pool *victim, const struct pool *by)
{
	return victim != by && victim->client_count[CLIENT_WAITING] == 0;
}

static struct pool_server *longer_idle(struct pool_server *best, const struct pool *pool, const struct pool *by)
{
	struct pool_server *other = may_be_evicted(pool, by) ? pool_longest_idle(pool) : NULL;

	return other && (!best || other->since < best->since) ? other : best;
}

static int64_t evictable(const struct pool *pool, const struct pool *by)
{
	return may_be_evicted(pool, by) ? pool->server_count[SERVER_IDLE] + pool->server_count[SERVER_USED] : 0;
}

struct pool_server *pool_victim_for_database(const struct pool *pool)
{
	struct pool_server *best = NULL;

	LIST_EACH(node, &pool->database->members)
		best = longer_idle(best, LIST_OBJECT(node, struct pool, of_database), pool);
	return best;
}

struct pool_server *pool_victim_for_user(const struct pool *pool)
{
	struct pool_server *best = NULL;

	LIST_EACH(node, &pool->user->members)
		best = longer_idle(best, LIST_OBJECT(node, struct pool, of_user), pool);
	return best;
}

static int64_t pool_evictable_for_database(const struct pool *pool)
{
	int64_t count = 0;

	LIST_EACH(node, &pool->database->members)
		count += evictable(LIST_OBJECT(node, struct pool, of_database), pool);
	return count;
}

static int64_t pool_evictable_for_user(const struct pool *pool)
{
	int64_t count = 0;

	LIST_EACH(node, &pool->user->members)
		count += evictable(LIST_OBJECT(node, struct pool, of_user), pool);
	return count;
}

static int count_usable(const struct pool *pool, enum server_state state)
{
	int count = 0;

	LIST_EACH(node, &pool->servers[state])
		count += !server_at(node)->is_cancel && server_at(node)->close_reason == REASON_NONE;
	return count;
}

int pool_usable(const struct pool *pool)
{
	int count = 0;

	for (int state = 0; state < SERVER_STATES; state++)
		count += state == SERVER_LISTENING ? 0 : count_usable(pool, (enum server_state)state);
	return count;
}

/* An internal request or a client that waits for its welcome: both belong to logins. */
static bool is_login(const struct pool_client *client)
{
	return client->is_internal || client->is_login;
}

static bool may_wait(const struct pool *pool)
{
	return pool->pools->conf->settings.server_down == SERVER_DOWN_WAIT;
}

static bool is_refused(const struct pool *pool)
{
	return pool->login_failure == FAILURE_LASTING || pool->login_failure == FAILURE_MISSING;
}

/* Returns a query that began to wait after the logins began to fail, or NULL; no login that could succeed was in progress for
   it. The queue is in the order of arrival. */
static struct pool_client *newcomer(const struct pool *pool)
{
	const struct list *head = &pool->clients[CLIENT_WAITING];

	for (struct list *node = head->prev; node != head && client_at(node)->since > pool->login_failing_since; node = node->prev) {
		if (!is_login(client_at(node)) || !may_wait(pool))
			return client_at(node);
	}
	return NULL;
}

/* Returns the login that has waited longest and must not wait any longer, or NULL. With server_down = wait, a login that came
   after a lasting failure waits for the next attempt. */
static struct pool_client *refusable_login(const struct pool *pool)
{
	struct pool_client *first = pool_first_client(pool, CLIENT_WAITING_LOGIN);

	if (may_wait(pool))
		return is_refused(pool) && first && first->since <= pool->login_failed_at ? first : NULL;
	LIST_EACH(node, &pool->clients[CLIENT_WAITING]) {
		if (is_login(client_at(node)))
			return client_at(node);
	}
	return first;
}

struct pool_client *pool_refusable(const struct pool *pool)
{
	bool is_lasting = is_refused(pool);
	struct pool_client *client;

	/* A connecting server is no reason to wait after a lasting failure. If several logins are in progress, each refused
	   login refuses clients once. */
	if (!pool->login_failed || pool_usable(pool) > (is_lasting ? 0 : count_usable(pool, SERVER_LOGIN)))
		return NULL;
	client = is_lasting ? pool_first_client(pool, CLIENT_WAITING) : newcomer(pool);
	return client ? client : refusable_login(pool);
}

static usec_t oldest_wait(const struct pool *pool, usec_t now)
{
	const struct pool_client *query = pool_first_client(pool, CLIENT_WAITING);
	const struct pool_client *login = pool_first_client(pool, CLIENT_WAITING_LOGIN);
	usec_t a = query ? pool_waited(query, now) : 0, b = login ? pool_waited(login, now) : 0;

	return a > b ? a : b;
}

static bool is_login_first(const struct pool *pool)
{
	const struct pool_client *query = pool_first_client(pool, CLIENT_WAITING);
	const struct pool_client *login = pool_first_client(pool, CLIENT_WAITING_LOGIN);

	return login && (!query || login->since < query->since);
}

static void look_at_limits(const struct pool *pool, struct pool_view *view)
{
	view->size = pool_size_of(pool);
	view->reserve = pool_reserve_of(pool);
	view->database_servers = pool->database->servers;
	view->database_limit = database_max_servers(pool->database);
	view->user_servers = pool->user->servers;
	view->user_limit = user_max_servers(pool->pools, pool->user);
	view->internal_servers = pool->pools->internal_servers;
	view->internal_limit = pool_max_internal_servers(pool);
	/* These counts walk over pools, so they are computed only if the limit is reached. */
	if (view->database_limit > 0 && view->database_servers >= view->database_limit)
		view->database_evictable = pool_evictable_for_database(pool);
	if (view->user_limit > 0 && view->user_servers >= view->user_limit)
		view->user_evictable = pool_evictable_for_user(pool);
}

/* The name of a missing database is no fault of the server; look-ups, which need no password, wait all the same. A full server is not tried
   again at once, even if server_login_retry is 0 ... */
static usec_t retry_of(const struct pool *pool)
{
	usec_t retry = pool->pools->conf->settings.server_login_retry;

	if (pool->login_failure == FAILURE_MISSING && !pool_is_for_internal(pool))
		return 0;
	return pool->login_failure == FAILURE_FULL && retry < POOL_LOOK_EVERY ? POOL_LOOK_EVERY : retry;
}

/* ... and for some time only one login is in progress. */
static bool was_full_lately(const struct pool *pool, usec_t now)
{
	return pool->full_at > 0 && now - pool->full_at < FULL_LASTS;
}

void pool_look(const struct pool *pool, usec_t now, struct pool_view *view)
{
	const struct settings *settings = &pool->pools->conf->settings;
	struct pool_match match;

	*view = (struct pool_view){
		.now = now,
		.waiting = pool->client_count[CLIENT_WAITING],
		.waiting_login = pool->client_count[CLIENT_WAITING_LOGIN],
	};
	if (view->waiting == 0 && view->waiting_login == 0)
		return;
	pool_match(pool, &match);
	view->oldest_wait = oldest_wait(pool, now);
	view->login_first = is_login_first(pool);
	view->covered = match.covered;
	view->idle = pool->server_count[SERVER_IDLE];
	view->used = pool->server_count[SERVER_USED];
	view->testing = pool->server_count[SERVER_TESTED];
	view->logging_in = pool->server_count[SERVER_LOGIN] - pool->cancel_logins;
	view->live = pool_live(pool);
	view->exact = match.exact;
	view->idle_fitting = match.matched && (!match.exact || !match.unserved);
	view->used_fitting = match.used != NULL;
	view->fits_behind = match.exact && match.matched && match.unserved;
	view->paused = pool_is_held(pool);
	view->draining = pool->pools->draining == POOL_DRAIN_SERVERS && !pool->database->is_console;
	view->login_failed = pool->login_failed;
	view->logins_at_once = was_full_lately(pool, now) ? 1 : pool->logins_succeeded + 1;
	view->refusable = pool->login_failed && pool_refusable(pool) != NULL;
	view->since_login_failed = now - pool->login_failed_at;
	view->login_retry = retry_of(pool);
	view->reserve_timeout = settings->reserve_pool_timeout;
	look_at_limits(pool, view);
}
