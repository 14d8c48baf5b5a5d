/*
 * The scheduler's verdict: given a view of the pool, the next action for its clients, or the limit
 * that prevents one.
 *
 * The function is pure: no list, no clock, no memory. pools_schedule calls it again after each
 * action, so a verdict is about one server. The order is: without a waiting client nothing is done;
 * during a shutdown clients are refused; a paused pool holds; an idle server is lent; after a long
 * idle time it is tested first; otherwise a server is opened, if every limit has room or can get
 * room. Before the first eviction it is certain that enough servers can be closed under every limit
 * that is reached.
 *
 * The number of parallel logins grows slowly: one until it has succeeded, then two, and one more
 * for each success. Therefore a full server, or a server with refused logins, gets few attempts,
 * even if many clients wait.
 */
#include "pool/pool.h"

static struct pool_verdict verdict(enum pool_action action, enum pool_limit limit)
{
	return (struct pool_verdict){ .action = action, .limit = limit };
}

static bool is_login_failing(const struct pool_view *v)
{
	/* The turn of a failure counts even with server_login_retry = 0: the clients that waited
	   for that login get the error. */
	return v->login_failed &&
	       (v->since_login_failed <= 0 || v->since_login_failed < v->login_retry);
}

/* A server is opened for the clients that wait for their welcome only if no other is being opened,
   because the parameters of one server are sufficient for all of them. */
static bool wants_login(const struct pool_view *v)
{
	return v->waiting_login > 0 && v->logging_in == 0;
}

/* Opens a server if the limits have room, or makes room. */
static struct pool_verdict decide_room(const struct pool_view *v, bool for_login)
{
	/* idle servers that fit no waiting client */
	int64_t own = v->idle + v->used;
	int64_t over_size = is_reached(v->live, v->size) ? v->live - v->size + 1 : 0;
	int64_t over_database = v->database_excess, over_user = v->user_excess;
	struct pool_verdict open = { .action = POOL_DIAL,
				     .limit = LIMIT_NONE,
				     .for_login = for_login };

	if (over_size > own) {
		if (v->reserve <= 0 || v->reserve_timeout <= 0 ||
		    v->oldest_wait < v->reserve_timeout || v->live >= v->size + v->reserve)
			return verdict(POOL_HOLD, LIMIT_POOL_SIZE);
		open.from_reserve = true;
		over_size = 0;
	}
	if (over_database > own + v->database_evictable)
		return verdict(POOL_HOLD, LIMIT_DATABASE);
	if (over_user > own + v->user_evictable)
		return verdict(POOL_HOLD, LIMIT_USER);
	/* after the other limits, because the pool takes the next room at the host when it waits
	   there */
	if (v->host_full && own == 0 && !v->host_evictable)
		return verdict(POOL_HOLD, LIMIT_HOST);
	/* pools_maintain makes room: it closes idle servers that only internal requests have
	   used */
	if (v->internal_full)
		return verdict(POOL_HOLD, LIMIT_INTERNAL);
	if (own > 0 && (over_size > 0 || over_database > 0 || over_user > 0 || v->host_full))
		return verdict(POOL_REPLACE, LIMIT_NONE);
	if (over_database > 0)
		return verdict(POOL_EVICT_FOR_DATABASE, LIMIT_DATABASE);
	if (over_user > 0)
		return verdict(POOL_EVICT_FOR_USER, LIMIT_USER);
	if (v->host_full)
		return verdict(POOL_EVICT_FOR_HOST, LIMIT_HOST);
	return open;
}

struct pool_verdict pool_decide(const struct pool_view *v)
{
	bool for_query = v->waiting > v->covered;
	struct pool_verdict next;

	if (v->waiting == 0 && v->waiting_login == 0)
		return verdict(POOL_HOLD, LIMIT_NONE);
	if (v->draining)
		return verdict(POOL_REFUSE, LIMIT_DRAINING);
	if (v->paused)
		return verdict(POOL_HOLD, LIMIT_PAUSED);
	if (v->lacks_role)
		return verdict(POOL_HOLD, LIMIT_ROLE);
	/* A busy pool lends each server as soon as it is free. Without this check, a waiting login
	   would starve. */
	if (v->login_first && wants_login(v) && !is_login_failing(v)) {
		next = decide_room(v, true);
		if (next.action != POOL_HOLD)
			return next;
	}
	if (v->waiting > 0 && v->idle_fitting > 0)
		return verdict(POOL_LEND, LIMIT_NONE);
	/* no idle server fits the first client */
	if (for_query && v->used_fitting > 0) {
		next = verdict(POOL_TEST, LIMIT_NONE);
	} else if (is_login_failing(v)) {
		next = verdict(v->refusable ? POOL_REFUSE : POOL_HOLD, LIMIT_LOGIN_RETRY);
	} else if (!for_query && !wants_login(v)) {
		next = verdict(POOL_HOLD, LIMIT_NONE);
	} else {
		next = decide_room(v, !for_query);
		if (next.action != POOL_HOLD && v->logging_in >= v->logins_at_once)
			next = verdict(POOL_HOLD, LIMIT_ONE_LOGIN);
	}
	/* The first client cannot be served now. Example: it needs a server with its own start-up
	   parameters, and the idle servers have others. Such a server is lent to a later client, so
	   that it does not wait in vain. */
	if (next.action == POOL_HOLD && v->waiting > 0 && v->fits_behind)
		return verdict(POOL_LEND, LIMIT_NONE);
	return next;
}
