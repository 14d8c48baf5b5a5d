/*
 * The scheduler: once a turn, for each marked pool, match the waiting clients with servers, decide,
 * and carry the verdict out; the callbacks of struct pool_ops act on connections.
 *
 * In the order of time, for a client with a query:
 *
 * 1. Room relay calls pool_want(). If a server is idle and no other client waits, the client gets
 *    it at once. Otherwise the client joins the end of the queue (WAITING), and the pool is marked.
 * 2. At the end of the turn pools_schedule_marked() takes each marked pool. schedule_step()
 *    collects the facts (pool_match(), pool_look()), pool_decide() (decide.c) gives a verdict about
 *    one server, and the step carries it out: lend, open, test or close a server, or refuse a
 *    client. This repeats until the verdict is HOLD.
 * 3. HOLD: the client waits, and pool->held_by is the limit or condition for which it waits, so
 *    that errors, logs and SHOW can name it.
 * 4. When a server becomes idle or ends, or a login at a server succeeds or fails, the pool is
 *    marked again (pool_mark()), and so are pools that wait for a limit of the same database, user
 *    or host.
 * 5. pools_maintain() is called in each tick for all that depends on time only, such as
 *    query_wait_timeout and min_pool_size.
 *
 * The loop for a pool terminates: lending and refusing remove a client from the queue, testing
 * removes a server from the USED list, replacing and evicting close an idle server, and opening
 * increases the number of servers. If an action had no such effect (no memory, no descriptor), the
 * loop ends for this pool; the next pools_maintain marks each pool with waiting clients again.
 *
 * Cancel requests come first and ignore the limits of servers, because they are needed most when a
 * pool is full. At most twice the pool size of connections for cancel requests are open at a time.
 *
 * Invariants: pool_match, pool_look and pool_decide change nothing. A pool that waits for a limit
 * of its database, user or hosts is on the list of held pools of that limit, longest held first,
 * and is marked as soon as a server under that limit becomes idle or ends; under
 * max_host_connections only the pool that comes first (host.c).
 */
#include "pool/host.h"
#include "pool/inside.h"
#include "pool/role.h"

#include "base/assert.h"
#include "base/inline.h"

#define SETTINGS(pool) (&(pool)->pools->conf->settings)
/* rounds per pool and turn; more would be a bug in room core */
#define ROUNDS_MOST 64
/* pools whose latency period ends in one tick: a microsecond or two each */
#define PERIODS_MOST 200
/* how long a server gets one connection at a time after it was full */
#define FULL_LASTS (15 * USEC)
/* Time between two attempts to reach a server that refuses connections, is not ready or is full. */
#define POOL_LOOK_EVERY (USEC / 2)

/* ---- matching clients with servers ---- */

/*
 * In transaction and statement mode any server fits any client, and only the heads of the lists are
 * used. In session mode a server fits only clients with the same start-up parameters (shared
 * objects: same parameters, same address), and with replication only the client that it was opened
 * for. In these cases the queue is walked: each connecting or tested server is matched with the
 * first client that it fits, and the first client without a match is the unserved one. The walk
 * ends after at most as many clients as there are such servers. It goes on if there are idle
 * servers that do not fit the first client, or if logins were rejected, because clients come last
 * if a server has rejected their start-up parameters.
 */
struct pool_match {
	struct pool_client *matched;	/* the first client that an idle server fits, or NULL ... */
	struct pool_server *idle;	/* ... and that server */
	/* the first client that no idle, tested or connecting server is available for, or NULL */
	struct pool_client *unserved;
	/* a USED server to be tested for the unserved client, or NULL */
	struct pool_server *used;
	/* clients that a tested or connecting server is available for */
	int covered;
	bool exact;
};

static bool matches(const struct pool *pool, const struct pool_server *server,
		    const struct pool_client *client)
{
	return server->dedicated == client->dedicated &&
	       (server->startup == client->startup ||
		!pool_minds_startup(pool, client->dedicated || client->is_internal));
}

static struct pool_server *first_fitting(const struct pool *pool, enum server_state state,
					 const struct pool_client *client, bool oldest_first)
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

