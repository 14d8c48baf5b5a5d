/* SHOW POOLS, DATABASES and USERS: rows of a small world. */
#include "shows.h"

TEST(databases)
{
	struct client *c = begin("max_db_connections = 50\nserver_lifetime = 1200\nreserve_pool_size = 2\n");
	const char *got;

	fake_server_new("shop", "owner");
	database_find(fake.world.pools, "many")->paused = true;
	database_find(fake.world.pools, "many")->disabled = true;
	got = fake_ask(c, "show databases");
	CHECK(strstr(got, " D(many|10.0.0.5,10.0.0.6|5432|many|~|20|0|2|1200|~|round-robin|50|0|0|0|1|1)") != NULL);
	CHECK(strstr(got, " D(pgbouncer|~|6432|pgbouncer|pgbouncer|2|0|0|1200|statement|~|0|0|0|1|0|0)") != NULL);
	CHECK(strstr(got, " D(shop|10.0.0.5|5433|store|owner|7|0|2|1200|~|~|50|1|0|0|0|0) C(SHOW) Z(I)") != NULL);
	fake_end();
}

TEST(pools)
{
	struct client *c = begin("");
	struct client *idle = fake_client_new("shop", "anna"), *waiting = fake_client_new("shop", "bert");
	struct server *s = fake_server_new("shop", "owner");
	const char *got;

	(void)idle;
	CHECK(pool_want(&waiting->pooled, fake.world.now) == &s->pooled);
	waiting = fake_client_new("shop", "carl");
	CHECK(pool_want(&waiting->pooled, fake.world.now) == NULL);
	fake.world.now += 2 * USEC + 5;
	got = fake_ask(c, "show pools");
	CHECK(strstr(got, " D(pgbouncer|pgbouncer|1|0|0|0|0|0|0|0|0|0|0|0|0|statement|~)") != NULL);
	CHECK(strstr(got, " D(shop|owner|2|1|0|0|1|0|0|0|0|0|0|2|5|session|~) C(SHOW)") != NULL);
	fake_end();
}

TEST(reason_of_a_waiting_queue)
{
	struct client *c = begin("show_extra_columns = 1\n");
	struct pool *pool;
	const char *got;

	pool = fake_client_new("shop", "anna")->pooled.pool;
	pool->held_by = LIMIT_DATABASE;
	got = fake_ask(c, "show pools");
	CHECK_TEXT(named_cell(got, "pools", 1, "held_by"), "~");	/* no client waits any more */
	CHECK_TEXT(named_cell(got, "pools", 1, "login_error"), "~");
	CHECK_TEXT(named_cell(got, "pools", 1, "pool_size"), "7");
	CHECK(!pool_want(&fake_client_new("shop", "anna")->pooled, fake.world.now));
	pool_login_failed(pool, FAILURE_LASTING, fake.world.now);
	pool->held_by = LIMIT_DATABASE;
	got = fake_ask(c, "show pools");
	CHECK_TEXT(named_cell(got, "pools", 1, "held_by"), "max_db_connections");
	CHECK_TEXT(named_cell(got, "pools", 1, "login_error"), "role does not exist");
	CHECK_TEXT(named_cell(got, "pools", 1, "waits"),
		   "the database has 0 of 0 server connections (max_db_connections). End long transactions, or raise max_db_connections.");
	fake_end();
}

TEST(users)
{
	struct client *c = begin("max_user_connections = 4\nmax_user_client_connections = 5\n");
	const char *got;

	fake_client_new("many", "zoe");
	got = fake_ask(c, "show users");
	CHECK(strstr(got, " D(anna|3||transaction|9|0|5|0) D(boss|||~|4|0|5|1)") != NULL);
	CHECK(strstr(got, " D(zoe|||~|4|0|5|1) C(SHOW)") != NULL);
	/* a user known from the configuration and from a connection has one row */
	fake_client_new("many", "anna");
	got = fake_ask(c, "show users");
	CHECK(strstr(got, " D(anna|3||transaction|9|0|5|1) D(boss|") != NULL);
	CHECK_TEXT(cell(got, 0, 0), "anna");
	CHECK_TEXT(cell(got, 4, 0), "(none)");
	fake_end();
}

/* SHOW DATABASES and SHOW USERS show the explicit setting only; SHOW POOLS shows the effective value, in session mode. */
TEST(session_link_columns)
{
	struct client *c = begin("session_link = login\nshow_extra_columns = 1\n");
	const char *got;

	fake_server_new("shop", "owner");
	fake_server_new("many", "anna");
	got = fake_ask(c, "show pools");
	CHECK_TEXT(named_cell(got, "pools", 0, "session_link"), "~");	/* anna has another pool mode */
	CHECK_TEXT(named_cell(got, "pools", 1, "session_link"), "~");	/* the pool mode of the console as well */
	CHECK_TEXT(named_cell(got, "pools", 2, "session_link"), "login");
	got = fake_ask(c, "show databases");
	CHECK_TEXT(named_cell(got, "databases", 2, "name"), "shop");
	CHECK_TEXT(named_cell(got, "databases", 2, "session_link"), "~");
	got = fake_ask(c, "show users");
	CHECK_TEXT(named_cell(got, "users", 0, "session_link"), "login");
	CHECK_TEXT(named_cell(got, "users", 1, "session_link"), "~");
	fake_end();
}

UNIT_MAIN
