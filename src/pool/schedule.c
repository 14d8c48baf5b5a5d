/*
 * Carries the verdicts out. Once a turn, for every marked pool: look, decide, act, and again until the verdict is HOLD.
 *
 * The loop terminates: lending and refusing remove a client from the queue, testing removes a server from the USED list,
 * replacing and evicting close an idle server, and opening increases the number of servers. If an action had no such effect (no
 * memory, no descriptor), the loop ends for this pool; the next pools_maintain marks every pool with waiting clients again.
 *
 * Cancel requests come first and ignore the limits of servers, because they are needed most when a pool is full. At most twice
 * the pool size of connections for cancel requests are open at a time.
 *
 * Invariant: a pool that waits for a limit of its database or user is on the list of held pools of that limit, longest held
 * first, and is marked as soon as a server under that limit becomes idle or ends.
 */
#include "pool/inside.h"

#include "base/log.h"
#include "pool/pool.h"

#define ROUNDS_MOST 64			/* rounds per pool and turn; more would be a bug in room session */

static void schedule_cancels(struct pool *pool)
{
	int64_t size = pool_size_of(pool);
	struct pool_client *first;

	while ((first = pool_first_client(pool, CLIENT_WAITING_CANCEL)) != NULL &&
	       (size == 0 || pool->cancel_logins + pool->server_count[SERVER_ACTIVE_CANCEL] < 2 * size)) {
		pool->pools->ops->dial_cancel(pool, first);
		if (first->state == CLIENT_WAITING_CANCEL)
			break;
	}
}

static void close_marked(struct pool *pool)
{
	struct list *node = pool->servers[SERVER_IDLE].next;

	while (pool->idle_marked && node != &pool->servers[SERVER_IDLE]) {
		struct pool_server *server = server_at(node);
		struct list *before = node->prev;

		if (server->close_reason != REASON_NONE)
			pool->pools->ops->drop(server, (enum close_reason)server->close_reason);
		node = server->state == SERVER_IDLE ? node->next : before->next;
	}
	pool->idle_marked = false;
}

static bool is_wanted(const struct pool_server *server)
{
	LIST_EACH(node, &server->pool->clients[CLIENT_WAITING]) {
		if (client_at(node)->dedicated == server->dedicated)
			return true;
	}
	return false;
}

/* Closes servers that were opened for one client if that client has ended. */
static void close_unwanted(struct pool *pool)
{
	struct list *node = pool->servers[SERVER_IDLE].next;

	while (pool->dedicated > 0 && node != &pool->servers[SERVER_IDLE]) {
		struct pool_server *server = server_at(node);
		struct list *before = node->prev;

		if (server->dedicated && !is_wanted(server))
			pool->pools->ops->drop(server, REASON_REPLICATION_OVER);
		node = server->state == SERVER_IDLE ? node->next : before->next;
	}
}

static void hold_in(struct list *held, struct list *node, bool is_held)
{
	if (!is_held)
		list_remove(node);
	else if (list_is_empty(node))
		list_append(held, node);
}

static void note_verdict(struct pool *pool, const struct pool_verdict *verdict)
{
	bool hold = verdict->action == POOL_HOLD;

	pool->held_by = hold ? verdict->limit : LIMIT_NONE;
	pool->pools->internal_servers_missed |= pool->held_by == LIMIT_INTERNAL;
	hold_in(&pool->database->held, &pool->held_by_database, hold && verdict->limit == LIMIT_DATABASE);
	hold_in(&pool->user->held, &pool->held_by_user, hold && verdict->limit == LIMIT_USER);
}

static bool drop(struct pool_server *victim, enum close_reason why)
{
	if (!victim)
		return false;
	victim->pool->pools->ops->drop(victim, why);
	return victim->state == SERVER_DEAD;
}

static bool lend(const struct pool_match *match, usec_t now)
{
	struct pools *pools = match->idle->pool->pools;

	pool_link(match->idle, match->matched, now);
	pools->ops->lend(match->idle, match->matched);
	return true;
}

static bool test(const struct pool_match *match, usec_t now)
{
	struct pools *pools = match->used->pool->pools;

	pool_server_become(match->used, SERVER_TESTED, now);
	pools->ops->test(match->used);
	return true;
}

static struct pool_client *first_waiting(struct pool *pool)
{
	struct pool_client *client = pool_first_client(pool, CLIENT_WAITING);

