/* PAUSE, RESUME, RECONNECT, KILL, SHUTDOWN. */
#include "fake.h"

#define HEAD "[pgbouncer]\npool_mode = transaction\nserver_check_query =\n"
#define TWO "[databases]\napp = host=127.0.0.1\nother = host=127.0.0.1\n"

TEST(pause_closes_idle_servers_now_and_busy_ones_at_release)
{
	struct database *app, *other;

	fake_start(HEAD TWO);
	fake_fill("app", "bob", 3);
	fake_fill("other", "bob", 1);
	fake_want(c(1));
	fake_diary();
	app = database_find(fake.pools, "app");
	other = database_find(fake.pools, "other");
	pools_pause(fake.pools, app, true);
	CHECK_TEXT(fake_diary(), "drop s2 PAUSE_MODE, drop s1 PAUSE_MODE");
	CHECK(!pools_is_without_servers(fake.pools, app, false));
	fake_want(c(2));
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_PAUSED);
	CHECK_INT(fake_release(s(3)), REASON_PAUSE_MODE);
	CHECK_TEXT(fake_schedule(), "");
	CHECK(pools_is_without_servers(fake.pools, app, false));
	CHECK(!pools_is_without_servers(fake.pools, NULL, false));
	/* The other database is not affected. */
	CHECK(fake_want(c(4)));
	CHECK(!pools_is_without_servers(fake.pools, other, false));
	pools_pause(fake.pools, app, false);
	CHECK_TEXT(fake_schedule(), "dial c2");
	/* A server login in progress does not delay PAUSE, and is not counted as a failure. */
	pools_pause(fake.pools, NULL, true);
	CHECK_TEXT(fake_diary(), "drop s5 PAUSE_MODE");
	CHECK(!fake_pool("app", "bob")->login_failed);
	fake_end();
}

TEST(suspend_holds_clients_and_closes_no_server)
{
	fake_start(HEAD TWO);
	fake_fill("app", "bob", 1);
	fake_diary();
	fake.pools->suspended = true;
	CHECK(!fake_want(c(1)));
	CHECK_TEXT(fake_later(1000), "");
	pools_pause(fake.pools, NULL, false);
	CHECK(!fake.pools->suspended);
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	fake_end();
}

TEST(reconnect_retires_every_server)
{
	fake_start(HEAD TWO);
	fake_fill("app", "bob", 2);
	fake_want(c(1));
	fake_diary();
	pools_reconnect(fake.pools, NULL);
	CHECK_TEXT(fake_diary(), "drop s1 DATABASE_CHANGED");
	CHECK(!pools_is_without_servers(fake.pools, NULL, true));
	CHECK(pools_is_without_servers(fake.pools, database_find(fake.pools, "other"), true));
	CHECK_INT(fake_release(s(2)), REASON_CLOSE_NEEDED);
	CHECK(pools_is_without_servers(fake.pools, NULL, true));
	fake_end();
}

TEST(kill_drops_all_connections_and_pauses)
{
	fake_start(HEAD TWO);
	fake_fill("app", "bob", 2);
	fake_want(c(1));
	fake_join_as("app", "bob", CLIENT_WAITING_LOGIN);
	fake_cancel("app", "bob");
	fake_schedule();
	fake_join("other", "bob");
	fake_join("pgbouncer", "admin");
	fake_diary();
	pools_kill(fake.pools, database_find(fake.pools, "app"));
	pools_check(fake.pools);
	CHECK_INT(c(1)->why, REASON_ADMIN_KILL);
	CHECK_INT(c(2)->why, REASON_ADMIN_KILL);
	CHECK_INT(c(3)->why, REASON_ADMIN_KILL);
	CHECK_INT(s(1)->why, REASON_ADMIN_KILL);
	CHECK_INT(s(2)->why, REASON_ADMIN_KILL);
	CHECK(fake_pool("app", "bob")->idle_since != 0);
	CHECK_INT(c(5)->pooled.state, CLIENT_IDLE);
	fake_diary();
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "");
	pools_pause(fake.pools, database_find(fake.pools, "app"), false);
	CHECK_TEXT(fake_schedule(), "dial c7");
	/* SHUTDOWN ends all clients except those of the console. */
	pools_kill(fake.pools, NULL);
	CHECK_INT(c(5)->why, REASON_ADMIN_KILL);
	CHECK_INT(c(6)->pooled.state, CLIENT_IDLE);
	CHECK(fake.pools->paused);
	fake_end();
}

TEST(shutdown_waits_for_servers)
{
	fake_start(HEAD TWO);
	fake_fill("app", "bob", 2);
	fake_want(c(1));
	fake_diary();
	fake.pools->draining = POOL_DRAIN_SERVERS;
	pools_mark_all(fake.pools);
	CHECK_TEXT(fake_schedule(), "drop s1 PAUSE_MODE");
	fake_want(c(2));
	CHECK_TEXT(fake_schedule(), "refuse c2 SERVER_SHUTTING_DOWN");
	CHECK_INT(fake_release(s(2)), REASON_PAUSE_MODE);
	CHECK(pools_is_without_servers(fake.pools, NULL, false));
	fake_end();
}

TEST(shutdown_wait_for_clients_continues_service)
{
	fake_start(HEAD TWO);
	fake_fill("app", "bob", 1);
	fake.pools->draining = POOL_DRAIN_CLIENTS;
	pools_mark_all(fake.pools);
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	CHECK(fake_want(c(1)));
	CHECK_INT(fake_release(s(1)), REASON_NONE);
	/* the client was logging in when the shutdown began */
	CHECK_INT(pool_may_join(fake_pool("app", "bob"), user_get(fake.pools, "bob"), false), REASON_NONE);
	fake_end();
}

UNIT_MAIN
