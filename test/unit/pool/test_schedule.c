/* The scheduler: which client gets which server, in which order, and when servers are opened, tested, replaced, evicted or refused. */
#include "fake.h"

#define MODE(mode) "[pgbouncer]\npool_mode = " mode "\nserver_check_query =\nserver_lifetime = 100000\nserver_idle_timeout = 0\nquery_wait_notify = 0\n"
#define APP "[databases]\napp = host=127.0.0.1\n"

/* Start-up parameters are compared by address only. */
static char red_params, blue_params;
#define RED ((const struct params *)(const void *)&red_params)
#define BLUE ((const struct params *)(const void *)&blue_params)

static struct fake_client *ask_with(const struct params *startup)
{
	struct fake_client *client = fake_join("app", "bob");

	client->pooled.startup = startup;
	fake_want(client);
	return client;
}

/* Makes a pool with one server, which is lent to c1. */
static void start_busy(const char *ini)
{
	fake_start(ini);
	fake_fill("app", "bob", 1);
	CHECK(fake_want(c(1)));
	fake_diary();
}

TEST(server_logins_start_one_at_a_time)
{
	fake_start(MODE("transaction") "default_pool_size = 20\n" APP);
	for (int i = 0; i < 20; i++)
		fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c1");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_ONE_LOGIN);
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1, dial c2, dial c2");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_ONE_LOGIN);
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2, dial c3, dial c3");
	fake_login(s(3));
	fake_login(s(4));
	CHECK_TEXT(fake_schedule(), "lend s4 c3, lend s3 c4, dial c5, dial c5, dial c5, dial c5");
	/* a failed login resets the limit to one login at a time */
	fake.failure = FAILURE_BUSY;
	fake_login_fails(s(5));
	fake_login(s(6));
	CHECK_INT(fake_pool("app", "bob")->logins_succeeded, 1);
	fake_end();
}

