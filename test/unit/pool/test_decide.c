/*
 * pool_decide(): single cases, then every combination of small numbers. Each combination is checked for the invariants of a verdict: no server is
 * opened beyond a limit, no server is closed without benefit, and a held client is held by the limit that the verdict names.
 */
#include "pool/pool.h"
#include "unit.h"

/* One client waits at a pool without limits or failures. */
static const struct pool_view plain = {
	.waiting = 1, .size = 4, .logins_at_once = 99, .login_retry = 15 * USEC, .reserve_timeout = 5 * USEC,
};

#define CHECK_VERDICT(view, want_action, want_limit)              \
	do {                                                      \
		struct pool_verdict got = pool_decide(&(view));   \
		CHECK_INT(got.action, want_action);               \
		CHECK_INT(got.limit, want_limit);                 \
	} while (0)

TEST(without_waiting_clients_the_pool_holds)
{
	struct pool_view v = plain;

	v.waiting = 0;
	v.idle = v.idle_fitting = 2;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_NONE);
}

TEST(idle_servers_come_before_used_and_new_ones)
{
	struct pool_view v = plain;

	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	v.used = v.used_fitting = v.live = 1;
	CHECK_VERDICT(v, POOL_TEST, LIMIT_NONE);
	v.idle = v.idle_fitting = 1;
	v.live = 2;
	CHECK_VERDICT(v, POOL_LEND, LIMIT_NONE);
	/* A server that is logging in for a client does not keep an idle server from that client. */
	v.covered = v.logging_in = 1;
	CHECK_VERDICT(v, POOL_LEND, LIMIT_NONE);
}

TEST(internal_requests_have_their_own_server_limit)
{
	struct pool_view v = plain;

	v.internal_full = true;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_INTERNAL);
	v.internal_full = false;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
}

TEST(shutdown_and_pause_override_other_verdicts)
{
	struct pool_view v = plain;

	v.idle = v.idle_fitting = v.live = 1;
	v.paused = true;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_PAUSED);
	v.draining = true;
	CHECK_VERDICT(v, POOL_REFUSE, LIMIT_DRAINING);
}

TEST(servers_are_not_opened_beyond_waiting_clients)
{
	struct pool_view v = plain;

	v.waiting = 3;
	v.logging_in = v.live = v.covered = 2;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	v.logging_in = v.live = v.covered = 3;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_NONE);
}

TEST(one_login_at_a_time_until_the_first_succeeds)
{
	struct pool_view v = plain;

	v.waiting = 3;
	v.logging_in = v.live = v.covered = 1;
	v.logins_at_once = 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_ONE_LOGIN);
	v.logging_in = v.live = v.covered = 0;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
}

TEST(one_server_serves_all_waiting_logins)
{
	struct pool_view v = plain;

	v.waiting = 0;
	v.waiting_login = 9;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	v.logging_in = v.live = 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_NONE);
}

TEST(failed_server_login_refuses_or_delays_clients)
{
	struct pool_view v = plain;

	v.login_failed = true;
	v.logins_at_once = 1;
	v.refusable = true;
	v.since_login_failed = 14 * USEC;
	CHECK_VERDICT(v, POOL_REFUSE, LIMIT_LOGIN_RETRY);
	v.since_login_failed = 15 * USEC;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	/* A client that already waits continues to wait. */
	v.since_login_failed = 1;
	v.refusable = false;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_LOGIN_RETRY);
	/* Without a wait timeout, the login failure ends the wait of a client that waited for this login. */
	v.refusable = true;
	v.login_retry = 0;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	v.since_login_failed = 0;
	CHECK_VERDICT(v, POOL_REFUSE, LIMIT_LOGIN_RETRY);
}

TEST(reserve_pool_opens_after_reserve_timeout)
{
	struct pool_view v = plain;

	v.live = 4;
	v.reserve = 1;
	v.oldest_wait = 5 * USEC - 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_POOL_SIZE);
	v.oldest_wait = 5 * USEC;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	CHECK(pool_decide(&v).from_reserve);
	v.live = 5;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_POOL_SIZE);
	v.live = 4;
	v.reserve_timeout = 0;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_POOL_SIZE);
	v.live = 3;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	CHECK(!pool_decide(&v).from_reserve);
}