/* Returns the idle server to assign to this client, or NULL. */
static struct pool_server *pool_idle_for(const struct pool *pool, const struct pool_client *client)
{
	if (!pool->reads_sequences)
		return first_fitting(pool, SERVER_IDLE, client,
				     pool->pools->conf->settings.server_round_robin);
	/* The client gets the server that it had last, if it is idle, and otherwise the server that
	   is idle longest: the clients of recent servers are likely to come back to them. */
	LIST_EACH(node, &pool->servers[SERVER_IDLE])
		if (server_at(node)->last == client &&
		    server_at(node)->close_reason == REASON_NONE &&
		    matches(pool, server_at(node), client))
			return server_at(node);
	return first_fitting(pool, SERVER_IDLE, client, true);
}

static void match_exact(const struct pool *pool, struct pool_match *match)
{
	struct pool_client *refused = NULL;

	LIST_EACH(node, &pool->clients[CLIENT_WAITING]) {
		struct pool_client *client = client_at(node);
		int under_way = 0, place = 0;

		if (pool->server_count[SERVER_IDLE] > 0 &&
		    (match->idle = pool_idle_for(pool, client)) != NULL) {
			match->matched = client;
			break;
		}
		if (match->unserved || (refused && client->refused))
			continue;
		/* The client is covered if as many connecting or tested servers fit it as clients
		   of the queue, up to this client, ask for the same server. */
		LIST_EACH(at, &pool->servers[SERVER_LOGIN])
			under_way += !server_is_apart(server_at(at)) &&
				     matches(pool, server_at(at), client);
		LIST_EACH(at, &pool->servers[SERVER_TESTED])
			under_way += matches(pool, server_at(at), client);
		for (struct list *at = pool->clients[CLIENT_WAITING].next; at != node->next;
		     at = at->next)
			place += client_at(at)->dedicated == client->dedicated &&
				 (client_at(at)->startup == client->startup ||
				  !pool_minds_startup(pool, client->dedicated));
		if (place <= under_way) {
			match->covered++;
		} else if (client->refused) {
			refused = client;
		} else {
			match->unserved = client;
			if (pool->server_count[SERVER_IDLE] == 0)
				break;
		}
	}
	if (!match->matched && !match->unserved)
		match->unserved = refused;
}

static void pool_match(const struct pool *pool, struct pool_match *match)
{
	struct pool_client *first = client_first(pool, CLIENT_WAITING);
	int waiting = pool->client_count[CLIENT_WAITING];

	*match = (struct pool_match){ .exact = pool_minds_startup(pool, pool->dedicated > 0) };
	if (match->exact) {
		match_exact(pool, match);
	} else if (first) {
		match->covered = pool->server_count[SERVER_LOGIN] - pool->apart_logins +
				 pool->server_count[SERVER_TESTED];
		if (match->covered > waiting)
			match->covered = waiting;
		match->idle = pool_idle_for(pool, first);
		match->matched = match->idle ? first : NULL;
		match->unserved = match->covered < waiting ? first : NULL;
	}
	if (match->unserved)
		match->used = first_fitting(pool, SERVER_USED, match->unserved, false);
}

/* Returns how many idle servers of other pools of the database (`of_user`: of the user) can be
   closed for this pool, and sets *longest to the longest idle server of these, or NULL. A pool with
   waiting clients needs its idle servers itself. */
static int64_t evictable(const struct pool *pool, bool of_user, struct pool_server **longest)
{
	int64_t count = 0;

	*longest = NULL;
	LIST_EACH(node, of_user ? &pool->user->members : &pool->database->members) {
		const struct pool *other = of_user ? LIST_OBJECT(node, struct pool, of_user)
						   : LIST_OBJECT(node, struct pool, of_database);
		struct pool_server *server = pool_idle_longest(other);

		if (other == pool || other->client_count[CLIENT_WAITING] > 0 || !server)
			continue;
		count += other->server_count[SERVER_IDLE] + other->server_count[SERVER_USED];
		if (!*longest || server->since < (*longest)->since)
			*longest = server;
	}
	return count;
}

/* Returns the next client that is to get the error of the failed login, or NULL if all clients wait
   or will be served by other servers. */