	return client ? client : pool_first_client(pool, CLIENT_WAITING_LOGIN);
}

static bool dial(struct pool *pool, struct pool_client *whom, bool from_reserve)
{
	int live = pool_live(pool);
	bool failed = pool->login_failed;

	if (from_reserve)
		pool->pools->ops->take_reserve(pool, first_waiting(pool));
	pool->pools->ops->dial(pool, whom);
	return pool_live(pool) > live || (pool->login_failed && !failed);
}

static bool refuse(struct pool *pool, enum pool_limit limit)
{
	struct pool_client *client = limit == LIMIT_DRAINING ? pool_first_client(pool, CLIENT_WAITING) : pool_refusable(pool);

	if (!client)
		client = pool_first_client(pool, CLIENT_WAITING_LOGIN);
	pool->missed |= limit != LIMIT_DRAINING;
	pool->pools->ops->refuse(client, limit == LIMIT_DRAINING ? REASON_SERVER_SHUTTING_DOWN : REASON_LOGIN_FAILING);
	return client->state == CLIENT_DEAD;
}

/* A server that a client gives back can work for another client. */
static bool is_full(enum pool_limit limit)
{
	return limit == LIMIT_POOL_SIZE || limit == LIMIT_DATABASE || limit == LIMIT_USER;
}

/* Carries out one verdict. Returns false when the pool is done for this turn. */
static bool step(struct pool *pool, usec_t now)
{
	struct pool_view view;
	struct pool_match match;
	struct pool_verdict verdict;

	pool_look(pool, now, &view);
	verdict = pool_decide(&view);
	note_verdict(pool, &verdict);
	if (verdict.action == POOL_HOLD)
		return pool->pinned > 0 && view.waiting > view.covered && is_full(verdict.limit) && pool->pools->ops->yield(pool);
	pool_match(pool, &match);
	switch (verdict.action) {
	case POOL_LEND:
		return lend(&match, now);
	case POOL_TEST:
		return test(&match, now);
	case POOL_DIAL:
		return dial(pool, verdict.for_login ? pool_first_client(pool, CLIENT_WAITING_LOGIN) : match.unserved,
			    verdict.from_reserve);
	case POOL_REPLACE:
		return drop(pool_longest_idle(pool), match.unserved && match.unserved->dedicated != 0 ? REASON_EVICTED : REASON_REPLACED);
	case POOL_EVICT_FOR_DATABASE:
		return drop(pool_victim_for_database(pool), REASON_EVICTED);
	case POOL_EVICT_FOR_USER:
		return drop(pool_victim_for_user(pool), REASON_EVICTED);
	case POOL_REFUSE:
		return refuse(pool, verdict.limit);
	case POOL_HOLD:
		break;
	}
	return false;
}

static void schedule_pool(struct pool *pool, usec_t now)
{
	schedule_cancels(pool);
	while (pool->pinned > 0 && (pool_is_paused(pool) || pool->pools->draining == POOL_DRAIN_SERVERS) && pool->pools->ops->yield(pool))
		;
	if (pool_is_paused(pool))
		pool_close_idle(pool);
	close_marked(pool);
	pool_age(pool, now);
	while (step(pool, now))
		;
	close_unwanted(pool);
}

void pools_schedule_marked(struct pools *pools, usec_t now)
{
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
	}
}

/* ---- the verdict ---- */

/*
 * The scheduler's verdict: given a view of the pool, the next action for its clients, or the limit that prevents one.
 *
 * The function is pure: no list, no clock, no memory. pools_schedule calls it again after each action, so a verdict is about
 * one server. The order is: without a waiting client nothing is done; during a shutdown clients are refused; a paused pool
 * holds; an idle server is lent; a server that was idle for long is tested first; otherwise a server is opened, if every limit
 * has room or can get room. Before the first eviction it is certain that enough servers can be closed under every limit that is
 * reached.
 *
 * The number of parallel logins grows slowly: one until it has succeeded, then two, and one more for each success. A server
 * that is full or refuses logins therefore gets few attempts, even if many clients wait.
 */

static struct pool_verdict verdict(enum pool_action action, enum pool_limit limit)
{
	return (struct pool_verdict){ .action = action, .limit = limit };
}

/* Returns how many servers must close before another may open; limit 0: unlimited. */
static int64_t excess(int64_t count, int64_t limit)
{
	return limit > 0 && count >= limit ? count - limit + 1 : 0;
}

