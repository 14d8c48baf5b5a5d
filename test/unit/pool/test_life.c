/* States, lists and counts of clients and servers, and the assignment of free servers. */
#include "fake.h"

#define TRANSACTION "[pgbouncer]\npool_mode = transaction\nserver_check_query =\n"

TEST(states_have_the_names_that_show_prints)
{
	CHECK_TEXT(client_state_rows[CLIENT_WAITING_CANCEL].name, "waiting_cancel_req");
	CHECK_TEXT(client_state_rows[CLIENT_WAITING_LOGIN].name, "waiting");
	CHECK_TEXT(server_state_rows[SERVER_LOGIN].name, "new");
	CHECK_TEXT(server_state_rows[SERVER_BEING_CANCELED].name, "being_canceled");
}

TEST(a_client_is_counted_from_accept_to_end)
{
	struct fake_client *client;
	struct user *bob;

	fake_start(TRANSACTION "[databases]\napp = host=127.0.0.1\n");
	client = fake_client_new();
	CHECK_INT(fake.pools->clients, 1);
	CHECK_INT(fake.pools->unauthenticated_count[CLIENT_STARTUP], 1);
	bob = user_get(fake.pools, "bob");
	pool_client_join(&client->pooled, fake_pool("app", "bob"), bob);
	CHECK_INT(fake.pools->unauthenticated_count[CLIENT_STARTUP], 0);
	CHECK_INT(bob->clients->used, 1);
	CHECK_INT(database_find(fake.pools, "app")->clients->used, 1);
	pool_client_become(fake.pools, &client->pooled, CLIENT_AUTH, fake.now);
	pools_check(fake.pools);
	fake_leave(client);
	CHECK_INT(fake.pools->clients, 0);
	CHECK_INT(bob->clients->used, 0);
	CHECK_INT(database_find(fake.pools, "app")->clients->used, 0);
	CHECK(fake_pool("app", "bob")->idle_since != 0);
	fake_end();
}

TEST(cancel_requests_count_for_no_limit)
{
	fake_start(TRANSACTION "[databases]\napp = host=127.0.0.1\n");
	fake_cancel("app", "bob");
	CHECK_INT(fake.pools->clients, 0);
	CHECK_INT(database_find(fake.pools, "app")->clients->used, 0);
	CHECK_TEXT(fake_schedule(), "cancel c1");
	CHECK_INT(database_find(fake.pools, "app")->servers->used, 0);
	CHECK_INT(user_get(fake.pools, "bob")->servers->used, 0);
	fake_login(s(1));
	pools_check(fake.pools);
	CHECK(pools_is_without_servers(fake.pools, NULL, false));
	fake_end();
}

TEST(free_server_is_lent_at_once_unless_a_client_waits)
{
	fake_start(TRANSACTION "default_pool_size = 1\n[databases]\napp = host=127.0.0.1\n");
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login(s(1));
	/* The server became free in this turn: the client that queued first is still served first. */
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	fake_release(s(1));
	fake_ask("app", "bob");
	CHECK_TEXT(fake_schedule(), "lend s1 c2");
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c3");
	fake_release(s(1));
	CHECK_TEXT(fake_schedule(), "");
	CHECK(fake_want(c(2)));
	CHECK(c(2)->pooled.link == &s(1)->pooled);
	pools_check(fake.pools);
	CHECK_INT(database_find(fake.pools, "app")->stats.total.server_assignment_count, 4);
	fake_end();
}

TEST(wait_time_is_measured)
{
	fake_start(TRANSACTION "[databases]\napp = host=127.0.0.1\n");
	fake_ask("app", "bob");
	fake_schedule();
	fake_pass(1.5);
	fake_login(s(1));
	fake_schedule();
	CHECK_INT(database_find(fake.pools, "app")->stats.total.wait_time, 1500000);
	fake_end();
}

