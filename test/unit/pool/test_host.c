/*
 * max_host_connections: the servers of all pools at a host, which pool gets room there, and which pool gives up a server.
 */
#include "fake.h"
#include "pool/rows.h"

#define HEAD "[pgbouncer]\npool_mode = transaction\nserver_idle_timeout = 0\nserver_login_retry = 15\nserver_check_delay = 100\n"
#define BUDGET(n) HEAD "max_host_connections = " n "\n"
#define THREE "[databases]\na = host=h\nb = host=h\nc = host=h\n"
#define LISTS "[databases]\na = host=h\nb = host=i\nc = host=h,i\n"

static const struct host *host(const char *key)
{
	struct host *found;

	HASH_FIND_STR(fake.pools->hosts, key, found);
	return found;
}

/* The client of this server ends its transaction and begins another, with the same server. */
static void ask_again(struct fake_server *server)
{
	struct fake_client *client = fake_client_of(server->pooled.link);

	CHECK_INT(fake_release(server), REASON_NONE);
	CHECK(fake_want(client) && server->pooled.link == &client->pooled);
}

TEST(servers_are_counted_at_hosts)
{
	fake_start(HEAD "[databases]\na = host=h,i port=1\nb = host=h port=1\nc = host=h port=3\nd =\n");
	fake_fill("a", "u", 1);
	fake_fill("b", "u", 2);
	fake_fill("c", "u", 1);
	fake_fill("d", "u", 1);
	CHECK_INT(host("h:1")->servers->used, 3);
	CHECK_INT(host("h:3")->servers->used, 1);
	CHECK_INT(host("i:1")->servers->used, 0);
	CHECK_INT(host("/tmp:5432")->servers->used, 1);
	/* cancel requests do not count */
	fake_cancel("b", "u");
	fake_schedule();
	CHECK_INT(host("h:1")->servers->used, 3);
	/* the dial goes on to another host */
	pool_server_set_host(&s(1)->pooled, fake_pool("a", "u")->places[1].host);
	CHECK_INT(host("h:1")->servers->used, 2);
	CHECK_INT(host("i:1")->servers->used, 1);
	/* a handed over server whose host is in no list */
	CHECK(pool_server_restore_host(&s(1)->pooled, "j:9"));
	CHECK_INT(host("j:9")->servers->used, 1);
	fake_server_dies(s(1), REASON_SERVER_CRASHED);
	CHECK(!host("j:9"));
	fake_end();
}

TEST(pool_waits_for_a_full_host)
{
	fake_start(BUDGET("2") "[databases]\na = host=h\nb = host=h\nc = host=h port=1\n");
	fake_fill("a", "u", 2);
	fake_want(c(1));
	fake_want(c(2));
	fake_ask("b", "u");
	fake_ask("c", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "dial c4");
	CHECK_INT(fake_pool("b", "u")->held_by, LIMIT_HOST);
	/* cancel requests are not held */
	fake_cancel("b", "u");
	CHECK_TEXT(fake_schedule(), "cancel c5");
	fake_server_dies(s(1), REASON_SERVER_CRASHED);
	CHECK_TEXT(fake_schedule(), "dial c3");
	CHECK_INT(fake.pools->bell.shortages, 0);
	fake_end();
}

TEST(waiting_ends_with_the_client_or_its_pool)
{
	fake_start(BUDGET("1") "pool_idle_timeout = 5\n" THREE);
	fake_fill("a", "u", 1);
	fake_want(c(1));
	fake_ask("b", "u");
	fake_schedule();
	CHECK_INT(fake.pools->bell.shortages, 1);
	fake_leave(c(2));
	fake_schedule();
	CHECK_INT(fake.pools->bell.shortages, 0);
	fake_later(10);
	CHECK_INT(fake.pools->bell.shortages, 0);
	fake_end();
}