static struct pool_client *pool_refusable(const struct pool *pool)
{
	const struct list *queue = &pool->clients[CLIENT_WAITING];
	bool is_lasting = pool->login_failure == FAILURE_LASTING ||
			  pool->login_failure == FAILURE_MISSING;
	bool logins_wait = pool->pools->conf->settings.server_down == SERVER_DOWN_WAIT;
	struct pool_client *login = client_first(pool, CLIENT_WAITING_LOGIN);

	/* After a lasting failure a login in progress can still succeed: the clients get the error
	   when the last login has failed. */
	if (!pool->login_failed || pool_count_usable(pool, is_lasting) > 0)
		return NULL;
	/* a reader may leave; others wait for the next answer of the host (set_suits() of
	   role.c) */
	if (pool->host && pool->login_failure == FAILURE_PASSING)
		return client_first(pool, CLIENT_WAITING)
			       ? client_first(pool, CLIENT_WAITING)
			       : client_first(pool, CLIENT_WAITING_LOGIN);
	if (is_lasting && client_first(pool, CLIENT_WAITING))
		return client_first(pool, CLIENT_WAITING);
	/* Otherwise a query gets the error if it began to wait after the logins began to fail. The
	   queue is in the order of arrival. */
	for (struct list *node = queue->prev;
	     !is_lasting && node != queue && client_at(node)->since > pool->login_failing_since;
	     node = node->prev) {
		if (!logins_wait || !(client_at(node)->is_internal || client_at(node)->is_login))
			return client_at(node);
	}
	/* With server_down = wait, logins wait for the next attempt if they came after a lasting
	   failure. */
	if (logins_wait)
		return is_lasting && login && login->since <= pool->login_failed_at ? login : NULL;
	LIST_EACH(node, queue) {
		if (client_at(node)->is_internal || client_at(node)->is_login)
			return client_at(node);
	}
	return login;
}

/* Whether an idle server is idle for longer than server_check_delay. The comparison is strict: with
   a delay of 0, no server is tested again that has answered in this turn. */
static ALWAYS_INLINE bool schedule_is_stale(const struct pool *pool, usec_t now)
{
	const struct list *head = &pool->servers[SERVER_IDLE];

	return head->prev != head &&
	       now - server_at(head->prev)->since > pool->pools->conf->settings.server_check_delay;
}

/* Moves servers that are idle for longer than server_check_delay to USED. Servers that were opened
   for one client are not tested, because a walsender need not understand SQL, and its end is
   noticed by reading. */
static void pool_age(struct pool *pool, usec_t now)
{
	const char *check = pool->pools->conf->settings.server_check_query;
	struct list *head = &pool->servers[SERVER_IDLE], *node = head->prev, *next;

	for (; check && *check && schedule_is_stale(pool, now) && node != head; node = next) {
		next = node->prev;
		if (now - server_at(node)->since <= pool->pools->conf->settings.server_check_delay)
			return;
		if (!server_at(node)->dedicated)
			pool_server_become(server_at(node), SERVER_USED, now);
	}
}

/* The rare cases of pool_want(): the pool is at a host, or servers have session values of
   clients. */
static NEVER_INLINE struct pool_server *want_special(struct pool_client *client, usec_t now)
{
	struct pool *pool = client->pool;

	if (!pool_client_route(client, now))
		return NULL;
	pool = client->pool;
	if (schedule_is_stale(pool, now))
		pool_age(pool, now);
	if (pool->client_count[CLIENT_WAITING] > 0 || pool->owes || pool_is_stopped(pool) ||
	    pool->targets == 0)
		return NULL;
	return pool_idle_for(pool, client);
}

struct pool_server *pool_want(struct pool_client *client, usec_t now)
{
	struct pool *pool = client->pool;
	struct pool_server *server = NULL;

