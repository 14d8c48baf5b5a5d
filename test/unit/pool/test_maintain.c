/* Timeouts and periodic maintenance of pools. */
#include "fake.h"

#define HEAD "[pgbouncer]\npool_mode = transaction\nserver_check_query =\n"
#define APP "[databases]\napp = host=127.0.0.1\n"

TEST(expired_servers_are_closed_one_by_one)
{
	int closed = 0, most = 0;

	fake_start(HEAD "server_lifetime = 5\nserver_idle_timeout = 0\ndefault_pool_size = 50\n" APP);
	fake_fill("app", "bob", 50);
	fake_diary();
	CHECK_TEXT(fake_later(4.9), "");
	for (int i = 0; i < 60; i++) {
		int before = fake_pool("app", "bob")->server_count[SERVER_IDLE], now_closed;

		fake_later(0.1);
		now_closed = before - fake_pool("app", "bob")->server_count[SERVER_IDLE];
		closed += now_closed;
		most = now_closed > most ? now_closed : most;
	}
	CHECK_INT(closed, 50);
	CHECK_INT(most, 1);
	fake_end();
}

TEST(late_maintenance_closes_a_bounded_number_of_servers)
{
	fake_start(HEAD "server_lifetime = 5\nserver_idle_timeout = 0\ndefault_pool_size = 50\n" APP);
	fake_fill("app", "bob", 50);
	fake_later(4.9);
	fake_later(0.5);
	CHECK_INT(fake_pool("app", "bob")->server_count[SERVER_IDLE], 45);
	fake_end();
	fake_start(HEAD "server_lifetime = 100\nserver_idle_timeout = 0\ndefault_pool_size = 10\n" APP);
	fake_fill("app", "bob", 10);
	for (int i = 0; i < 1000; i++)
		fake_later(0.1);
	CHECK_INT(fake_pool("app", "bob")->server_count[SERVER_IDLE], 9);
	fake_end();
}

TEST(zero_lifetime_keeps_a_server_until_first_use)
{
	fake_start(HEAD "server_lifetime = 0\nmin_pool_size = 1\n" APP);
	fake_join("app", "bob");
	CHECK_TEXT(fake_later(0.1), "dial");
	fake_login(s(1));
	CHECK_TEXT(fake_later(100), "");
	CHECK(fake_want(c(1)));
	CHECK_INT(fake_release(s(1)), REASON_SERVER_LIFETIME);
	fake_end();
}

TEST(idle_servers_are_closed_down_to_min_pool_size)
{
	fake_start(HEAD "server_idle_timeout = 60\nmin_pool_size = 1\n" APP);
	fake_fill("app", "bob", 3);
	fake_pass(30);
	CHECK(fake_want(c(1)));
	fake_release(s(3));
	fake_diary();
	CHECK_TEXT(fake_later(29.9), "");
	CHECK_TEXT(fake_later(0.1), "drop s1 SERVER_IDLE, drop s2 SERVER_IDLE");
	CHECK_TEXT(fake_later(100), "");
	/* Without a client or a forced user, min_pool_size does not apply. */
	for (int i = 1; i <= 3; i++)
		fake_leave(c(i));
	CHECK_TEXT(fake_later(0), "drop s3 SERVER_IDLE");
	fake_end();
}

TEST(min_pool_size_applies_to_the_forced_user_only)
{
	fake_start(HEAD "pool_idle_timeout = 1\n[databases]\nforced = user=carl min_pool_size=2 pool_size=5\n");
	CHECK_TEXT(fake_later(0.1), "dial");
	CHECK_TEXT(fake_later(0.1), "");	/* connections are opened one at a time */
	fake_login(s(1));
	CHECK_TEXT(fake_later(0.1), "dial");
	fake_login(s(2));
	CHECK_TEXT(fake_later(0.1), "");
	CHECK_INT(fake.pools->clients, 0);
	fake_server_dies(s(1), REASON_SERVER_CRASHED);
	fake_server_dies(s(2), REASON_SERVER_CRASHED);
	fake_schedule();
	fake_pass(10);
	CHECK_TEXT(fake_later(0), "dial");
	/* No server is opened while logins fail. */
	fake_login_fails(s(3));
	CHECK_TEXT(fake_later(14.9), "");
	CHECK_TEXT(fake_later(0.1), "dial");
	fake_end();
}

