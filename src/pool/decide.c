/*
 * The scheduler's verdict: given what a pool looks like, the one next thing to be done for its clients, or
 * what holds them back.
 *
 * Pure: no list, no clock, no memory. pools_schedule asks again after each step that it has carried out, so
 * a verdict is only ever about one server. In this order: a client must want something; a pooler that shuts
 * down refuses, a paused one holds; an idle server is lent; one that has been idle for long is tested; only
 * then a new one is opened, and only when each limit leaves room for it or can be made to. Nothing is ever
 * closed in vain: before the first eviction it is certain that enough can be closed under every limit that
 * is hit.
 *
 * Logins at a server begin slowly: one until it has succeeded, then two, and one more for each that succeeds. So a server that
 * has no room, or that refuses, hears of a few clients and not of all that wait.
 */
#include "pool/pool.h"

static struct pool_verdict verdict(enum pool_action action, enum pool_limit limit)
{
	return (struct pool_verdict){ .action = action, .limit = limit };
}

/* How many must close before one more may open; limit 0: none. */
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
	/* The very moment of a failure counts even with server_login_retry = 0: the clients that waited for that login are told. */
	return v->login_failed && (v->since_login_failed <= 0 || v->since_login_failed < v->login_retry);
}

/* A new server, if the limits have room or room can be made. */
static struct pool_verdict decide_room(const struct pool_view *v)
{
	int64_t own = v->idle + v->used;		/* they fit no waiting client */
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
	/* room is made by pools_maintain: idle servers of other pools that only internal requests have used close */
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

/* One server tells all of them the parameters. */
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

/* No idle server fits. */
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
	/* A busy pool lends each server again the moment it is free: a login that never had its turn would never end. */
	if (v->login_first && wants_login(v) && !is_login_failing(v)) {
		next = decide_room_for_login(v);
		if (next.action != POOL_HOLD)
			return next;
	}
	if (v->waiting > 0 && v->idle_fitting > 0)
		return verdict(POOL_LEND, LIMIT_NONE);
	next = decide_open(v);
	/* A client that cannot be served now loses nothing when a server that it cannot use works for others. */
	if (next.action == POOL_HOLD && v->waiting > 0 && v->fits_behind)
		return verdict(POOL_LEND, LIMIT_NONE);
	return next;
}