	ASSERT(client->state == CLIENT_IDLE);
	if (schedule_is_stale(pool, now))
		pool_age(pool, now);
	if (!pool->is_plain && (!(pool->fixed_targets >> client->target & 1) ||
				client->is_held | client->listens | client->settles))
		server = want_special(client, now);
	else if (pool->client_count[CLIENT_WAITING] == 0 && !pool_is_stopped(pool) &&
		 !pool->owes)
		server = first_fitting(pool, SERVER_IDLE, client,
				       pool->pools->conf->settings.server_round_robin);
	if (server) {
		pool_link(server, client, now);
		return server;
	}
	client->refused = false;
	pool_client_become(pool->pools, client, CLIENT_WAITING, now);
	return NULL;
}

/* ---- the view ---- */

static void pool_look(const struct pool *pool, usec_t now, struct pool_view *view)
{
	const struct settings *settings = &pool->pools->conf->settings;
	const struct pool_client *query = client_first(pool, CLIENT_WAITING),
				 *login = client_first(pool, CLIENT_WAITING_LOGIN);
	struct pool_server *longest;
	struct pool_match match;

	*view = (struct pool_view){
		.now = now,
		.waiting = pool->client_count[CLIENT_WAITING],
		.waiting_login = pool->client_count[CLIENT_WAITING_LOGIN],
	};
	if (view->waiting == 0 && view->waiting_login == 0)
		return;
	pool_match(pool, &match);
	view->oldest_wait = query ? pool_waited(query, now) : 0;
	if (login && pool_waited(login, now) > view->oldest_wait)
		view->oldest_wait = pool_waited(login, now);
	view->login_first = login && (!query || login->since < query->since);
	view->covered = match.covered;
	view->idle = pool->server_count[SERVER_IDLE];
	view->used = pool->server_count[SERVER_USED];
	view->logging_in = pool->server_count[SERVER_LOGIN] - pool->apart_logins;
	view->live = pool->budget->used;
	view->idle_fitting = match.matched && (!match.exact || !match.unserved);
	view->used_fitting = match.used != NULL;
	view->fits_behind = match.exact && match.matched && match.unserved;
	view->paused = pool_is_stopped(pool);
	view->lacks_role = pool->targets == 0;
	view->draining = pool->pools->draining == POOL_DRAIN_SERVERS && !pool->database->is_console;
	view->login_failed = pool->login_failed;
	view->refusable = pool->login_failed && pool_refusable(pool) != NULL;
	view->since_login_failed = now - pool->login_failed_at;
	/*
	 * If a database is missing, a client may have invented its name, and the server is not at
	 * fault: the next client causes an attempt at once. Look-ups wait all the same, because
	 * clients need no password to cause them. A full server is not tried again at once, even if
	 * server_login_retry is 0, and for some time only one login is in progress.
	 */
	view->login_retry = settings->server_login_retry;
	if (pool->login_failure == FAILURE_MISSING && !pool_is_for_internal(pool))
		view->login_retry = 0;
	if (pool->login_failure == FAILURE_FULL && view->login_retry < POOL_LOOK_EVERY)
		view->login_retry = POOL_LOOK_EVERY;
	view->logins_at_once = pool->full_at > 0 && now - pool->full_at < FULL_LASTS
				       ? 1
				       : pool->logins_succeeded + 1;
	view->reserve_timeout = settings->reserve_pool_timeout;
	view->size = pool->budget->limit;
	view->reserve = pool->allowed.reserve;
	view->database_excess = budget_excess(pool->database->servers);
	view->user_excess = budget_excess(pool->user->servers);
	view->internal_full = pool_is_for_internal(pool) &&
			      !budget_has_room(&pool->pools->shared->lookup_servers);
	/* These counts walk over pools, so they are computed only if the limit is reached. */
	if (view->database_excess > 0)
		view->database_evictable = evictable(pool, false, &longest);
	if (view->user_excess > 0)
		view->user_evictable = evictable(pool, true, &longest);
	view->host_full = pool_hosts_are_full(pool, now);
	view->host_evictable = view->host_full && pool_hosts_evictable(pool, now);
}

/* ---- carrying verdicts out ---- */