TEST(unavailable_server_is_retried_while_clients_exist)
{
	struct fake_client *c;

	fake_start(HEAD "server_login_retry = 60\n" APP);
	c = fake_join("app", "bob");
	pool_login_failed(fake_pool("app", "bob"), FAILURE_AWAY, fake.now);
	CHECK_TEXT(fake_later(0.4), "");
	CHECK_TEXT(fake_later(0.2), "dial");
	/* no second dial is started while the first is in progress */
	CHECK_TEXT(fake_later(5), "");
	fake_login_fails(s(1));
	fake.failure = FAILURE_AWAY;
	pool_login_failed(fake_pool("app", "bob"), FAILURE_AWAY, fake.now);
	CHECK_TEXT(fake_later(0.6), "dial");
	/* a refused login is not an unavailable server */
	fake.failure = FAILURE_LASTING;
	fake_login_fails(s(2));
	CHECK_TEXT(fake_later(50), "");
	/* without a client, pgweir does not retry */
	pool_login_failed(fake_pool("app", "bob"), FAILURE_AWAY, fake.now);
	fake_leave(c);
	CHECK_TEXT(fake_later(0.6), "");
	CHECK_TEXT(fake_later(100), "");
	fake_end();
}

/* Each client disconnects after the cached error, before the next attempt is due. */
TEST(unavailable_server_is_retried_once_per_short_lived_client)
{
	fake_start(HEAD "pool_mode = transaction\nserver_login_retry = 60\n" APP);
	fake.failure = FAILURE_AWAY;
	fake_join("app", "bob");
	pool_login_failed(fake_pool("app", "bob"), FAILURE_AWAY, fake.now);
	fake_pass(0.1);
	for (int i = 1; i <= 2; i++) {
		fake_want(c(i));
		CHECK_TEXT(fake_schedule(), i == 1 ? "refuse c1 LOGIN_FAILING" : "refuse c2 LOGIN_FAILING");
		CHECK_TEXT(fake_later(0.5), "dial");
		fake_login_fails(s(i));
		CHECK_TEXT(fake_later(0.6), "");
		CHECK_TEXT(fake_later(10), "");
		fake_join("app", "bob");
	}
	fake_end();
}

TEST(pool_with_unavailable_server_is_freed)
{
	struct fake_client *c;

	fake_start(HEAD "server_login_retry = 1\npool_idle_timeout = 2\n" APP);
	fake.failure = FAILURE_AWAY;
	c = fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login_fails(s(1));
	fake_leave(c);
	for (int i = 0; i < 10; i++)
		CHECK_TEXT(fake_later(0.3), "");
	CHECK(list_is_empty(&fake.pools->all));
	fake_end();
}

TEST(min_pool_size_never_evicts)
{
	fake_start(HEAD "min_pool_size = 2\nmax_user_connections = 2\nserver_idle_timeout = 0\n" APP "other = host=127.0.0.1\n");
	fake_fill("app", "bob", 2);
	fake_join("other", "bob");
	fake_diary();
	for (int i = 0; i < 50; i++)
		CHECK_TEXT(fake_later(0.3), "");
	fake_end();
}

TEST(reduced_pool_size_closes_excess_servers)
{
	fake_start(HEAD "server_idle_timeout = 0\ndefault_pool_size = 4\n" APP);
	fake_fill("app", "bob", 4);
	fake_diary();
	fake_reload(HEAD "server_idle_timeout = 0\ndefault_pool_size = 2\n" APP);
	CHECK_TEXT(fake_later(0.1), "drop s1 TOO_MANY_SERVERS, drop s2 TOO_MANY_SERVERS");
	fake_end();
}

TEST(queued_clients_time_out)
{
	fake_start(HEAD "query_wait_timeout = 10\nquery_wait_notify = 5\ndefault_pool_size = 1\n" APP);
	fake_ask("app", "bob");
	fake_schedule();
	fake_pass(1);
	fake_ask("app", "bob");
	fake_diary();
	CHECK_TEXT(fake_later(3.9), "");
	CHECK_TEXT(fake_later(0.1), "notify c1 5");
	CHECK_TEXT(fake_later(1), "notify c2 5");
	CHECK_TEXT(fake_later(3.9), "");
	CHECK_TEXT(fake_later(0.1), "refuse c1 QUERY_WAIT_TIMEOUT");
	CHECK_TEXT(fake_later(1), "refuse c2 QUERY_WAIT_TIMEOUT");
	/* A notice is sent again for a new wait. */
	fake_login(s(1));
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_later(5), "notify c4 5");
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c4");
	fake_want(c(3));
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c3");
	fake_want(c(4));
	CHECK_TEXT(fake_later(5), "notify c4 5");
	fake_end();
}