TEST(unsuitable_idle_server_is_replaced)
{
	struct pool_view v = plain;

	v.idle = 1;
	v.live = 3;
	CHECK_VERDICT(v, POOL_DIAL, LIMIT_NONE);
	v.live = 4;
	CHECK_VERDICT(v, POOL_REPLACE, LIMIT_NONE);
	/* No server is closed if closing one server does not make enough room. */
	v.live = 5;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_POOL_SIZE);
	v.fits_behind = true;
	CHECK_VERDICT(v, POOL_LEND, LIMIT_NONE);
	v.live = 3;
	v.database_excess = 1;
	v.database_evictable = 5;
	CHECK_VERDICT(v, POOL_REPLACE, LIMIT_NONE);
}

TEST(database_and_user_limits_evict_idle_servers)
{
	struct pool_view v = plain;

	v.database_excess = 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_DATABASE);
	v.database_evictable = 1;
	CHECK_VERDICT(v, POOL_EVICT_FOR_DATABASE, LIMIT_DATABASE);
	/* The user limit applies as well: a server is evicted only if both limits can spare one. */
	v.user_excess = 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_USER);
	v.user_evictable = 1;
	CHECK_VERDICT(v, POOL_EVICT_FOR_DATABASE, LIMIT_DATABASE);
	v.database_excess = 0;
	CHECK_VERDICT(v, POOL_EVICT_FOR_USER, LIMIT_USER);
	v.user_excess = 2;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_USER);
}

TEST(full_hosts_evict_an_idle_server)
{
	struct pool_view v = plain;

	v.host_full = true;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_HOST);
	v.host_evictable = true;
	CHECK_VERDICT(v, POOL_EVICT_FOR_HOST, LIMIT_HOST);
	/* the other limits come first, so that a pool that they hold does not wait for the host */
	v.database_excess = 1;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_DATABASE);
	v.database_evictable = 1;
	CHECK_VERDICT(v, POOL_EVICT_FOR_DATABASE, LIMIT_DATABASE);
	v.host_evictable = false;
	CHECK_VERDICT(v, POOL_HOLD, LIMIT_HOST);
	/* an idle server of the pool itself that does not fit */
	v.database_excess = 0;
	v.idle = v.live = 1;
	CHECK_VERDICT(v, POOL_REPLACE, LIMIT_NONE);
	v.idle_fitting = 1;
	CHECK_VERDICT(v, POOL_LEND, LIMIT_NONE);
}

static void check_promises(const struct pool_view *v)
{
	struct pool_verdict got = pool_decide(v);
	bool failing = v->login_failed && (v->since_login_failed == 0 || v->since_login_failed < v->login_retry);
	bool needs = v->waiting > v->covered || (v->waiting_login > 0 && v->logging_in == 0);
	bool size_hit = v->size > 0 && v->live >= v->size;
	bool database_hit = v->database_excess > 0, user_hit = v->user_excess > 0;

	switch (got.action) {
	case POOL_LEND:
		CHECK(v->waiting > 0 && (v->idle_fitting > 0 || v->fits_behind) && !v->paused && !v->draining);
		break;
	case POOL_TEST:
		CHECK(v->waiting > v->covered && v->used_fitting > 0 && v->idle_fitting == 0 && !v->paused && !v->draining);
		break;
	case POOL_DIAL:
		CHECK(needs && !failing && !v->paused && !v->draining && !database_hit && !user_hit && !v->host_full);
		CHECK(v->logging_in < v->logins_at_once);
		CHECK(got.from_reserve == size_hit);
		CHECK(!size_hit || (v->live < v->size + v->reserve && v->oldest_wait >= v->reserve_timeout));
		break;
	case POOL_REPLACE:
		CHECK(needs && !failing && v->idle + v->used > 0 && (size_hit || database_hit || user_hit || v->host_full));
		break;
	case POOL_EVICT_FOR_DATABASE:
		CHECK(needs && !failing && database_hit && v->database_evictable >= v->database_excess);
		CHECK(!user_hit || v->user_evictable >= v->user_excess);
		break;
	case POOL_EVICT_FOR_USER:
		CHECK(needs && !failing && !database_hit && user_hit && v->user_evictable >= v->user_excess);
		break;
	case POOL_EVICT_FOR_HOST:
		CHECK(needs && !failing && !database_hit && !user_hit && v->host_full && v->host_evictable);
		break;
	case POOL_REFUSE:
		CHECK(v->draining || (failing && v->refusable));
		CHECK(v->waiting + v->waiting_login > 0);
		break;
	case POOL_HOLD:
		CHECK(got.limit != LIMIT_NONE || !needs || v->waiting + v->waiting_login == 0);
		CHECK(got.limit != LIMIT_POOL_SIZE || size_hit);
		CHECK(got.limit != LIMIT_DATABASE || database_hit);
		CHECK(got.limit != LIMIT_USER || user_hit);
		CHECK(got.limit != LIMIT_HOST || (v->host_full && !v->host_evictable));
		CHECK(got.limit != LIMIT_ONE_LOGIN || v->logging_in >= v->logins_at_once);
		CHECK(got.limit != LIMIT_LOGIN_RETRY || (failing && !v->refusable));
		CHECK(got.limit != LIMIT_PAUSED || v->paused);
		CHECK(got.limit != LIMIT_DRAINING);
		break;
	}
}