/* Carries out one verdict. Returns false when the pool is done for this turn. */
static bool schedule_step(struct pool *pool, usec_t now)
{
	const struct pool_ops *ops = pool->pools->ops;
	struct pool_client *query, *login, *refused;
	struct pool_server *victim = NULL;
	struct pool_view view;
	struct pool_match match;
	struct pool_verdict verdict;
	bool is_hold, is_draining, had_failed = pool->login_failed,
				   was_held = budget_is_awaited(&pool->wait_for_host);
	int live = pool->live;
	usec_t waiting_since;

	if (SETTINGS(pool)->max_host_connections > 0 && !pool->database->is_console)
		pool_places(pool);
	pool_look(pool, now, &view);
	verdict = pool_decide(&view);
	is_hold = verdict.action == POOL_HOLD;
	/* ops->lend reads held_by, the cause of the wait */
	if (verdict.action != POOL_LEND)
		pool->held_by = is_hold ? verdict.limit : LIMIT_NONE;
	pool->pools->internal_servers_missed |= pool->held_by == LIMIT_INTERNAL;
	query = client_first(pool, CLIENT_WAITING);
	login = client_first(pool, CLIENT_WAITING_LOGIN);
	pool_wait_for(pool, pool->held_by, !is_hold ? NULL : query ? query : login);
	if (pool->held_by == LIMIT_HOST && !pool->pools->are_hosts_scarce)
		pools_set_scarce(pool->pools, true);
	if (is_hold) {
		if (was_held && verdict.limit != LIMIT_HOST)
			pool_hosts_wake(pool);
		/* a client with pins may give its server back, which can then work for another
		   client */
		if (verdict.limit != LIMIT_POOL_SIZE && verdict.limit != LIMIT_DATABASE &&
		    verdict.limit != LIMIT_USER && verdict.limit != LIMIT_HOST)
			return false;
		return pool->pinned > 0 && view.waiting > view.covered && ops->yield(pool);
	}
	pool_match(pool, &match);
	switch (verdict.action) {
	case POOL_LEND:
		waiting_since = match.matched->since;
		pool_link(match.idle, match.matched, now);
		ops->lend(match.idle, match.matched, now - waiting_since);
		return true;
	case POOL_TEST:
		pool_server_become(match.used, SERVER_TESTED, now);
		ops->test(match.used);
		return true;
	case POOL_DIAL:
		if (verdict.from_reserve)
			ops->take_reserve(pool, query ? query : login);
		if (!pool_dial(pool, verdict.for_login ? login : match.unserved,
			       view.size + (verdict.from_reserve ? view.reserve : 0)))
			return false;
		if (was_held)
			pool_hosts_wake(pool);
		return pool->live > live || (pool->login_failed && !had_failed);
	case POOL_REPLACE:
		return server_drop(pool_idle_longest(pool),
				   match.unserved && match.unserved->dedicated != 0
					   ? REASON_EVICTED
					   : REASON_REPLACED);
	case POOL_EVICT_FOR_DATABASE:
	case POOL_EVICT_FOR_USER:
	case POOL_EVICT_FOR_HOST:
		if (verdict.action == POOL_EVICT_FOR_HOST)
			victim = pool_hosts_evictable(pool, now);
		else
			evictable(pool, verdict.action == POOL_EVICT_FOR_USER, &victim);
		return victim && server_drop(victim, REASON_EVICTED);
	case POOL_REFUSE:
		is_draining = verdict.limit == LIMIT_DRAINING;
		refused = is_draining ? query : pool_refusable(pool);
		if (!refused)
			refused = login;
		if (!is_draining && pool_client_reroute(refused, now))
			return true;
		if (!is_draining && pool->host && pool->login_failure == FAILURE_PASSING)
			return false;
		pool->missed |= !is_draining;
		ops->refuse(refused,
			    is_draining ? REASON_SERVER_SHUTTING_DOWN : REASON_LOGIN_FAILING);
		return refused->state == CLIENT_DEAD;
	case POOL_HOLD:
		break;
	}
	return false;
}

