/* RELOAD: which databases, pools and servers are kept, closed or restored. */
#include "fake.h"

#include "unit.h"

#include <string.h>

#define HEAD "[pgbouncer]\npool_mode = transaction\nserver_check_query =\n[databases]\n"

TEST(a_reload_that_changes_nothing_keeps_everything)
{
	fake_start(HEAD "app = host=127.0.0.1\n");
	fake_fill("app", "bob", 2);
	fake_want(c(1));
	fake_diary();
	fake_reload(HEAD "app = host=127.0.0.1\nnew = host=127.0.0.1\n");
	CHECK_TEXT(fake_diary(), "");
	CHECK_INT(s(1)->pooled.close_reason, REASON_NONE);
	CHECK_INT(s(2)->pooled.close_reason, REASON_NONE);
	CHECK(database_find(fake.pools, "new") != NULL);
	fake_end();
}

TEST(sizes_change_without_closing_anything)
{
	fake_start(HEAD "app = pool_size=1\n");
	fake_ask("app", "bob");
	fake_ask("app", "bob");
	fake_schedule();
	fake_login(s(1));
	fake_schedule();
	CHECK_INT(fake_pool("app", "bob")->held_by, LIMIT_POOL_SIZE);
	fake_reload(HEAD "app = pool_size=2\n");
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(a_changed_connect_string_retires_servers)
{
	struct pool *pool;

	fake_start(HEAD "app = host=127.0.0.1\nother = host=127.0.0.1\n");
	fake_fill("app", "bob", 2);
	fake_fill("other", "bob", 1);
	fake_want(c(1));
	fake_diary();
	pool = fake_pool("app", "bob");
	fake_reload(HEAD "app = host=127.0.0.2\nother = host=127.0.0.1\n");
	CHECK_TEXT(fake_diary(), "drop s1 CONNECT_STRING");
	CHECK_INT(pool->generation, 1);
	/* After a change to host B and back to A, older servers are still retired; new servers belong to A. */
	fake_reload(HEAD "app = host=127.0.0.1\nother = host=127.0.0.1\n");
	CHECK_TEXT(fake_diary(), "");
	CHECK_INT(fake_release(s(2)), REASON_DATABASE_CHANGED);
	fake_want(c(1));
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login(s(4));
	CHECK_TEXT(fake_schedule(), "lend s4 c1");
	CHECK_INT(fake_release(s(4)), REASON_NONE);
	CHECK_INT(s(3)->pooled.close_reason, REASON_NONE);
	fake_end();
}

TEST(login_at_the_previous_address_is_not_used)
{
	fake_start(HEAD "app = host=127.0.0.1\n");
	fake_ask("app", "bob");
	fake_schedule();
	fake_diary();
	/* the host sends nothing: no client waits for the outcome of the login */
	fake_reload(HEAD "app = host=127.0.0.2\n");
	CHECK_TEXT(fake_diary(), "drop s1 DATABASE_CHANGED");
	CHECK_TEXT(fake_schedule(), "dial c1");
	CHECK(!fake_pool("app", "bob")->login_failed);
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c1");
	fake_end();
}

TEST(cached_login_error_is_dropped_after_an_address_change)
{
	fake_start(HEAD "app = host=127.0.0.1\n");
	fake_ask("app", "bob");
	fake_schedule();
	fake_login_fails(s(1));
	fake_schedule();
	fake_reload(HEAD "app = host=127.0.0.2\n");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_end();
}

TEST(a_removed_database_drops_its_clients)
{
	fake_start(HEAD "app = host=127.0.0.1\n* = host=127.0.0.1\n");
	fake_fill("app", "bob", 2);
	fake_want(c(1));
	fake_diary();
	fake_reload(HEAD "other = host=127.0.0.1\n");
	CHECK_INT(c(1)->why, REASON_DATABASE_REMOVED);
	CHECK_INT(c(2)->why, REASON_DATABASE_REMOVED);
	CHECK(database_find(fake.pools, "app") == NULL);
	CHECK(database_get(fake.pools, "app", true, fake.now) == NULL);
	fake_reap();
	fake_later(0.1);
	CHECK_INT(HASH_COUNT(fake.pools->databases), 2);	/* the client of the console and the client of the other database */
	fake_end();
}

TEST(removed_database_can_be_added_again)
{
	fake_start(HEAD "app = host=127.0.0.1\n");
	fake_fill("app", "bob", 1);
	fake_reload(HEAD "other = host=127.0.0.1\n");
	fake_reload(HEAD "app = host=127.0.0.1\n");
	fake_diary();
	CHECK(!database_find(fake.pools, "app")->removed);
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_later(1);
	CHECK(database_find(fake.pools, "app") != NULL);
	fake_end();
}

TEST(fallback_database_serves_a_removed_name)
{
	fake_start(HEAD "app = host=127.0.0.1\n* = host=127.0.0.1\n");
	fake_fill("app", "bob", 1);
	fake_reload(HEAD "* = host=127.0.0.1\n");
	CHECK_INT(c(1)->why, REASON_DATABASE_REMOVED);
	fake_ask("app", "bob");
	CHECK(database_find(fake.pools, "app")->automatic);
	CHECK_INT(fake_pool("app", "bob")->database->conf->hosts[0].port, 5432);
	fake_end();
}

/* Gives a database all the state that it may leave behind, in a pool that still exists. */
static void fill_with_lore(void)
{
	struct database *app;

	fake_ask("app", "bob");
	fake_schedule();
	fake_login_fails(s(1));
	fake_schedule();
	app = database_find(fake.pools, "app");
	pools_pause(fake.pools, app, true);
	app->disabled = true;
	CHECK(fake_pool("app", "bob")->login_failed);
	fake_diary();
}

static void check_blank(struct pool *before)
{
	CHECK_INT(fake.pools_ended, 1);
	CHECK(!database_find(fake.pools, "app")->paused && !database_find(fake.pools, "app")->disabled);
	fake_ask("app", "bob");
	CHECK(fake_pool("app", "bob") == before);
	CHECK_INT(before->generation, 1);
	CHECK_TEXT(fake_schedule(), "dial c2");
}

TEST(fallback_inherits_no_state_of_a_removed_database)
{
	struct pool *before;

	fake_start(HEAD "app = host=127.0.0.1\n* = host=127.0.0.2\n");
	fill_with_lore();
	before = fake_pool("app", "bob");
	fake_reload(HEAD "* = host=127.0.0.2\n");
	CHECK(database_get(fake.pools, "app", true, fake.now)->automatic);
	check_blank(before);
	fake_end();
}

TEST(new_database_inherits_no_state_of_a_removed_one)
{
	struct pool *before;

	fake_start(HEAD "app = host=127.0.0.1\n");
	fill_with_lore();
	before = fake_pool("app", "bob");
	fake_reload(HEAD "other = host=127.0.0.1\n");
	fake_reload(HEAD "app = host=127.0.0.1\n");
	check_blank(before);
	fake_end();
}

TEST(autodb_follows_changes_of_the_fallback)
{
	fake_start(HEAD "* = host=127.0.0.1\n");
	fake_fill("auto", "bob", 1);
	fake_diary();
	fake_reload(HEAD "* = host=127.0.0.1\nmore = host=127.0.0.1\n");
	CHECK_TEXT(fake_diary(), "");
	fake_reload(HEAD "* = host=127.0.0.2\n");
	CHECK_TEXT(fake_diary(), "drop s1 CONNECT_STRING");
	CHECK(database_find(fake.pools, "auto")->automatic);
	fake_reload(HEAD "auto = host=127.0.0.2\n");
	CHECK_TEXT(fake_diary(), "");
	CHECK(!database_find(fake.pools, "auto")->automatic);
	CHECK_INT(c(1)->pooled.state, CLIENT_IDLE);
	fake_reload(HEAD "x = host=127.0.0.2\n");
	CHECK_TEXT(fake_diary(), "refuse c1 DATABASE_REMOVED");
	fake_end();
}

TEST(changed_forced_user_drops_clients_of_the_old_pool)
{
	fake_start(HEAD "app = host=127.0.0.1\n");
	fake_fill("app", "ann", 2);
	fake_fill("app", "carl", 1);
	fake_want(c(1));
	fake_want(c(3));
	fake_diary();
	fake_reload(HEAD "app = host=127.0.0.1 user=carl\n");
	CHECK_INT(c(1)->why, REASON_DATABASE_CHANGED);
	CHECK_INT(c(2)->why, REASON_DATABASE_CHANGED);
	CHECK_INT(s(1)->why, REASON_CONNECT_STRING);
	CHECK_INT(c(3)->pooled.state, CLIENT_ACTIVE);
	CHECK_TEXT(fake_pool("app", "ann")->user->name, "carl");
	fake_end();
}

TEST(user_settings_follow_the_users_section)
{
	fake_start(HEAD "app = pool_size=5\n[users]\nbob = pool_size=2\n");
	fake_join("app", "bob");
	CHECK_INT(fake_pool("app", "bob")->allowed.size, 2);
	fake_reload(HEAD "app = pool_size=5\n[users]\nann = pool_size=2\n");
	CHECK_INT(fake_pool("app", "bob")->allowed.size, 5);
	CHECK_INT(fake_pool("app", "ann")->allowed.size, 2);
	fake_end();
}

UNIT_MAIN