TEST(parallel_logins_are_allowed_after_the_first_success)
{
	fake_start(MODE("transaction") "default_pool_size = 3\n" APP);
	for (int i = 0; i < 5; i++)
		fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c1");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_ONE_LOGIN);
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1, dial c2, dial c2");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_POOL_SIZE);
	fake_login(s(2));
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c2, lend s2 c3");
	fake_release(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c4");
	fake_release(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c5");
	fake_end();
}

TEST(server_logins_do_not_exceed_waiting_clients)
{
	fake_start(MODE("transaction") "default_pool_size = 0\n" APP);
	fake_fill("app", "bob", 1);
	fake_diary();
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c3, dial c3");
	CHECK_TEXT(fake_schedule(), "");
	fake_leave(c(3));
	fake_leave(c(4));
	CHECK_TEXT(fake_schedule(), "");
	fake_end();
}

TEST(idle_servers_are_lifo_or_round_robin)
{
	fake_start(MODE("transaction") APP);
	fake_fill("app", "bob", 3);		/* released in the order 1, 2, 3 */
	CHECK(fake_want(c(1)));
	CHECK(c(1)->pooled.link == &s(3)->pooled);
	fake_release(s(3));
	/* A reload may change the order while servers are idle. */
	fake_reload(MODE("transaction") "server_round_robin = 1\n" APP);
	CHECK(fake_want(c(1)));
	CHECK(c(1)->pooled.link == &s(1)->pooled);
	fake_release(s(1));
	CHECK(fake_want(c(1)));
	CHECK(c(1)->pooled.link == &s(2)->pooled);
	pools_check(fake.pools);
	fake_end();
}

TEST(session_mode_prefers_a_server_with_equal_startup_parameters)
{
	fake_start(MODE("session") "default_pool_size = 2\n" APP);
	ask_with(RED);
	ask_with(BLUE);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1, dial c2");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2");
	fake_release(s(1));
	fake_release(s(2));
	fake_schedule();
	CHECK(fake_want(c(1)));
	CHECK(c(1)->pooled.link == &s(1)->pooled);
	/* The pool is full, and the idle blue server is not suitable for a second red client. */
	ask_with(RED);
	CHECK_TEXT(fake_schedule(), "drop s2 REPLACED, dial c3");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c3");
	fake_end();
}

TEST(session_mode_opens_a_server_while_the_pool_has_room)
{
	fake_start(MODE("session") "default_pool_size = 3\n" APP);
	ask_with(RED);
	fake_schedule();
	fake_login(s(1));
	fake_schedule();
	fake_release(s(1));
	fake_schedule();
	ask_with(BLUE);
	CHECK_TEXT(fake_schedule(), "dial c2");
	/* A red client queues in the meantime: the blue client keeps its server. */
	ask_with(RED);
	CHECK_TEXT(fake_schedule(), "lend s1 c3");
	fake_end();
}

TEST(server_is_tested_before_it_is_lent)
{
	fake_start("[pgbouncer]\npool_mode = transaction\nserver_check_query = select 1\nserver_check_delay = 30\n" APP);
	fake_fill("app", "bob", 2);
	fake_later(30);
	CHECK_INT(s(1)->pooled.state, SERVER_IDLE);
	fake_later(0.1);
	CHECK_INT(s(1)->pooled.state, SERVER_USED);
	CHECK(!fake_want(c(1)));
	CHECK_TEXT(fake_schedule(), "test s2");
	CHECK(!fake_want(c(2)));
	CHECK_TEXT(fake_schedule(), "test s1");
	pool_server_become(&s(2)->pooled, SERVER_IDLE, fake.now);
	CHECK_TEXT(fake_schedule(), "lend s2 c1");
	/* The test fails: another server is opened. */
	fake_server_dies(s(1), REASON_TEST_FAILED);
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(check_delay_of_zero_tests_every_time)
{
	fake_start("[pgbouncer]\npool_mode = transaction\nserver_check_query = select 1\nserver_check_delay = 0\n" APP);
	fake_fill("app", "bob", 1);
	fake_pass(0.001);
	CHECK(!fake_want(c(1)));
	CHECK_TEXT(fake_schedule(), "test s1");
	fake_pass(0.001);
	pool_server_become(&s(1)->pooled, SERVER_IDLE, fake.now);
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	fake_end();
}

TEST(client_gets_no_stale_server_after_a_suspension)
{
	fake_start("[pgbouncer]\npool_mode = transaction\nserver_check_query = select 1\nserver_check_delay = 30\n" APP);
	fake_fill("app", "bob", 1);
	fake.pools->suspended = true;
	CHECK(!fake_want(c(1)));
	fake_pass(31);
	pools_pause(fake.pools, NULL, false);
	CHECK_TEXT(fake_schedule(), "test s1");
	fake_end();
}

TEST(failed_login_is_cached_for_later_clients)
{
	fake_start(MODE("transaction") "server_login_retry = 15\n" APP);
	fake_ask("app", "bob");
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login_fails(s(1));
	CHECK_TEXT(fake_schedule(), "refuse c1 LOGIN_FAILING, refuse c2 LOGIN_FAILING");
	fake_pass(14.9);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "refuse c3 LOGIN_FAILING");
	/* A login that queues later waits for the next attempt. */
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "");
	CHECK_TEXT(fake_later(0.1), "dial c4");
	fake_login_fails(s(2));
	CHECK_TEXT(fake_schedule(), "refuse c4 LOGIN_FAILING");
	fake_pass(15);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c5");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c5");
	fake_end();
}

TEST(clients_wait_for_an_unavailable_server)
{
	fake_start(MODE("transaction") "server_login_retry = 15\n" APP);
	fake.failure = FAILURE_AWAY;
	fake_ask("app", "bob");
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login_fails(s(1));
	CHECK_TEXT(fake_schedule(), "");
	/* A later query fails at once, even while a server is being opened; a later login waits. */
	fake_pass(0.1);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "refuse c3 LOGIN_FAILING");
	CHECK_TEXT(fake_later(0.5), "dial c1");
	fake_ask("app", "bob");
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "refuse c4 LOGIN_FAILING");
	fake_login_fails(s(2));
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_LOGIN_RETRY);
	CHECK_TEXT(fake_later(0.6), "dial c1");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c1, dial c2");
	fake_leave(c(2));
	fake_leave(c(5));
	fake_server_dies(s(4), REASON_CONNECT_FAILED);
	/* The next failure is reported again. */
	fake_server_dies(s(3), REASON_SERVER_CRASHED);
	fake_pass(1);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c6");
	fake_login_fails(s(5));
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "");
	/* The server is reachable but refuses the login. */
	fake.failure = FAILURE_LASTING;
	CHECK_TEXT(fake_later(0.6), "dial c6");
	fake_login_fails(s(6));
	CHECK_TEXT(fake_schedule(), "refuse c6 LOGIN_FAILING, refuse c7 LOGIN_FAILING");
	fake_end();
}

