/* Internal requests, which borrow a server for work of pgweir itself; and databases that only unauthenticated clients have named. */
#include "fake.h"

#define TRANSACTION "[pgbouncer]\npool_mode = transaction\nserver_check_query =\n"
#define APP "[databases]\napp = host=127.0.0.1\n"

/* Takes the assigned server as the session room does: unlinks it and marks it busy. */
static void take(struct fake_client *client, struct fake_server *server)
{
	REQUIRE(client->pooled.link == &server->pooled);
	pool_unlink(&server->pooled, SERVER_LOOKUP, true, fake.now);
	fake_client_dies(client, REASON_NONE);
	pools_check(fake.pools);
}

TEST(internal_request_queues_but_is_not_counted_as_client)
{
	fake_start(TRANSACTION "default_pool_size = 1\nmax_client_conn = 1\nmax_db_client_connections = 1\n" APP);
	fake_internal_request("app", "asker");
	CHECK_INT(fake.pools->clients, 0);
	CHECK_INT(database_find(fake.pools, "app")->clients->used, 0);
	CHECK_INT(user_get(fake.pools, "asker")->clients->used, 0);
	pools_check(fake.pools);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_internal_request("app", "asker");
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	take(c(1), s(1));
	CHECK_INT(fake.pools->clients, 0);
	/* the busy server has no client until its work has ended */
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(c(2)->pooled.state, CLIENT_WAITING);
	CHECK_INT(database_find(fake.pools, "app")->servers->used, 1);
	pool_server_become(&s(1)->pooled, SERVER_IDLE, fake.now);
	CHECK_TEXT(fake_schedule(), "lend s1 c2");
	take(c(2), s(1));
	pool_server_become(&s(1)->pooled, SERVER_IDLE, fake.now);
	fake_end();
}

TEST(server_of_an_internal_request_is_not_lent)
{
	fake_start(TRANSACTION "default_pool_size = 2\n" APP);
	fake_internal_request("app", "asker");
	fake_schedule();
	fake_login(s(1));
	fake_schedule();
	take(c(1), s(1));
	fake_diary();
	fake_internal_request("app", "asker");
	CHECK_TEXT(fake_schedule(), "dial c2");
	/* the server is retired with the others */
	pools_reconnect(fake.pools, NULL);
	CHECK_INT(pool_server_is_spent(&s(1)->pooled, fake.now), REASON_CLOSE_NEEDED);
	fake_end();
}

TEST(internal_request_obeys_query_wait_timeout)
{
	fake_start(TRANSACTION "query_wait_timeout = 5\n" APP);
	fake_internal_request("app", "asker");
	fake_schedule();
	CHECK_TEXT(fake_later(4.9), "");
	CHECK_TEXT(fake_later(0.1), "refuse c1 QUERY_WAIT_TIMEOUT");
	pools_check(fake.pools);
	fake_end();
}

TEST(internal_request_ignores_the_forced_user)
{
	struct database *database;
	struct pool *pool;

	fake_start(TRANSACTION "min_pool_size = 1\n[databases]\napp = host=127.0.0.1 user=forced\n");
	database = database_get(fake.pools, "app", true, fake.now);
	pool = pool_get(database, user_get(fake.pools, "asker"), true, fake.now);
	REQUIRE(pool);
	CHECK_TEXT(pool->user->name, "asker");
	CHECK_TEXT(pool_get(database, user_get(fake.pools, "asker"), false, fake.now)->user->name, "forced");
	CHECK(pool_get(database, user_get(fake.pools, "asker"), true, fake.now) == pool);
	/* min_pool_size applies to the pool of the forced user; the pool of another user has a minimum only while it has a client */
	CHECK_TEXT(fake_later(0.1), "dial");
	CHECK_INT(s(1)->pooled.pool == pool, 0);
	fake_end();
}

TEST(internal_request_needs_a_server_with_default_startup_parameters)
{
	static const char marker;
	const struct params *others = (const struct params *)&marker;
	struct fake_client *client;

	/* transaction mode, in which every server is suitable for every client */
	fake_start(TRANSACTION "default_pool_size = 1\n" APP);
	client = fake_join("app", "asker");
	client->pooled.startup = others;
	fake_want(client);
	fake_schedule();
	fake_login(s(1));
	s(1)->pooled.startup = others;
	fake_schedule();
	fake_release(s(1));
	fake_diary();
	fake_internal_request("app", "asker");
	CHECK_INT(c(2)->pooled.state, CLIENT_WAITING);
	CHECK_TEXT(fake_schedule(), "drop s1 REPLACED, dial c2");
	fake_want(c(1));
	fake_end();
}

/* The number of queued internal requests has no influence. */
TEST(servers_of_internal_requests_are_limited)
{
	fake_start(TRANSACTION "max_auth_query_connections = 2\nmin_pool_size = 4\n[databases]\n* = host=127.0.0.1\n");
	fake_internal_request("one", "asker");
	fake_internal_request("two", "asker");
	fake_internal_request("three", "asker");
	CHECK_TEXT(fake_schedule(), "dial c1, dial c2");
	CHECK_INT(fake_pool("three", "asker")->held_by, LIMIT_INTERNAL);
	/* no server is opened for min_pool_size or to replace a lost server */
	CHECK_TEXT(fake_later(0.1), "");
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	take(c(1), s(1));
	CHECK_TEXT(fake_later(0.1), "");
	/* the count of a client's database no longer includes this server */
	fake_ask("two", "asker");
	CHECK_TEXT(fake_later(0.1), "");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2, dial c4");
	take(c(2), s(2));
	CHECK_TEXT(fake_later(0.1), "");
	/* an idle server is evicted to make room */
	pool_server_become(&s(1)->pooled, SERVER_IDLE, fake.now);
	CHECK_TEXT(fake_later(0.1), "drop s1 INTERNAL_SERVERS, dial c3");
	pools_check(fake.pools);
	fake_end();
}

TEST(database_named_only_by_unauthenticated_client_is_freed)
{
	struct database *database;

	fake_start(TRANSACTION "[databases]\n* = host=127.0.0.1\n");
	CHECK(database_get(fake.pools, "nosuch", false, fake.now));
	CHECK(database_get(fake.pools, "real", false, fake.now));
	database = database_get(fake.pools, "real", false, fake.now);
	fake_join("real", "bob");
	CHECK(!database->stray);
	/* a later unauthenticated client does not change the mark back */
	CHECK(!database_get(fake.pools, "real", false, fake.now)->stray);
	fake_leave(c(1));
	fake_later(2);
	fake_later(2);
	CHECK(!database_find(fake.pools, "nosuch"));
	CHECK(database_find(fake.pools, "real"));
	fake_end();
}

TEST(failed_server_login_is_cleared)
{
	fake_start(TRANSACTION "server_login_retry = 100\n" APP);
	fake_ask("app", "bob");
	fake_schedule();
	fake_login_fails(s(1));
	CHECK_TEXT(fake_schedule(), "refuse c1 LOGIN_FAILING");
	fake_ask("app", "bob");
	pool_login_forgiven(fake_pool("app", "bob"));
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(internal_request_waits_for_an_unavailable_server)
{
	fake_start(TRANSACTION APP);
	fake.failure = FAILURE_AWAY;
	fake_ask("app", "asker");
	fake_internal_request("app", "asker");
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login_fails(s(1));
	CHECK_TEXT(fake_schedule(), "");
	fake_pass(0.1);
	fake_internal_request("app", "asker");
	fake_ask("app", "asker");
	CHECK_TEXT(fake_schedule(), "refuse c4 LOGIN_FAILING");
	fake_end();
}

UNIT_MAIN