static void schedule_pool(struct pool *pool, usec_t now)
{
	const struct pool_ops *ops = pool->pools->ops;
	struct list *idle = &pool->servers[SERVER_IDLE], *node;
	bool is_paused = pool_is_paused(pool);
	int64_t size = pool->allowed.size;
	struct pool_client *cancel;

	while ((cancel = client_first(pool, CLIENT_WAITING_CANCEL)) != NULL &&
	       (size == 0 ||
		pool->apart_logins + pool->server_count[SERVER_ACTIVE_CANCEL] < 2 * size)) {
		ops->dial_cancel(pool, cancel);
		if (cancel->state == CLIENT_WAITING_CANCEL)
			break;
	}
	while (pool->pinned > 0 && (is_paused || pool->pools->draining == POOL_DRAIN_SERVERS) &&
	       ops->yield(pool))
		;
	if (is_paused)
		pool_close_idle(pool);
	/* idle servers with a close_reason */
	node = idle->next;
	while (pool->idle_marked && node != idle) {
		struct pool_server *server = server_at(node);
		struct list *before = node->prev;

		if (server->close_reason != REASON_NONE)
			server_drop(server, (enum close_reason)server->close_reason);
		node = server->state == SERVER_IDLE ? node->next : before->next;
	}
	pool->idle_marked = false;
	pool_age(pool, now);
	/* a client of another world has waited longer than the clients here: pools_give() */
	if (!pool->owes)
		while (schedule_step(pool, now))
			;
	/* with several worlds: its idle servers may go to another one, as after RESUME */
	if (!list_is_empty(&pool->budget->waiting))
		pool->pools->bell.is_asked = true;
	/* servers that were opened for one client, if that client has ended */
	node = idle->next;
	while (pool->dedicated > 0 && node != idle) {
		struct pool_server *server = server_at(node);
		struct list *before = node->prev;
		bool is_wanted = server->dedicated == 0;

		LIST_EACH(client, &pool->clients[CLIENT_WAITING])
			is_wanted |= client_at(client)->dedicated == server->dedicated;
		if (!is_wanted)
			server_drop(server, REASON_REPLICATION_OVER);
		node = server->state == SERVER_IDLE ? node->next : before->next;
	}
}

void pools_schedule_marked(struct pools *pools, usec_t now)
{
	if (pools->are_roles_due)
		roles_decide_due(pools, now);
	if (pools->bell.is_asked)
		pools_give(pools, now);
	for (int round = 0; round < ROUNDS_MOST && !list_is_empty(&pools->dirty); round++) {
		struct list batch;
		struct list *node;

		/* Pools that are marked from here on belong to the next round. */
		list_insert_between(&batch, pools->dirty.prev, &pools->dirty);
		list_remove(&pools->dirty);
		while ((node = list_first(&batch)) != NULL) {
			list_remove(node);
			schedule_pool(LIST_OBJECT(node, struct pool, dirty), now);
		}
		if (pools->bell.is_asked)
			pools_give(pools, now);
	}
}

/* ---- periodic work ---- */

/*
 * Server lifetimes and idle timeouts, timeouts in the queue, min_pool_size, unused pools, ends of
 * statistics periods. This is done several times a second for every pool, so a pool without due
 * work must cost little: the lists are in order of time, and only their ends are examined.
 *
 * Invariant: this part closes only servers without a client and refuses only clients without a
 * server.
 */
/* Closes unused servers that have reached server_lifetime, the server that was opened first at
   first. At least lifetime / size passes between two closes, so that a pool does not lose all its
   servers at the same time. */
static void close_aged(struct pool *pool, usec_t now)
{
	static const enum server_state states[] = { SERVER_USED, SERVER_IDLE };
	usec_t lifetime = pool->allowed.server_lifetime,
	       since_last = now - pool->pools->maintained_at;
	int64_t size = pool->allowed.size > 0 ? pool->allowed.size : pool->live;
	usec_t gap = size > 0 ? lifetime / size : 0, due = pool->last_lifetime_close;
	usec_t grace = gap > since_last ? gap : since_last;

	/* Closes that were due since the last maintenance are made up for, but not closes from an
	   earlier quiet period. */
	if (due < now - grace)
		due = now - grace;
	while (due + gap <= now) {
		struct pool_server *oldest = NULL;

		for (int i = 0; i < 2; i++) {
			LIST_EACH(node, &pool->servers[states[i]]) {
				struct pool_server *server = server_at(node);

				/* With a lifetime of 0, a server may serve one client, so a new
				   server stays. */
				if (lifetime == 0 ? !server->lent : now - server->opened < lifetime)
					continue;
				if (!oldest || server->opened < oldest->opened)
					oldest = server;
			}
		}
		if (!oldest || !server_drop(oldest, REASON_SERVER_LIFETIME))
			return;
		due += gap;
		pool->last_lifetime_close = lifetime > 0 ? due : pool->last_lifetime_close;
	}
}