TEST(connection_limits_refuse_clients)
{
	struct pool *pool;
	struct user *bob, *eve;

	fake_start(TRANSACTION "max_client_conn = 3\nmax_user_client_connections = 2\n"
		   "[databases]\napp = max_db_client_connections=1\nother = host=127.0.0.1\n"
		   "[users]\neve = max_user_client_connections=1\n");
	bob = user_get(fake.pools, "bob");
	eve = user_get(fake.pools, "eve");
	pool = fake_pool("app", "bob");
	CHECK_INT(pool_may_join(pool, bob, false), REASON_NONE);
	fake_join("app", "bob");
	CHECK_INT(pool_may_join(pool, bob, false), REASON_MAX_DB_CLIENTS);
	pool = fake_pool("other", "bob");
	CHECK_INT(pool_may_join(pool, bob, false), REASON_NONE);
	fake_join("other", "bob");
	CHECK_INT(pool_may_join(pool, bob, false), REASON_MAX_USER_CLIENTS);
	CHECK(fake.pools->clients <= fake.pools->conf->settings.max_client_conn);
	CHECK_INT(pool_may_join(pool, eve, false), REASON_NONE);
	fake_join("other", "eve");
	CHECK_INT(pool_may_join(pool, eve, false), REASON_MAX_USER_CLIENTS);
	CHECK(fake.pools->clients <= fake.pools->conf->settings.max_client_conn);
	fake_client_new();
	CHECK(fake.pools->clients > fake.pools->conf->settings.max_client_conn);
	fake_leave(c(3));
	CHECK(fake.pools->clients <= fake.pools->conf->settings.max_client_conn);
	pool->database->disabled = true;
	CHECK_INT(pool_may_join(pool, eve, false), REASON_DATABASE_DISABLED);
	fake.pools->draining = POOL_DRAIN_SERVERS;
	pools_mark_all(fake.pools);
	CHECK_INT(pool_may_join(pool, eve, false), REASON_POOLER_SHUTTING_DOWN);
	/* the admin console accepts connections, and administrators are not counted */
	CHECK_INT(pool_may_join(fake_pool("pgweir", "ann"), user_get(fake.pools, "ann"), false), REASON_NONE);
	CHECK_INT(pool_may_join(fake_pool("pgweir", "bob"), bob, false), REASON_MAX_USER_CLIENTS);
	CHECK_INT(pool_may_join(fake_pool("pgweir", "bob"), bob, true), REASON_NONE);
	fake_end();
}

TEST(most_specific_setting_applies)
{
	struct pool *bob, *eve, *plain;

	fake_start(TRANSACTION "default_pool_size = 7\nquery_wait_timeout = 9\nquery_wait_notify = 0\nmax_db_connections = 50\nserver_lifetime = 100\n"
		   "[databases]\napp = pool_size=3 pool_mode=session query_wait_timeout=8 server_lifetime=20 reserve_pool_size=2\n"
		   "plain = host=127.0.0.1\n"
		   "[users]\neve = pool_size=2 pool_mode=statement query_wait_timeout=7\n");
	bob = fake_pool("app", "bob");
	eve = fake_pool("app", "eve");
	plain = fake_pool("plain", "bob");
	CHECK_INT(plain->allowed.size, 7);
	CHECK_INT(bob->allowed.size, 3);
	CHECK_INT(eve->allowed.size, 2);
	CHECK_INT(plain->allowed.mode, MODE_TRANSACTION);
	CHECK_INT(bob->allowed.mode, MODE_SESSION);
	CHECK_INT(eve->allowed.mode, MODE_STATEMENT);
	CHECK_INT(plain->allowed.reserve, 0);
	CHECK_INT(bob->allowed.reserve, 2);
	CHECK_INT(plain->allowed.server_lifetime, 100 * USEC);
	CHECK_INT(bob->allowed.server_lifetime, 20 * USEC);
	CHECK_INT(bob->database->servers->limit, 50);
	fake.dial_does_nothing = true;
	fake_ask("app", "bob");
	fake_ask("app", "eve");
	fake_ask("plain", "bob");
	fake_schedule();
	CHECK_TEXT(strstr(fake_later(7), "refuse"), "refuse c2 QUERY_WAIT_TIMEOUT, dial c1, dial c3");
	CHECK_TEXT(strstr(fake_later(1), "refuse"), "refuse c1 QUERY_WAIT_TIMEOUT, dial c3");
	CHECK_TEXT(strstr(fake_later(1), "refuse"), "refuse c3 QUERY_WAIT_TIMEOUT");
	fake_end();
}

TEST(database_is_found_by_name)
{
	fake_start(TRANSACTION "[databases]\napp = host=127.0.0.1\nforced = user=carl\n");
	CHECK(database_get(fake.pools, "nosuch", true, fake.now) == NULL);
	CHECK(database_find(fake.pools, "app") != NULL);
	CHECK(database_find(fake.pools, "app") == database_get(fake.pools, "app", true, fake.now));
	CHECK(database_get(fake.pools, "pgweir", true, fake.now)->is_console);
	CHECK(database_find(fake.pools, "pgbouncer") == database_find(fake.pools, "pgweir"));
	CHECK(fake_pool("pgweir", "ann") == fake_pool("pgbouncer", "bob"));
	CHECK(fake_pool("app", "ann") != fake_pool("app", "bob"));
	CHECK(fake_pool("forced", "ann") == fake_pool("forced", "bob"));
	CHECK_TEXT(fake_pool("forced", "ann")->user->name, "carl");
	fake_end();
}

