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