/* Takes the next choice among `count` out of a mixed number. */
static int pick(unsigned *number, unsigned count)
{
	int choice = (int)(*number % count);

	*number /= count;
	return choice;
}

TEST(verdict_invariants_hold_for_all_small_numbers)
{
	const unsigned combinations = 3 * 2 * 2 * 2 * 2 * 2 * 2 * 3 * 3 * 3 * 2 * 2 * 2 * 3 * 3;
	unsigned actions_seen = 0;

	for (unsigned i = 0; i < combinations; i++) {
		unsigned n = i;
		struct pool_view v = plain;
		bool exact;
		int testing, limit;

		v.waiting = pick(&n, 3);
		v.waiting_login = pick(&n, 2);
		v.idle = pick(&n, 2);
		v.used = pick(&n, 2);
		exact = pick(&n, 2);
		v.logging_in = pick(&n, 2);
		testing = pick(&n, 2);
		v.live = v.idle + v.used + v.logging_in + testing + pick(&n, 3);
		v.size = pick(&n, 3);
		limit = pick(&n, 3);
		v.user_excess = limit > 0 && v.live >= limit ? v.live - limit + 1 : 0;
		v.database_excess = exact && limit > 0 && v.live + 1 >= limit ? v.live - limit + 2 : 0;
		v.reserve = pick(&n, 2);
		v.oldest_wait = pick(&n, 2) ? v.reserve_timeout : 1;
		v.logins_at_once = pick(&n, 2) ? 99 : 1;
		v.login_failed = v.logins_at_once == 1 && testing;
		v.refusable = v.live == 0 || v.idle;
		v.since_login_failed = v.used ? 20 * USEC : USEC;
		v.database_evictable = pick(&n, 3);
		v.user_evictable = v.database_evictable / 2;
		v.host_full = pick(&n, 3) > 0;
		v.host_evictable = v.host_full && v.database_evictable == 1;
		v.login_first = v.waiting_login && (v.waiting == 0 || v.reserve);
		v.idle_fitting = exact ? 0 : v.idle;
		v.used_fitting = exact && v.reserve ? 0 : v.used;
		v.fits_behind = exact && v.idle && v.waiting > 1;
		v.covered = v.waiting < v.logging_in + testing ? v.waiting : v.logging_in + testing;
		check_promises(&v);
		actions_seen |= 1u << pool_decide(&v).action;
		v.paused = true;
		check_promises(&v);
		v.draining = true;
		check_promises(&v);
		actions_seen |= 1u << pool_decide(&v).action;
	}
	CHECK_INT(actions_seen, (1u << (POOL_REFUSE + 1)) - 1);
}

UNIT_MAIN
