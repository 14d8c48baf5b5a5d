/*
 * Seats: the servers of several worlds under the limits that they share. An idle server goes to the world with waiting clients.
 */
#include "fake.h"

#define HEAD "[pgbouncer]\npool_mode = transaction\nserver_login_retry = 0\n"
#define APP "[databases]\napp = host=h\n"

/* A client of this world sends a query. */
static struct fake_client *ask_in(int world, const char *user)
{
	fake_world(world);
	return fake_ask("app", user);
}

static const char *turn_of(int world)
{
	fake_world(world);
	return fake_schedule();
}

TEST(a_server_that_cannot_be_made_gives_its_seat_back)
{
	fake_start(HEAD APP);
	fake.dial_does_nothing = true;
	fake_ask("app", "u");
	CHECK_TEXT(fake_schedule(), "dial c1");
	CHECK_INT(fake_pool("app", "u")->budget->used, 0);
	CHECK_INT(database_find(fake.pools, "app")->servers->used, 0);
	fake.dial_does_nothing = false;
	CHECK_TEXT(fake_later(1), "dial c1");
	CHECK_INT(fake_pool("app", "u")->budget->used, 1);
	fake_end();
}

TEST(worlds_share_the_pool_size_and_an_idle_server_moves)
{
	fake_start_worlds(HEAD "default_pool_size = 1\n" APP, 2);
	ask_in(0, "u");
	CHECK_TEXT(turn_of(0), "dial c1");
	fake_login(s(1));
	CHECK_TEXT(turn_of(0), "lend s1 c1");
	ask_in(1, "u");
	CHECK_TEXT(turn_of(1), "");
	fake_world(0);
	fake_release(s(1));
	CHECK_TEXT(turn_of(0), "move s1");
	CHECK_TEXT(turn_of(1), "lend s1 c2");
	CHECK_INT(fake_pool("app", "u")->budget->used, 1);
	fake_end();
}

TEST(an_idle_server_moves_as_soon_as_another_world_waits)
{
	fake_start_worlds(HEAD "default_pool_size = 1\n" APP, 3);
	fake_world(2);
	fake_fill("app", "u", 1);
	fake_diary();
	ask_in(0, "u");
	CHECK_TEXT(turn_of(0), "");
	CHECK_TEXT(turn_of(1), "");
	CHECK_TEXT(turn_of(2), "move s1");
	CHECK_TEXT(turn_of(0), "lend s1 c2");
	fake_end();
}

TEST(the_client_that_has_waited_longest_in_any_world_comes_first)
{
	fake_start_worlds(HEAD "default_pool_size = 1\n" APP, 2);
	ask_in(0, "u");
	turn_of(0);
	fake_login(s(1));
	CHECK_TEXT(turn_of(0), "lend s1 c1");
	ask_in(1, "u");
	CHECK_TEXT(turn_of(1), "");
	fake_pass(1);
	ask_in(0, "u");
	CHECK_TEXT(turn_of(0), "");
	/* neither the waiting client of the same world gets it, nor a new client */
	fake_release(s(1));
	CHECK(!fake_want(c(1)));
	CHECK_TEXT(turn_of(0), "move s1");
	CHECK_TEXT(turn_of(1), "lend s1 c2");
	/* and back to the client that waits there now for longest */
	fake_pass(1);
	fake_release(s(1));
	CHECK_TEXT(turn_of(1), "move s1");
	CHECK_TEXT(turn_of(0), "lend s1 c3");
	fake_end();
}

TEST(an_idle_server_closes_for_another_world_under_the_same_limit)
{
	fake_start_worlds(HEAD "max_db_connections = 1\n" APP, 2);
	fake_fill("app", "u", 1);
	fake_diary();
	ask_in(1, "v");
	CHECK_TEXT(turn_of(1), "");
	CHECK_TEXT(turn_of(0), "drop s1 EVICTED");
	CHECK_TEXT(turn_of(1), "dial c2");
	CHECK_INT(database_find(fake.pools, "app")->servers->used, 1);
	fake_end();
	fake_start_worlds(HEAD "max_user_connections = 1\n" APP "b = host=h\n", 2);
	fake_fill("b", "u", 1);
	fake_diary();
	ask_in(1, "u");
	turn_of(1);
	CHECK_TEXT(turn_of(0), "drop s1 EVICTED");
	CHECK_TEXT(turn_of(1), "dial c2");
	fake_end();
	fake_start_worlds(HEAD "max_host_connections = 1\n" APP "b = host=h\n", 2);
	fake_fill("b", "w", 1);
	fake_diary();
	fake_pass(1);
	ask_in(1, "u");
	turn_of(1);
	CHECK_TEXT(turn_of(0), "drop s1 EVICTED");
	CHECK_TEXT(turn_of(1), "dial c2");
	fake_end();
}

/* Sessions have start-up parameters of their own, so the other world opens its own server. */
TEST(in_session_mode_an_idle_server_closes_instead_of_moving)
{
	fake_start_worlds("[pgbouncer]\npool_mode = session\ndefault_pool_size = 1\n" APP, 2);
	fake_fill("app", "u", 1);
	fake_diary();
	ask_in(1, "u");
	CHECK_TEXT(turn_of(1), "");
	CHECK_TEXT(turn_of(0), "drop s1 EVICTED");
	CHECK_TEXT(turn_of(1), "dial c2");
	fake_end();
}

TEST(worlds_keep_one_minimum)
{
	fake_start_worlds("[pgbouncer]\npool_mode = transaction\nmin_pool_size = 2\n[databases]\napp = host=h user=u\n", 3);
	for (int round = 0; round < 6; round++) {
		fake_world(round % 3);
		fake_later(1);
		for (int i = 1; i <= fake.server_count; i++) {
			if (s(i)->pooled.state == SERVER_LOGIN)
				fake_login(s(i));
		}
	}
	CHECK_INT(fake.server_count, 2);
	fake_end();
}

TEST(worlds_share_the_limit_of_clients)
{
	fake_start_worlds(HEAD "max_user_client_connections = 2\n" APP, 2);
	fake_join("app", "u");
	fake_world(1);
	CHECK_INT(pool_may_join(fake_pool("app", "u"), user_get(fake.pools, "u"), false), REASON_NONE);
	fake_join("app", "u");
	CHECK_INT(pool_may_join(fake_pool("app", "u"), user_get(fake.pools, "u"), false), REASON_MAX_USER_CLIENTS);
	fake_world(0);
	CHECK_INT(pool_may_join(fake_pool("app", "u"), user_get(fake.pools, "u"), false), REASON_MAX_USER_CLIENTS);
	CHECK_INT(fake.shared->clients.used, 2);
	fake_end();
}

UNIT_MAIN