TEST(released_server_is_closed_for_the_right_reason)
{
	fake_start(TRANSACTION "default_pool_size = 4\nserver_lifetime = 100\n[databases]\napp = host=127.0.0.1\n");
	fake_fill("app", "bob", 2);
	CHECK_INT(pool_server_is_spent(&s(1)->pooled, fake.now), REASON_NONE);
	fake_pass(100);
	CHECK_INT(pool_server_is_spent(&s(1)->pooled, fake.now), REASON_SERVER_LIFETIME);
	fake_want(c(1));
	fake_want(c(2));
	CHECK_INT(fake_release(s(1)), REASON_SERVER_LIFETIME);
	/* The lifetimes do not end together: in a pool of four, a quarter of the lifetime passes between two closes. */
	CHECK_INT(pool_server_is_spent(&s(2)->pooled, fake.now), REASON_NONE);
	fake_pass(25);
	CHECK_INT(pool_server_is_spent(&s(2)->pooled, fake.now), REASON_SERVER_LIFETIME);
	database_find(fake.pools, "app")->paused = true;
	CHECK_INT(pool_server_is_spent(&s(2)->pooled, fake.now), REASON_PAUSE_MODE);
	s(2)->pooled.close_reason = REASON_CLOSE_NEEDED;
	CHECK_INT(pool_server_is_spent(&s(2)->pooled, fake.now), REASON_CLOSE_NEEDED);
	fake_end();
}

TEST(a_lifetime_of_zero_means_one_use)
{
	fake_start(TRANSACTION "server_lifetime = 0\n[databases]\napp = host=127.0.0.1\n");
	fake_ask("app", "bob");
	fake_schedule();
	fake_login(s(1));
	CHECK_INT(pool_server_is_spent(&s(1)->pooled, fake.now), REASON_NONE);
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	CHECK_INT(fake_release(s(1)), REASON_SERVER_LIFETIME);
	fake_end();
}

TEST(released_server_beyond_pool_size_and_reserve_is_closed)
{
	fake_start(TRANSACTION "default_pool_size = 3\n[databases]\napp = host=127.0.0.1\n");
	fake_fill("app", "bob", 3);
	fake_want(c(1));
	fake_want(c(2));
	fake_want(c(3));
	fake_reload(TRANSACTION "default_pool_size = 1\nreserve_pool_size = 1\n[databases]\napp = host=127.0.0.1\n");
	CHECK_INT(fake_release(s(1)), REASON_TOO_MANY_SERVERS);
	CHECK_INT(fake_release(s(2)), REASON_NONE);
	fake_end();
}

#define PINS_POOL "[pgbouncer]\npool_mode = transaction\nmax_pinned = 7\npinned_idle_timeout = 30\nserver_check_query =\n" \
	"[databases]\napp = host=127.0.0.1\nfew = host=127.0.0.1 max_pinned=1 pinned_idle_timeout=2\n" \
	"[users]\ncarol = max_pinned=3\n"

/* Makes two clients with a server each. */
static struct pool *start_pinned(void)
{
	fake_start(PINS_POOL);
	for (int id = 1; id <= 2; id++) {
		fake_ask("app", "bob");
		fake_schedule();
		fake_login(s(id));
		fake_schedule();
	}
	return fake_pool("app", "bob");
}

TEST(pin_names)
{
	char text[PIN_TEXT];

	CHECK_TEXT(pins_text(0, text), "");
	CHECK_TEXT(pins_text(PIN_LOCK, text), "advisory lock");
	CHECK_TEXT(pins_text(PIN_LISTENING | PIN_TEMPORARY, text), "temporary objects, listens");
	CHECK(strlen(pins_text((1u << PINS) - 1, text)) < PIN_TEXT);
}

TEST(pinned_clients_of_a_pool_are_counted)
{
	struct pool *pool = start_pinned();
	char text[PIN_TEXT];

	CHECK(!pool_pins_text(pool, text));
	pool_client_pin(&c(1)->pooled, PIN_LOCK | PIN_LISTENING);
	pool_client_pin(&c(2)->pooled, PIN_LISTENING);
	pools_check(fake.pools);
	CHECK_INT(pool->pinned, 2);
	CHECK_TEXT(pool_pins_text(pool, text), "2 of 2 server connections are pinned: 1 advisory lock, 2 listens");
	pool_client_pin(&c(2)->pooled, PIN_TEMPORARY);
	CHECK_INT(pool->pinned, 2);
	pool_client_pin(&c(1)->pooled, 0);
	CHECK_INT(pool->pinned, 1);
	/* the pins of a client are cleared when its server is unlinked */
	pool_unlink(&s(2)->pooled, SERVER_IDLE, false, fake.now);
	CHECK_INT(pool->pinned, 0);
	CHECK_INT(c(2)->pooled.pins, 0);
	pools_check(fake.pools);
	fake_end();
}

TEST(most_specific_pin_limit_applies)
{
	fake_start(PINS_POOL);
	CHECK_INT(fake_pool("app", "bob")->allowed.max_pinned, 7);
	CHECK_INT(fake_pool("few", "bob")->allowed.max_pinned, 1);
	CHECK_INT(fake_pool("few", "carol")->allowed.max_pinned, 3);
	CHECK_INT(fake_pool("app", "bob")->allowed.pinned_idle_timeout, 30 * USEC);
	CHECK_INT(fake_pool("few", "carol")->allowed.pinned_idle_timeout, 2 * USEC);
	fake_end();
}

UNIT_MAIN