/* Returns min_pool_size if it applies now, otherwise 0. */
static int64_t pool_floor(const struct pool *pool)
{
	const struct database *database = pool->database;
	int64_t least = pool->allowed.min_size, size = pool->allowed.size;

	if (pool_is_paused(pool) || (database->stray && database->automatic) || database->removed ||
	    pool->pools->draining != POOL_DRAIN_NO)
		return 0;
	if (!pool_is_forced(pool) && pool_clients(pool) == 0)
		return 0;
	/* the pools at the hosts are kept filled */
	if (!pool->host && pool->database->roles)
		return 0;
	return size > 0 && least > size ? size : least;
}

/* Opens a server for min_pool_size, or to find out whether the server is up again. Evicts no other
   server for these. */
static void pool_open_unasked(struct pool *pool, usec_t now)
{
	const struct settings *settings = &pool->pools->conf->settings;
	int64_t floor = pool_floor(pool);
	bool is_below_floor = pool->budget->used < floor;
	struct pool_match match;

	if ((!is_below_floor && !pool->login_failed) || pool_is_stopped(pool) ||
	    pool->targets == 0 ||
	    (SETTINGS(pool)->max_host_connections > 0 && pool_places(pool) &&
	     pool_hosts_are_full(pool, now)))
		return;
	/* min_pool_size: one server at a time, and only if no client waits. */
	if (is_below_floor &&
	    !(pool->login_failed && now - pool->login_failed_at < settings->server_login_retry) &&
	    pool->server_count[SERVER_LOGIN] == pool->apart_logins &&
	    pool->client_count[CLIENT_WAITING] == 0 &&
	    pool->client_count[CLIENT_WAITING_LOGIN] == 0)
		pool_dial(pool, NULL, floor);
	/* server_login_retry protects a server from failing logins. A restarted server is back
	   sooner, so it is probed twice a second. Without clients there is no probe, unless a
	   client got the error and has left. */
	if (!pool->login_failed || now - pool->login_failed_at < POOL_LOOK_EVERY ||
	    (pool->login_failure != FAILURE_AWAY && pool->login_failure != FAILURE_BUSY &&
	     pool->login_failure != FAILURE_FULL))
		return;
	if ((pool_clients(pool) == 0 && !pool->missed) || pool_count_usable(pool, true) > 0 ||
	    pool->database->removed || pool->pools->draining == POOL_DRAIN_SERVERS)
		return;
	pool_match(pool, &match);
	if (pool_dial(pool,
		      match.unserved ? match.unserved : client_first(pool, CLIENT_WAITING_LOGIN),
		      pool->budget->limit))
		pool->missed = false;
}

static void maintain_servers(struct pool *pool, usec_t now)
{
	int64_t size = pool->allowed.size, most = size + pool->allowed.reserve;
	usec_t timeout = SETTINGS(pool)->server_idle_timeout;
	static const enum server_state states[] = { SERVER_LOGIN, SERVER_TESTED, SERVER_IDLE,
						    SERVER_USED };
	bool is_unwanted = pool_is_unwanted(pool);
	struct pool_server *server;

	/* Servers that only look-ups have used: if no client has logged in to the database and no
	   login needs them, or, when a look-up of another pool waits for
	   max_auth_query_connections, the idle servers. */
	for (int i = 0; pool->pools->shared->lookup_servers.used > 0 && i < 4; i++) {
		bool is_idle = states[i] == SERVER_IDLE || states[i] == SERVER_USED;

		LIST_EACH_SAFE(node, &pool->servers[states[i]]) {
			if (server_is_apart(server_at(node)) || !server_at(node)->for_internal)
				continue;
			if (is_unwanted)
				server_drop(server_at(node), REASON_LOOKUP_OVER);
			else if (pool->pools->internal_servers_missed && is_idle)
				server_drop(server_at(node), REASON_INTERNAL_SERVERS);
		}
	}
	pool_age(pool, now);
	/* After pool_size was lowered. Reserve connections stay until their idle timeout. */
	while (size > 0 && pool->budget->used > most &&
	       (server = pool_idle_longest(pool)) != NULL &&
	       server_drop(server, REASON_TOO_MANY_SERVERS))
		;
	if (pool_idle_longest(pool))
		close_aged(pool, now);
	while (timeout > 0 && (server = pool_idle_longest(pool)) != NULL &&
	       pool->budget->used > pool_floor(pool) && now - server->since >= timeout &&
	       server_drop(server, REASON_SERVER_IDLE))
		;
	pool_open_unasked(pool, now);
}

