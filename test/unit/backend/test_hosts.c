/*
 * The order in which a dial tries the hosts of a list: each host once, hosts that failed recently last; load_balance_hosts sets the first host of the
 * next dial.
 */
#include "backend/hosts.h"
#include "backend/server_info.h"
#include "unit.h"

#define RETRY (15 * USEC)

static struct conf_database conf;
static struct pools pools;
static struct database database = { .conf = &conf };
static struct server_info info;
static struct pool pool = { .pools = &pools, .database = &database, .server_cache = &info };
static struct conf settings = { .settings.server_login_retry = RETRY };
static struct world world = { .conf = &settings };
static struct server server;
static struct dial dial;

static char list[200];
static struct conf_host hosts[8];

/* Sets the list of the database, as conf.c does. */
static void set_list(const char *text)
{
	conf.hosts = hosts;
	conf.host_count = 0;
	snprintf(list, sizeof(list), "%s", text);
	for (char *name = strtok(list, ","); name; name = strtok(NULL, ","))
		hosts[conf.host_count++] = (struct conf_host){ .name = name, .port = 5432 };
	if (conf.host_count == 0)
		hosts[conf.host_count++] = (struct conf_host){ .port = 5432 };
}

static void begin(const char *text, enum load_balance balance)
{
	conf = (struct conf_database){ .load_balance_hosts = balance };
	set_list(text);
	memset(&info, 0, sizeof(info));
	world.now = 1000 * USEC;
	pool.generation = 7;
	server = (struct server){ .pooled.pool = &pool, .peer.world = &world, .dial = &dial };
	memset(&dial, 0, sizeof(dial));
}

static void dial_over(void)
{
	mem_free(dial.order);
	memset(&dial, 0, sizeof(dial));
}

static void end(void)
{
	dial_over();
	hosts_clear(&info.hosts);
	CHECK(!pools.hosts);
}

static void dial_begins(void)
{
	dial_over();
	dial.generation = pool.generation;
	CHECK(hosts_begin(&server));
	CHECK_INT(dial.port, 5432);
}

/* Returns all hosts that one dial tries if none works and none is known to fail. */
static const char *tried(void)
{
	static char seen[200];
	size_t size = 0;

	dial_begins();
	do {
		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%s", size ? " " : "", dial.host);
	} while (hosts_next(&server));
	CHECK_INT(hosts_left(&server), 0);
	return seen;
}

/* A dial connects to this host, or fails. */
static void note(const char *host, bool works)
{
	dial_begins();
	while (strcmp(dial.host, host) != 0)
		if (!hosts_next(&server)) {
			UNIT_FAIL("no host %s", host);
			return;
		}
	hosts_note(&server, works ? HOST_WORKS : HOST_FAILS);
}

TEST(hosts_are_tried_one_after_another)
{
	begin("a,b,c", BALANCE_DISABLE);
	CHECK_TEXT(tried(), "a b c");
	CHECK_TEXT(tried(), "a b c");
	dial_begins();
	CHECK_INT(hosts_left(&server), 2);
	CHECK(hosts_next(&server));
	CHECK_INT(hosts_left(&server), 1);
	end();
}

TEST(round_robin)
{
	begin("a,b,c", BALANCE_ROUND_ROBIN);
	CHECK_TEXT(tried(), "a b c");
	CHECK_TEXT(tried(), "b c a");
	CHECK_TEXT(tried(), "c a b");
	CHECK_TEXT(tried(), "a b c");
	end();
}

TEST(one_host)
{
	begin("a", BALANCE_ROUND_ROBIN);
	CHECK_TEXT(tried(), "a");
	note("a", false);
	/* there is no other host */
	CHECK_TEXT(tried(), "a");
	end();
}

TEST(empty_host_is_the_socket_directory)
{
	begin("", BALANCE_DISABLE);
	CHECK_TEXT(tried(), "/tmp");
	end();
	begin("", BALANCE_DISABLE);
	settings.settings.unix_socket_dir = "/run/x";
	CHECK_TEXT(tried(), "/run/x");
	settings.settings.unix_socket_dir = NULL;
	end();
}

TEST(failed_host_comes_last_for_a_while)
{
	begin("a,b,c", BALANCE_ROUND_ROBIN);
	note("a", false);
	CHECK_TEXT(tried(), "b c a");
	CHECK_TEXT(tried(), "c b a");
	world.now += RETRY - 1;
	CHECK_TEXT(tried(), "b c a");
	world.now++;
	CHECK_TEXT(tried(), "c a b");
	end();
}