TEST(server_down_fail_refuses_logins_at_once)
{
	static const enum login_failure failures[] = { FAILURE_LASTING, FAILURE_PASSING, FAILURE_AWAY, FAILURE_BUSY, FAILURE_FULL };

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		fake_start(MODE("transaction") "server_login_retry = 15\nserver_down = fail\n" APP);
		fake.failure = failures[i];
		fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
		fake_internal_request("app", "bob");
		CHECK_TEXT(fake_schedule(), "dial c2");
		fake_login_fails(s(1));
		CHECK_TEXT(fake_schedule(), "refuse c2 LOGIN_FAILING, refuse c1 LOGIN_FAILING");
		fake_pass(0.1);
		fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
		CHECK_TEXT(fake_schedule(), "refuse c3 LOGIN_FAILING");
		fake_end();
	}
}

TEST(clients_wait_while_a_server_login_is_in_progress)
{
	fake_start(MODE("transaction") "server_login_retry = 15\n" APP);
	fake.failure = FAILURE_PASSING;
	fake_ask("app", "bob");
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login_fails(s(1));
	CHECK_TEXT(fake_schedule(), "");
	CHECK_TEXT(fake_later(14.9), "");
	CHECK_TEXT(fake_later(0.1), "dial c1");
	fake_end();
}

/* While another login is in progress, one more waits for the outcome: after SQLSTATE 53300, pgweir does not open a connection for every client. */
TEST(server_with_too_many_connections_is_tried_one_at_a_time)
{
	fake_start(MODE("transaction") "server_login_retry = 0\n" APP);
	fake_fill("app", "bob", 1);
	fake.failure = FAILURE_FULL;
	for (int i = 0; i < 4; i++)
		fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c3, dial c3");
	fake_login_fails(s(2));
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c3, dial c4");
	fake_login_fails(s(4));
	CHECK_TEXT(fake_schedule(), "");
	/* not at once, although server_login_retry is 0 */
	CHECK_TEXT(fake_later(0.4), "");
	CHECK_TEXT(fake_later(0.1), "dial c4");
	fake_login(s(5));
	CHECK_TEXT(fake_schedule(), "lend s5 c4, dial c5");
	fake_login(s(6));
	CHECK_TEXT(fake_schedule(), "lend s6 c5");
	/* the number of connections may grow later */
	fake_pass(15);
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c6, dial c6");
	fake_end();
}

/* A server that RECONNECT has marked serves its present client and no other. */
TEST(clients_do_not_wait_for_a_retired_server)
{
	start_busy(MODE("transaction") APP);
	pools_reconnect(fake.pools, NULL);
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c2, dial c2");
	fake_login_fails(s(2));
	CHECK_TEXT(fake_schedule(), "");
	fake_login_fails(s(3));
	CHECK_TEXT(fake_schedule(), "refuse c2 LOGIN_FAILING, refuse c3 LOGIN_FAILING");
	fake_end();
}

TEST(clients_wait_for_busy_servers)
{
	start_busy(MODE("transaction") APP);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_login_fails(s(2));
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_LOGIN_RETRY);
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c2");
	fake_end();
}

TEST(immediately_failing_dials_end)
{
	fake_start(MODE("transaction") "server_login_retry = 0\n" APP);
	fake.dial_fails = true;
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c1, refuse c1 LOGIN_FAILING, refuse c2 LOGIN_FAILING");
	fake_pass(1);
	fake.dial_fails = false;
	fake.dial_does_nothing = true;
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c3");
	CHECK_TEXT(fake_later(0.1), "dial c3");
	fake_end();
}

TEST(reserve_pool_serves_clients_after_the_timeout)
{
	start_busy(MODE("transaction") "default_pool_size = 1\nreserve_pool_size = 1\nreserve_pool_timeout = 5\n" APP);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_later(4.9), "");
	CHECK_TEXT(fake_later(0.1), "dial c2");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_later(10), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_POOL_SIZE);
	fake_end();
}