static void refuse_overdue(struct pool *pool, enum client_state state, usec_t now)
{
	const struct settings *set = &pool->pools->conf->settings;
	struct list *head = &pool->clients[state], *node = head->next;

	while (node != head) {
		struct pool_client *client = client_at(node);
		const struct user *user = client->login_user;
		usec_t query = first_set(OF_USER(user, query_timeout), CONF_UNSET,
					 set->query_timeout);
		usec_t wait = first_set(OF_USER(user, query_wait_timeout),
					pool->database->conf->query_wait_timeout,
					set->query_wait_timeout);
		enum close_reason why = REASON_NONE;

		/* query_timeout includes the wait and the time of a PAUSE; query_wait_timeout does
		   not include a PAUSE */
		if (query > 0 && now - client->since >= query)
			why = REASON_QUERY_TIMEOUT_WAITING;
		else if (wait > 0 && !pool_is_stopped(pool) && pool_waited(client, now) >= wait)
			why = REASON_QUERY_WAIT_TIMEOUT;
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

static void maintain_clients(struct pool *pool, usec_t now)
{
	usec_t timeout = SETTINGS(pool)->cancel_wait_timeout,
	       patience = SETTINGS(pool)->query_wait_notify;
	struct list *head = &pool->clients[CLIENT_WAITING], *node;
	struct pool_client *first;

	if (pool_is_stopped(pool))
		pool->stopped_until = now;
	/* while suspended, the end of a client may not have been read yet */
	if (!pool->pools->suspended) {
		refuse_overdue(pool, CLIENT_WAITING, now);
		refuse_overdue(pool, CLIENT_WAITING_LOGIN, now);
	}
	node = head->next;
	while (patience > 0 && !pool_is_stopped(pool) && node != head) {
		struct pool_client *client = client_at(node);
		struct list *before = node->prev;

		if (pool_waited(client, now) < patience)
			break;
		if (!client->notified) {
			client->notified = true;
			pool->pools->ops->notify(client, now - client->since);
		}
		/* The client may have ended while the notice was sent. */
		node = client->state == CLIENT_WAITING ? node->next : before->next;
	}
	while (timeout > 0 && (first = client_first(pool, CLIENT_WAITING_CANCEL)) != NULL &&
	       now - first->since >= timeout) {
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
	int periods = 0;

	LIST_EACH(node, &pools->all) {
		struct pool *pool = pool_at(node);

		if (pool->database->is_console)
			continue;
		if (!pools->suspended)
			maintain_servers(pool, now);
		maintain_clients(pool, now);
		/* the remaining pools follow in the next ticks */
		if (periods < PERIODS_MOST)
			periods += latency_period_end(pool, now);
	}
	if (!pools->suspended) {
		roles_tick(pools, now);
		hosts_maintain(pools);
		pools_sweep(pools, now);
	}
	pools->internal_servers_missed = false;
	pools->maintained_at = now;
	if (now - pools->stats_at < pools->conf->settings.stats_period)
		return false;
	pools->stats_at = now;
	for (struct database *database = pools->databases; database; database = database->hh.next) {
		struct stats_history *history = &database->stats;

		history->older = history->newer;
		history->older_at = history->newer_at;
		history->newer = history->total;
		history->newer_at = now;
	}
	return true;
}