TEST(recovered_host)
{
	begin("a,b", BALANCE_ROUND_ROBIN);
	note("a", false);
	CHECK_TEXT(tried(), "b a");
	note("a", true);
	CHECK_TEXT(tried(), "a b");
	CHECK_TEXT(tried(), "b a");
	end();
}

TEST(without_round_robin_the_working_host_is_kept)
{
	begin("a,b,c", BALANCE_DISABLE);
	note("b", true);
	CHECK_TEXT(tried(), "b c a");
	/* the failure of another host changes nothing */
	note("c", false);
	CHECK_TEXT(tried(), "b a c");
	world.now += RETRY;
	CHECK_TEXT(tried(), "b c a");
	note("b", false);
	CHECK_TEXT(tried(), "c a b");
	world.now += RETRY;
	CHECK_TEXT(tried(), "c a b");
	end();
}

TEST(unreachable_host_is_known_to_all_pools)
{
	struct host *a;

	begin("a,b", BALANCE_DISABLE);
	note("a", false);
	HASH_FIND_STR(pools.hosts, "a:5432", a);
	REQUIRE(a);
	CHECK_INT(a->unreachable_since, world.now);
	note("a", true);
	CHECK_INT(a->unreachable_since, 0);
	/* the host has accepted the connection: a later error may concern this user only */
	dial_begins();
	hosts_note(&server, HOST_REACHED);
	hosts_note(&server, HOST_FAILS);
	CHECK_INT(a->unreachable_since, 0);
	CHECK_TEXT(tried(), "b a");
	/* and the result of another pool applies here */
	world.now += RETRY;
	CHECK_TEXT(tried(), "b a");
	note("a", true);
	CHECK_TEXT(tried(), "a b");
	a->unreachable_since = world.now;
	CHECK_TEXT(tried(), "b a");
	end();
}

TEST(changed_list)
{
	begin("a,b,c", BALANCE_DISABLE);
	dial_begins();
	/* a RELOAD has shortened the list: the results of this dial are ignored */
	set_list("x");
	pool.generation++;
	CHECK(!hosts_next(&server));
	hosts_note(&server, HOST_FAILS);
	hosts_note(&server, HOST_REACHED);
	CHECK(hosts_note_address(&server, false));
	CHECK_TEXT(tried(), "x");
	end();
}

/* A shorter list with the same generation: indexes are checked against the list each time. */
TEST(index_beyond_a_shorter_list)
{
	begin("a,b,c", BALANCE_DISABLE);
	dial_begins();
	set_list("a,b");
	CHECK(hosts_next(&server));
	CHECK(!hosts_next(&server));
	end();
}

/* ---- addresses of a name ---- */

static struct address addresses[20];

static void set_address(int i)
{
	char text[32];

	snprintf(text, sizeof(text), "10.0.0.%d", i);
	CHECK(address_from_ip(&addresses[i], text, 5432));
	brief_address_of(&server.peer.remote, &addresses[i], 5432);
}

static bool note_address(int i, bool works)
{
	set_address(i);
	return hosts_note_address(&server, works);
}

/* Returns the last parts of these addresses, in the order of the dial. */
static const char *ordered(int count)
{
	static struct address own[20];
	static char seen[100];
	size_t size = 0;

	for (int i = 0; i < count; i++) {
		set_address(i);
		own[i] = addresses[i];
	}
	dial.addresses = own;
	dial.address_count = count;
	hosts_order_addresses(&server);
	for (int i = 0; i < count; i++)
		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%d", i ? " " : "",
					 ((const uint8_t *)&own[i].u.v4.sin_addr)[3]);
	return seen;
}

TEST(addresses_that_failed_come_last)
{
	begin("a", BALANCE_DISABLE);
	dial_begins();
	CHECK_TEXT(ordered(4), "0 1 2 3");
	/* a result is reported only if it is new */
	CHECK(note_address(0, false) && !note_address(0, false));
	CHECK(note_address(2, false));
	CHECK(!note_address(1, true));
	CHECK_TEXT(ordered(4), "1 3 0 2");
	CHECK(note_address(0, true) && !note_address(0, true));
	CHECK_TEXT(ordered(4), "0 1 3 2");
	world.now += RETRY;
	CHECK_TEXT(ordered(4), "0 1 2 3");
	end();
}

TEST(number_of_remembered_addresses_is_limited)
{
	begin("a", BALANCE_DISABLE);
	dial_begins();
	for (int i = 0; i < 17; i++) {
		note_address(i, false);
		world.now++;
	}
	/* the oldest failure is forgotten when a new failure is stored */
	CHECK_TEXT(ordered(18), "0 17 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
	end();
}

UNIT_MAIN