TEST(query_timeout_includes_the_wait)
{
	fake_start(HEAD "query_timeout = 5\nquery_wait_timeout = 10\nquery_wait_notify = 0\n[databases]\napp = user=shared\n"
		   "[users]\nhasty = query_timeout=2\n");
	fake_ask("app", "calm");
	fake_ask("app", "hasty");
	fake_join_as("app", "calm", CLIENT_WAITING_LOGIN);
	fake_schedule();
	CHECK_TEXT(fake_later(2), "refuse c2 QUERY_TIMEOUT_WAITING");
	CHECK_TEXT(fake_later(3), "refuse c1 QUERY_TIMEOUT_WAITING, refuse c3 QUERY_TIMEOUT_WAITING");
	/* query_timeout also applies during PAUSE, but not in a suspended pooler, which does not read from clients */
	pools_pause(fake.pools, NULL, true);
	fake_diary();
	fake_ask("app", "calm");
	CHECK_TEXT(fake_later(5), "refuse c4 QUERY_TIMEOUT_WAITING");
	fake_ask("app", "calm");
	fake.pools->suspended = true;
	CHECK_TEXT(fake_later(5), "");
	fake.pools->suspended = false;
	CHECK_TEXT(fake_later(0.1), "refuse c5 QUERY_TIMEOUT_WAITING");
	fake_end();
}

TEST(queued_logins_obey_the_query_timeouts)
{
	fake_start(HEAD "query_wait_timeout = 10\n" APP);
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	fake_schedule();
	CHECK_TEXT(fake_later(9.9), "");
	CHECK_TEXT(fake_later(0.1), "refuse c1 QUERY_WAIT_TIMEOUT");
	fake_end();
}

TEST(zero_turns_queue_timeouts_off)
{
	fake_start(HEAD "query_wait_timeout = 0\nquery_wait_notify = 0\n" APP);
	fake_ask("app", "bob");
	fake_schedule();
	CHECK_TEXT(fake_later(100000), "");
	fake_end();
}

TEST(shorter_user_timeout_applies_behind_the_head_of_the_queue)
{
	fake_start(HEAD "query_wait_timeout = 100\nquery_wait_notify = 0\n[databases]\napp = user=shared\n"
		   "[users]\nhasty = query_wait_timeout=2\n");
	fake_ask("app", "calm");
	fake_ask("app", "hasty");
	fake_ask("app", "calm");
	fake_ask("app", "hasty");
	fake_schedule();
	CHECK_TEXT(fake_later(2), "refuse c2 QUERY_WAIT_TIMEOUT, refuse c4 QUERY_WAIT_TIMEOUT");
	fake_end();
}

TEST(pause_stops_the_queue_timeout)
{
	fake_start(HEAD "query_wait_timeout = 10\nquery_wait_notify = 0\n" APP);
	pools_pause(fake.pools, NULL, true);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_later(9), "");
	CHECK_TEXT(fake_later(9), "");
	pools_pause(fake.pools, NULL, false);
	CHECK_TEXT(fake_later(9.9), "dial c1");
	CHECK_TEXT(fake_later(0.1), "refuse c1 QUERY_WAIT_TIMEOUT");
	fake_end();
}

TEST(cancel_requests_time_out)
{
	fake_start(HEAD "cancel_wait_timeout = 10\ndefault_pool_size = 1\n" APP);
	fake_cancel("app", "bob");
	fake_cancel("app", "bob");
	fake_cancel("app", "bob");
	CHECK_TEXT(fake_schedule(), "cancel c1, cancel c2");
	CHECK_TEXT(fake_later(9.9), "");
	CHECK_TEXT(fake_later(0.1), "refuse c3 CANCEL_WAIT_TIMEOUT");
	fake_end();
}