TEST(idle_server_makes_room)
{
	fake_start(BUDGET("3") THREE);
	fake_fill("a", "u", 3);
	fake_ask("b", "u");
	fake_diary();
	/* a has at least two servers more: at once */
	CHECK_TEXT(fake_schedule(), "drop s1 EVICTED, dial c4");
	fake_login(s(4));
	CHECK_TEXT(fake_schedule(), "lend s4 c4");
	/* b may have one server more than a, but a server that is idle for a while is free for any pool */
	fake_ask("b", "u");
	CHECK_TEXT(fake_schedule(), "");
	CHECK_TEXT(fake_later(0.4), "");
	CHECK_TEXT(fake_later(0.1), "drop s2 EVICTED, dial c5");
	fake_end();
}

TEST(pool_that_waits_keeps_its_idle_servers)
{
	fake_start("[pgbouncer]\npool_mode = session\nmax_host_connections = 2\nserver_login_retry = 0\n" THREE);
	fake_fill("a", "u", 2);
	fake_pass(10);
	fake_join("a", "u")->pooled.startup = (const struct params *)(const void *)&fake;
	fake_want(c(3));
	fake_ask("b", "u");
	fake_diary();
	/* its own idle server does not fit */
	CHECK_TEXT(fake_schedule(), "drop s1 REPLACED, dial c3");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c3, drop s2 EVICTED, dial c4");
	fake_end();
}

TEST(busy_server_is_given_up_at_its_release)
{
	fake_start(BUDGET("3") THREE);
	fake_fill("a", "u", 3);
	for (int i = 1; i <= 3; i++)
		fake_want(c(i));
	fake_ask("a", "u");
	fake_ask("b", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_release(s(2)), REASON_EVICTED);
	/* room goes to b, although the client of a has waited longer */
	CHECK_TEXT(fake_schedule(), "dial c5");
	/* a has one server more than b: it keeps it for its turn */
	CHECK_INT(fake_release(s(1)), REASON_NONE);
	CHECK_TEXT(fake_schedule(), "lend s1 c4");
	fake_end();
}

TEST(new_server_serves_before_it_is_given_up)
{
	fake_start(BUDGET("2") THREE);
	fake_ask("a", "u");
	fake_ask("a", "u");
	fake_schedule();
	fake_login(s(1));
	fake_schedule();
	fake_login(s(2));
	fake_ask("b", "u");
	CHECK_INT(pool_server_is_spent(&s(2)->pooled, fake.now), REASON_NONE);
	fake_schedule();
	CHECK_INT(fake_release(s(2)), REASON_EVICTED);
	fake_end();
}

TEST(pools_take_turns)
{
	fake_start(BUDGET("1") THREE);
	fake_ask("a", "u");
	fake_ask("b", "u");
	fake_ask("c", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_login(s(1));
	CHECK_TEXT(fake_schedule(), "lend s1 c1");
	fake_pass(0.4);
	ask_again(s(1));
	fake_pass(0.1);
	CHECK_INT(fake_release(s(1)), REASON_EVICTED);
	fake_want(c(1));
	/* the pool that waits longest comes first, and a comes last */
	CHECK_TEXT(fake_schedule(), "dial c2");
	fake_login(s(2));
	CHECK_TEXT(fake_schedule(), "lend s2 c2");
	fake_pass(0.5);
	CHECK_INT(fake_release(s(2)), REASON_EVICTED);
	CHECK_TEXT(fake_schedule(), "dial c3");
	fake_login(s(3));
	CHECK_TEXT(fake_schedule(), "lend s3 c3");
	fake_pass(0.5);
	CHECK_INT(fake_release(s(3)), REASON_EVICTED);
	CHECK_TEXT(fake_schedule(), "dial c1");
	fake_end();
}

/* Clients choose the names of the databases of "*": those that no server has admitted count as one pool. */
TEST(invented_databases_share_a_quarter)
{
	fake_start(BUDGET("8") "[databases]\na = host=h\n* = host=h\n");
	fake_fill("a", "u", 7);
	fake_ask("x1", "u");
	fake_diary();
	/* one has free room; the servers of a are in use too often to be closed */
	CHECK_TEXT(fake_schedule(), "dial c8");
	fake_ask("x2", "u");
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("x2", "u")->held_by, LIMIT_HOST);
	fake_ask("x3", "u");
	CHECK_TEXT(fake_later(0.4), "");
	/* idle for long, up to a quarter */
	CHECK_TEXT(fake_later(0.2), "drop s1 EVICTED, dial c10");
	CHECK_TEXT(fake_later(3), "");
	CHECK_INT(host("h:5432")->trials->used, 2);
	CHECK_INT(fake_pool("x2", "u")->held_by, LIMIT_HOST);
	/* a may have all other room */
	fake_server_dies(s(8), REASON_SERVER_CRASHED);
	fake_server_dies(s(9), REASON_SERVER_CRASHED);
	CHECK_INT(host("h:5432")->trials->used, 0);
	fake_end();
}