static bool may_use_reserve(const struct pool_view *v)
{
	return v->reserve > 0 && v->reserve_timeout > 0 && v->oldest_wait >= v->reserve_timeout &&
	       v->live < v->size + v->reserve;
}

static bool is_login_failing(const struct pool_view *v)
{
	/* The turn of a failure counts even with server_login_retry = 0: the clients that waited for that login get the error. */
	return v->login_failed && (v->since_login_failed <= 0 || v->since_login_failed < v->login_retry);
}

/* Opens a server if the limits have room, or makes room. */
static struct pool_verdict decide_room(const struct pool_view *v)
{
	int64_t own = v->idle + v->used;		/* idle servers that fit no waiting client */
	int64_t over_size = excess(v->live, v->size);
	int64_t over_database = excess(v->database_servers, v->database_limit);
	int64_t over_user = excess(v->user_servers, v->user_limit);
	struct pool_verdict open = verdict(POOL_DIAL, LIMIT_NONE);

	if (over_size > own) {
		if (!may_use_reserve(v))
			return verdict(POOL_HOLD, LIMIT_POOL_SIZE);
		open.from_reserve = true;
		over_size = 0;
	}
	if (over_database > own + v->database_evictable)
		return verdict(POOL_HOLD, LIMIT_DATABASE);
	if (over_user > own + v->user_evictable)
		return verdict(POOL_HOLD, LIMIT_USER);
	/* pools_maintain makes room: it closes idle servers that only internal requests have used */
	if (excess(v->internal_servers, v->internal_limit) > 0)
		return verdict(POOL_HOLD, LIMIT_INTERNAL);
	if (own > 0 && (over_size > 0 || over_database > 0 || over_user > 0))
		return verdict(POOL_REPLACE, LIMIT_NONE);
	if (over_database > 0)
		return verdict(POOL_EVICT_FOR_DATABASE, LIMIT_DATABASE);
	if (over_user > 0)
		return verdict(POOL_EVICT_FOR_USER, LIMIT_USER);
	return open;
}

/* A login is opened if no other is in progress: one server gives the parameters for all waiting logins. */
static bool wants_login(const struct pool_view *v)
{
	return v->waiting_login > 0 && v->logging_in == 0;
}

static struct pool_verdict decide_room_for_login(const struct pool_view *v)
{
	struct pool_verdict next = decide_room(v);

	next.for_login = next.action == POOL_DIAL;
	return next;
}

/* Decides when no idle server fits. */
static struct pool_verdict decide_open(const struct pool_view *v)
{
	bool for_query = v->waiting > v->covered;
	struct pool_verdict next;

	if (for_query && v->used_fitting > 0)
		return verdict(POOL_TEST, LIMIT_NONE);
	if (is_login_failing(v))
		return verdict(v->refusable ? POOL_REFUSE : POOL_HOLD, LIMIT_LOGIN_RETRY);
	if (!for_query && !wants_login(v))
		return verdict(POOL_HOLD, LIMIT_NONE);
	next = for_query ? decide_room(v) : decide_room_for_login(v);
	return next.action != POOL_HOLD && v->logging_in >= v->logins_at_once ? verdict(POOL_HOLD, LIMIT_ONE_LOGIN) : next;
}

struct pool_verdict pool_decide(const struct pool_view *v)
{
	struct pool_verdict next;

	if (v->waiting == 0 && v->waiting_login == 0)
		return verdict(POOL_HOLD, LIMIT_NONE);
	if (v->draining)
		return verdict(POOL_REFUSE, LIMIT_DRAINING);
	if (v->paused)
		return verdict(POOL_HOLD, LIMIT_PAUSED);
	/* A busy pool lends each server as soon as it is free. Without this check, a waiting login would starve. */
	if (v->login_first && wants_login(v) && !is_login_failing(v)) {
		next = decide_room_for_login(v);
		if (next.action != POOL_HOLD)
			return next;
	}
	if (v->waiting > 0 && v->idle_fitting > 0)
		return verdict(POOL_LEND, LIMIT_NONE);
	next = decide_open(v);
	/* The first client cannot be served now, so a server that does not fit it is lent to a later client. */
	if (next.action == POOL_HOLD && v->waiting > 0 && v->fits_behind)
		return verdict(POOL_LEND, LIMIT_NONE);
	return next;
}