TEST(idle_pools_and_their_users_are_freed)
{
	fake_start(HEAD "pool_idle_timeout = 60\nclient_login_timeout = 30\n" APP "[users]\nkept = pool_size=3\n");
	fake_join("app", "bob");
	fake_join("app", "kept");
	fake_later(100);
	CHECK_INT(HASH_COUNT(fake.pools->by_key), 2);
	fake_leave(c(1));
	fake_leave(c(2));
	fake_later(59);
	CHECK_INT(HASH_COUNT(fake.pools->by_key), 2);
	fake_later(1);
	CHECK_INT(HASH_COUNT(fake.pools->by_key), 0);
	CHECK_INT(fake.pools_ended, 2);
	fake_later(59);
	CHECK_INT(HASH_COUNT(fake.pools->users), 2);
	fake_later(1);
	CHECK_INT(HASH_COUNT(fake.pools->users), 1);
	CHECK_TEXT(fake.pools->users->name, "kept");
	fake_end();
}

TEST(autodb_is_removed_when_all_its_pools_are_idle)
{
	fake_start(HEAD "autodb_idle_timeout = 60\n[databases]\n* = host=127.0.0.1\n");
	fake_join("auto", "bob");
	fake_join("auto", "ann");
	CHECK(database_find(fake.pools, "auto")->automatic);
	database_find(fake.pools, "auto")->served = true;
	fake_leave(c(1));
	fake_later(100);
	CHECK(database_find(fake.pools, "auto") != NULL);
	CHECK_INT(c(2)->pooled.state, CLIENT_IDLE);
	fake_leave(c(2));
	fake_later(59);
	CHECK(database_find(fake.pools, "auto") != NULL);
	fake_later(1);
	CHECK(database_find(fake.pools, "auto") == NULL);
	CHECK_INT(HASH_COUNT(fake.pools->by_key), 0);
	CHECK(database_find(fake.pools, "pgbouncer") != NULL);
	fake_end();
}

/* Clients may name any number of databases that do not exist. */
TEST(autodb_without_server_is_removed_soon)
{
	fake_start(HEAD "autodb_idle_timeout = 0\nserver_login_retry = 5\n[databases]\n* = host=127.0.0.1\n");
	fake_join("invented", "bob");
	fake_fill("real", "bob", 1);
	CHECK(!database_find(fake.pools, "invented")->served && database_find(fake.pools, "real")->served);
	fake_leave(c(1));
	fake_later(4);
	CHECK(database_find(fake.pools, "invented") != NULL);
	fake_later(2);
	CHECK(database_find(fake.pools, "invented") == NULL && database_find(fake.pools, "real") != NULL);
	fake_end();
}

TEST(paused_or_disabled_autodb_is_kept)
{
	struct database *paused, *disabled;

	fake_start(HEAD "autodb_idle_timeout = 60\n[databases]\n* = host=127.0.0.1\n");
	/* only an unauthenticated client has named the second database */
	paused = database_get(fake.pools, "paused", true, fake.now);
	disabled = database_get(fake.pools, "disabled", false, fake.now);
	pools_pause(fake.pools, paused, true);
	disabled->disabled = true;
	fake_later(1000);
	fake_later(1000);
	CHECK(database_find(fake.pools, "paused") == paused && paused->paused);
	CHECK(database_find(fake.pools, "disabled") == disabled && disabled->disabled);
	pools_pause(fake.pools, paused, false);
	disabled->disabled = false;
	fake_later(2);
	CHECK(!database_find(fake.pools, "paused") && !database_find(fake.pools, "disabled"));
	/* unless "*" has been removed from the file */
	pools_pause(fake.pools, database_get(fake.pools, "paused", true, fake.now), true);
	fake_reload(HEAD APP);
	fake_later(2);
	CHECK_INT(HASH_COUNT(fake.pools->databases), 2);
	fake_end();
}

TEST(statistics_period_ends)
{
	struct stats average;

	fake_start(HEAD "stats_period = 10\n" APP);
	CHECK(!pools_maintain(fake.pools, fake.now + 10 * USEC - 1));
	database_find(fake.pools, "app")->stats.total.query_count = 50;
	CHECK(pools_maintain(fake.pools, fake.now + 10 * USEC));
	CHECK(!pools_maintain(fake.pools, fake.now + 11 * USEC));
	stats_average(&database_find(fake.pools, "app")->stats, fake.now + 10 * USEC, &average);
	CHECK_INT(average.query_count, 5);
	fake_end();
}

UNIT_MAIN