TEST(invented_databases_take_turns_as_one_pool)
{
	fake_start(BUDGET("4") "[databases]\na = host=h\n* = host=h\n");
	fake_fill("a", "u", 4);
	for (int i = 1; i <= 4; i++)
		fake_want(c(i));
	fake_ask("a", "u");
	fake_ask("x1", "u");
	fake_ask("x2", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	/* a keeps its servers for its turn, although it has four more than x1 */
	CHECK_INT(fake_release(s(1)), REASON_NONE);
	CHECK_TEXT(fake_schedule(), "lend s1 c5");
	fake_pass(2);
	CHECK_INT(fake_release(s(1)), REASON_EVICTED);
	CHECK_TEXT(fake_schedule(), "dial c6");
	CHECK_INT(host("h:5432")->trials->used, 1);
	/* x2 waits until the trial of x1 is over */
	fake_pass(3);
	ask_again(s(2));
	fake_login(s(5));
	CHECK_INT(host("h:5432")->trials->used, 0);
	CHECK(database_find(fake.pools, "x1")->served);
	CHECK_INT(fake_release(s(3)), REASON_EVICTED);
	fake_end();
}

TEST(turn_is_longer_with_more_servers)
{
	fake_start(BUDGET("3") THREE);
	fake_fill("a", "u", 2);
	fake_want(c(1));
	fake_want(c(2));
	fake_ask("b", "u");
	fake_schedule();
	fake_login(s(3));
	fake_schedule();
	fake_ask("b", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	fake_pass(0.9);
	ask_again(s(1));
	fake_pass(0.1);
	CHECK_INT(fake_release(s(1)), REASON_EVICTED);
	CHECK_TEXT(fake_schedule(), "dial c4");
	fake_end();
}

/* The listener and servers of replication clients take no turns: without others the pool has no server. */
TEST(servers_that_take_no_turns_do_not_count)
{
	fake_start(BUDGET("3") THREE);
	fake_fill("a", "u", 1);
	fake_want(c(1));
	pool_unlink(&s(1)->pooled, SERVER_LISTENING, false, fake.now);
	fake_fill("b", "u", 2);
	fake_want(c(2));
	fake_want(c(3));
	fake_pass(0.9);
	fake_want(c(1));
	fake_schedule();
	CHECK_INT(fake_pool("a", "u")->held_by, LIMIT_HOST);
	CHECK_INT(fake_release(s(2)), REASON_EVICTED);
	fake_end();
}

TEST(list_has_room_if_one_host_has_room)
{
	fake_start(BUDGET("1") LISTS);
	fake_fill("a", "u", 1);
	fake_want(c(1));
	fake_ask("c", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "dial c2");
	CHECK_INT(host("i:5432")->servers->used, 1);
	fake_login(s(2));
	fake_schedule();
	fake_ask("c", "v");
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("c", "v")->held_by, LIMIT_HOST);
	/* a server at the other host ends */
	fake_server_dies(s(1), REASON_SERVER_CRASHED);
	CHECK_TEXT(fake_schedule(), "dial c3");
	fake_end();
}

TEST(failed_host_is_no_room)
{
	fake_start(BUDGET("1") LISTS);
	fake_fill("a", "u", 1);
	fake_want(c(1));
	fake_ask("b", "u");
	fake_schedule();
	fake_server_dies(s(2), REASON_CONNECT_FAILED);
	fake_leave(c(2));
	((struct host *)(uintptr_t)host("i:5432"))->unreachable_since = fake.now;
	fake_ask("c", "u");
	fake_diary();
	CHECK_TEXT(fake_schedule(), "");
	CHECK_INT(fake_pool("c", "u")->held_by, LIMIT_HOST);
	/* the host may work again */
	CHECK_TEXT(fake_later(15), "notify c3 15, dial c3");
	fake_end();
}

TEST(min_pool_size_respects_the_budget)
{
	fake_start(BUDGET("2") "min_pool_size = 2\n" THREE);
	fake_fill("a", "u", 2);
	fake_join("b", "u");
	fake_diary();
	for (int i = 0; i < 10; i++)
		CHECK_TEXT(fake_later(0.3), "");
	/* nor does it come before a pool that waits */
	fake_want(c(1));
	fake_want(c(2));
	fake_ask("c", "u");
	fake_schedule();
	fake_server_dies(s(1), REASON_SERVER_CRASHED);
	CHECK_TEXT(fake_later(0.3), "dial c4");
	fake_end();
}

TEST(reload_changes_the_budget)
{
	fake_start(BUDGET("4") THREE);
	fake_fill("a", "u", 4);
	fake_want(c(1));
	fake_diary();
	fake_reload(BUDGET("2") THREE);
	CHECK_TEXT(fake_later(0.1), "drop s1 TOO_MANY_SERVERS, drop s2 TOO_MANY_SERVERS");
	fake_want(c(2));
	fake_reload(BUDGET("1") THREE);
	CHECK_TEXT(fake_later(0.1), "");
	CHECK_INT(fake.pools->hosts_exceeded, 1);
	CHECK_INT(fake_release(s(4)), REASON_TOO_MANY_SERVERS);
	fake_later(0.1);
	CHECK_INT(fake.pools->hosts_exceeded, 0);
	fake_ask("b", "u");
	CHECK_TEXT(fake_schedule(), "");
	fake_reload(HEAD THREE);
	CHECK_TEXT(fake_schedule(), "dial c5");
	CHECK_INT(fake.pools->bell.shortages, 0);
	fake_end();
}

TEST(holders_in_words)
{
	char text[500];

	fake_start(BUDGET("8") "[databases]\na = host=h\nb = host=h\nc = host=h\nd = host=h\ne = host=h,i\nf = host=i\n");
	fake_fill("a", "u", 1);
	fake_fill("b", "v", 3);
	fake_fill("c", "u", 2);
	fake_fill("d", "u", 2);
	CHECK(fake_want(c(2)));
	fake_pass(1);
	CHECK(fake_want(c(1)));
	fake_ask("e", "u");
	fake_schedule();
	fake_fill("f", "u", 7);
	CHECK_TEXT(pool_hosts_text(fake_pool("a", "u"), text, sizeof(text)),
		   "the host h:5432 has 8 of 8 server connections (max_host_connections): 3 of b/v, 2 of c/u, 2 of d/u");
	CHECK_TEXT(pool_hosts_text(fake_pool("e", "u"), text, sizeof(text)),
		   "the host h:5432 has 8 of 8 server connections (max_host_connections): 3 of b/v, 2 of c/u, 2 of d/u; "
		   "the host i:5432 has 8 of 8 server connections (max_host_connections): 7 of f/u, 1 of e/u");
	CHECK_TEXT(pool_hosts_text(fake_pool("e", "u"), text, 20), "the host h:5432 has");
	CHECK(pool_longest_in_use(fake_pool("a", "u"), LIMIT_HOST) == c(2)->pooled.link);
	fake_end();
}

UNIT_MAIN