TEST(database_limit_evicts_one_server_of_another_pool)
{
	fake_start(MODE("transaction") "max_db_connections = 3\n" APP "other = host=127.0.0.1\n");
	fake_fill("app", "ann", 1);
	fake_pass(1);
	fake_fill("app", "bob", 2);
	fake_fill("other", "ann", 1);
	fake_diary();
	fake_pass(1);
	fake_ask("app", "carl");
	CHECK_TEXT(fake_schedule(), "drop s1 EVICTED, dial c5");
	CHECK_INT(database_find(fake.pools, "app")->servers->used, 3);
	/* Busy servers, and servers of the client's own pool, are not evicted. */
	CHECK(fake_want(c(2)));
	CHECK(fake_want(c(3)));
	fake_ask("app", "dora");
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "dora")->held_by, LIMIT_DATABASE);
	/* The eviction happens as soon as one server is free, without a timer. */
	fake_release(s(3));
	CHECK_TEXT(fake_schedule(), "drop s3 EVICTED, dial c6");
	fake_end();
}

TEST(pool_does_not_evict_its_own_servers)
{
	fake_start(MODE("transaction") "max_db_connections = 2\n" APP);
	fake_fill("app", "bob", 2);
	CHECK(fake_want(c(1)));
	CHECK(fake_want(c(2)));
	fake_ask("app", "bob");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c3");
	fake_end();
}

TEST(reduced_limit_evicts_no_server_without_benefit)
{
	fake_start(MODE("transaction") APP);
	fake_fill("app", "bob", 1);
	fake_fill("app", "ann", 1);
	CHECK(fake_want(c(2)));
	fake_diary();
	fake_reload(MODE("transaction") "max_db_connections = 1\n" APP);
	/* Both limits must have room; closing the idle server satisfies only one of them. */
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_DATABASE);
	fake_release(s(2));
	CHECK_TEXT(fake_schedule(), "drop s1 REPLACED, drop s2 EVICTED, dial c3");
	fake_end();
}

TEST(eviction_satisfies_database_and_user_limits)
{
	fake_start(MODE("transaction") "max_db_connections = 1\nmax_user_connections = 1\n" APP "other = host=127.0.0.1\n");
	fake_fill("app", "ann", 1);
	fake_fill("other", "bob", 1);
	CHECK(fake_want(c(2)));
	fake_diary();
	fake_ask("app", "bob");
	/* The user's only connection is busy: an eviction would not help, so none happens. */
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_USER);
	fake_release(s(2));
	CHECK_TEXT(fake_schedule(), "drop s1 EVICTED, drop s2 EVICTED, dial c3");
	fake_end();
}

TEST(cancel_requests_are_sent_from_a_full_or_paused_pool)
{
	start_busy(MODE("transaction") "default_pool_size = 1\n" APP);
	database_find(fake.pools, "app")->paused = true;
	for (int i = 0; i < 4; i++)
		fake_cancel("app", "bob");
	CHECK_TEXT(fake_schedule(), "cancel c2, cancel c3");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "");
	fake_server_dies(s(2), REASON_CANCEL_DONE);
	CHECK_TEXT(fake_schedule(), "cancel c4");
	fake_end();
}

TEST(waiting_login_is_served_in_a_busy_pool)
{
	start_busy(MODE("transaction") "default_pool_size = 1\n" APP);
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	fake_pass(1);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "");
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "drop s1 REPLACED, dial c2");
	pool_client_become(fake.pools, &c(2)->pooled, CLIENT_IDLE, fake.now);
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c3");
	fake_end();
}

/* The server may refuse the start-up parameters of these clients without naming them in the error. */
TEST(refused_clients_yield_to_other_clients)
{
	fake_start(MODE("session") "default_pool_size = 5\nserver_login_retry = 10\n" APP);
	fake_fill("app", "bob", 1);
	fake_pool("app", "bob")->logins_succeeded = 2;
	CHECK(fake_want(c(1)));
	fake_diary();
	ask_with(RED);
	ask_with(RED);
	ask_with(BLUE);
	CHECK_TEXT(fake_schedule(), "dial c2, dial c3, dial c4");
	pool_server_refused(&s(2)->pooled);
	fake_login_fails(s(2));
	fake_login_fails(s(3));
	fake_login_fails(s(4));
	CHECK_TEXT(fake_later(9), "");
	CHECK_TEXT(fake_later(1), "dial c4");
	fake_login(s(5));
	/* these clients are tried again, after the client that queued later */
	CHECK_TEXT(fake_schedule(), "lend s5 c4, dial c2, dial c3");
	pool_server_refused(&s(6)->pooled);
	fake_login_fails(s(6));
	fake_login_fails(s(7));
	ask_with(BLUE);
	CHECK_TEXT(fake_later(10), "dial c5");
	/* a suitable idle server is lent to a client anywhere in the queue */
	fake_login_fails(s(8));
	fake_release(s(5));
	CHECK_TEXT(fake_schedule(), "lend s5 c5");
	/* a login that may succeed now clears the refusal of these clients */
	pool_login_forgiven(fake_pool("app", "bob"));
	CHECK(!c(2)->pooled.refused && !c(3)->pooled.refused);
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(replication_server_is_never_shared)
{
	struct fake_client *client;

	fake_start(MODE("transaction") "default_pool_size = 3\n" APP);
	fake_fill("app", "bob", 1);
	fake_diary();
	client = fake_client_new();
	client->pooled.dedicated = ++fake.pools->last_dedicated;
	client->pooled.startup = RED;
	pool_client_join(&client->pooled, fake_pool("app", "bob"), user_get(fake.pools, "bob"));
	pool_client_become(fake.pools, &client->pooled, CLIENT_IDLE, fake.now);
	CHECK(!fake_want(client));
	CHECK_TEXT(fake_schedule(), "dial c2");
	/* The other clients keep their servers and never get a server of the replication client. */
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "lend s1 c3");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c4");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2");
	CHECK_INT(fake_release(s(2)), REASON_REPLICATION_OVER);
	CHECK(!fake_want(client));
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_leave(client);
	fake_login(s(4));
	CHECK_TEXT(fake_schedule(), "drop s4 REPLICATION_OVER");
	fake_end();
}

static struct fake_client *replicate(void)
{
	struct fake_client *client = fake_client_new();

	client->pooled.dedicated = ++fake.pools->last_dedicated;
	client->pooled.startup = RED;
	pool_client_join(&client->pooled, fake_pool("app", "bob"), user_get(fake.pools, "bob"));
	pool_client_become(fake.pools, &client->pooled, CLIENT_WAITING_LOGIN, fake.now);
	pool_client_become(fake.pools, &client->pooled, CLIENT_WAITING, fake.now);
	return client;
}

TEST(replication_server_is_given_to_its_own_client_only)
{
	struct fake_client *first;

	fake_start(MODE("session") "default_pool_size = 3\n" APP);
	fake_fill("app", "bob", 1);
	fake_diary();
	first = replicate();
	replicate();
	CHECK_TEXT(fake_schedule(), "dial c2, dial c3");
	fake_leave(first);
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "drop s2 REPLICATION_OVER");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c3");
	fake_end();
}

TEST(replication_evicts_one_idle_server)
{
	fake_start(MODE("transaction") "default_pool_size = 3\n" APP);
	fake_fill("app", "bob", 3);
	fake_diary();
	replicate();
	CHECK_TEXT(fake_schedule(), "drop s1 EVICTED, dial c4");
	fake_login(s(4));
	CHECK_TEXT(fake_schedule(), "lend s4 c4");
	fake_end();
}

/* A walsender may not understand server_check_query. Idle servers after it in the list are still tested. */
TEST(reserved_replication_server_is_not_tested)
{
	fake_start("[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 3\nserver_check_query = select 1\nserver_check_delay = 30\n" APP);
	fake_fill("app", "bob", 1);
	replicate();
	fake_diary();
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake.pools->suspended = true;
	fake_login(s(2));
	CHECK_TEXT(fake_later(31), "");
	CHECK_INT(s(1)->pooled.state, SERVER_USED);
	CHECK_INT(s(2)->pooled.state, SERVER_IDLE);
	/* the reverse order */
	pool_server_become(&s(1)->pooled, SERVER_TESTED, fake.now);
	pool_server_become(&s(1)->pooled, SERVER_IDLE, fake.now);
	CHECK_TEXT(fake_later(31), "");
	CHECK_INT(s(1)->pooled.state, SERVER_USED);
	CHECK_INT(s(2)->pooled.state, SERVER_IDLE);
	pools_check(fake.pools);
	pools_pause(fake.pools, NULL, false);
	CHECK_TEXT(fake_schedule(), "lend s2 c2");
	fake_end();
}

TEST(retired_servers_close_at_release)
{
	fake_start(MODE("transaction") APP);
	fake_ask("app", "bob");
	fake_schedule();
	s(1)->pooled.close_reason = REASON_CLOSE_NEEDED;
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "drop s1 CLOSE_NEEDED, dial c1");
	fake_end();
}

UNIT_MAIN
