/*
 * The order in which a dial tries the hosts of a list: each host once, hosts that failed recently last; load_balance_hosts sets the first host of the
 * next dial.
 */
#include "backend/dial.h"

#include "conn/server.h"
#include "unit.h"
#include "whole.h"

#define RETRY (15 * USEC)
#define LIST(hosts, balance) "[databases]\nd = " hosts " port=5432 user=u load_balance_hosts=" balance HOUSE_SETTINGS "auth_type=any\nserver_login_retry=15\n"
#define A_B_C "host=127.0.0.1,127.0.0.2,127.0.0.3"

static struct pool *pool;
static struct server *server;

static void begin(const char *ini)
{
	struct pools *pools;

	whole_open(ini);
	whole.servers_answer = false;
	pools = whole.world->pools;
	pool = pool_get(database_get(pools, "d", true, whole.world->now), user_get(pools, "u"), false, whole.world->now);
	server = NULL;
}

/* An administrator ends the dial, which says nothing about its host. */
static void dial_over(void)
{
	if (server)
		server_end(server, REASON_ADMIN_KILL, NULL);
	house_settle(&whole);
	server = NULL;
}

static void pass(usec_t time)
{
	dial_over();
	house_tick(&whole, time);
}

static void end(void)
{
	dial_over();
	whole_close();
}

static void dial_begins(void)
{
	dial_over();
	dial_begin(pool, whole.world, NULL, NULL);
	server = whole_last_server();
	CHECK(server && server->dial && server->dial->order);
	CHECK_INT(server->dial->port, 5432);
}

/* Returns the hosts in the order in which the next dial tries them: "a" for 127.0.0.1, "b" for 127.0.0.2, ... */
static const char *tried(void)
{
	static char seen[20];
	const struct conf_database *conf = pool->database->conf;
	size_t size = 0;

	dial_begins();
	CHECK_TEXT(server->dial->host, conf->hosts[server->dial->order[0]].name);
	for (unsigned i = 0; i < server->dial->order_count; i++) {
		const char *name = conf->hosts[server->dial->order[i]].name;

		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%c", size ? " " : "", name[strlen(name) - 1] - '1' + 'a');
	}
	return seen;
}

/* A dial connects to this host, or fails. */
static void note(char host, bool works)
{
	dial_begins();
	while (server->dial->order[server->dial->order_at] != (unsigned)(host - 'a'))
		if (++server->dial->order_at == server->dial->order_count) {
			UNIT_FAIL("no host %c", host);
			return;
		}
	hosts_note(server, works ? HOST_WORKS : HOST_FAILS);
}

TEST(hosts_are_tried_one_after_another)
{
	begin(LIST(A_B_C, "disable"));
	CHECK_TEXT(tried(), "a b c");
	CHECK_TEXT(tried(), "a b c");
	/* each host once, and then none */
	dial_begins();
	for (int i = 0; i < 2; i++) {
		dial_give_way(server, REASON_CONNECT_FAILED, "down");
		house_settle(&whole);
		CHECK_TEXT(server->dial->host, i == 0 ? "127.0.0.2" : "127.0.0.3");
	}
	dial_give_way(server, REASON_CONNECT_FAILED, "down");
	CHECK(peer_is_ending(&server->peer));
	end();
}

TEST(round_robin)
{
	begin(LIST(A_B_C, "round-robin"));
	CHECK_TEXT(tried(), "a b c");
	CHECK_TEXT(tried(), "b c a");
	CHECK_TEXT(tried(), "c a b");
	CHECK_TEXT(tried(), "a b c");
	end();
}

TEST(one_host)
{
	begin(LIST("host=127.0.0.1", "round-robin"));
	CHECK_TEXT(tried(), "a");
	note('a', false);
	/* there is no other host */
	CHECK_TEXT(tried(), "a");
	end();
}

TEST(empty_host_is_the_socket_directory)
{
	begin("[databases]\nd = port=5432 user=u" HOUSE_SETTINGS "auth_type=any\nunix_socket_dir=/nonexistent\n");
	dial_begin(pool, whole.world, NULL, NULL);
	house_settle(&whole);
	CHECK(pool->login_failed);
	CHECK(HASH_COUNT(pool->pools->hosts) == 1 && strcmp(pool->pools->hosts->key, "/nonexistent:5432") == 0);
	end();
	begin("[databases]\nd = port=5432 user=u" HOUSE_SETTINGS "auth_type=any\n");
	dial_begin(pool, whole.world, NULL, NULL);
	CHECK(HASH_COUNT(pool->pools->hosts) == 1 && strcmp(pool->pools->hosts->key, "/tmp:5432") == 0);
	end();
}

TEST(failed_host_comes_last_for_a_while)
{
	begin(LIST(A_B_C, "round-robin"));
	note('a', false);
	CHECK_TEXT(tried(), "b c a");
	CHECK_TEXT(tried(), "c b a");
	pass(RETRY - 1);
	CHECK_TEXT(tried(), "b c a");
	pass(1);
	CHECK_TEXT(tried(), "c a b");
	end();
}

TEST(recovered_host)
{
	begin(LIST("host=127.0.0.1,127.0.0.2", "round-robin"));
	note('a', false);
	CHECK_TEXT(tried(), "b a");
	note('a', true);
	CHECK_TEXT(tried(), "a b");
	CHECK_TEXT(tried(), "b a");
	end();
}

TEST(without_round_robin_the_working_host_is_kept)
{
	begin(LIST(A_B_C, "disable"));
	note('b', true);
	CHECK_TEXT(tried(), "b c a");
	/* the failure of another host changes nothing */
	note('c', false);
	CHECK_TEXT(tried(), "b a c");
	pass(RETRY);
	CHECK_TEXT(tried(), "b c a");
	note('b', false);
	CHECK_TEXT(tried(), "c a b");
	pass(RETRY);
	CHECK_TEXT(tried(), "c a b");
	end();
}

TEST(unreachable_host_is_known_to_all_pools)
{
	struct host *a;

	begin(LIST("host=127.0.0.1,127.0.0.2", "disable"));
	note('a', false);
	HASH_FIND_STR(pool->pools->hosts, "127.0.0.1:5432", a);
	REQUIRE(a);
	CHECK_INT(a->unreachable_since, whole.world->now);
	note('a', true);
	CHECK_INT(a->unreachable_since, 0);
	/* the host has accepted the connection: a later error may concern this user only */
	dial_begins();
	hosts_note(server, HOST_REACHED);
	hosts_note(server, HOST_FAILS);
	CHECK_INT(a->unreachable_since, 0);
	CHECK_TEXT(tried(), "b a");
	/* and the result of another pool applies here */
	pass(RETRY);
	CHECK_TEXT(tried(), "b a");
	note('a', true);
	CHECK_TEXT(tried(), "a b");
	a->unreachable_since = whole.world->now;
	CHECK_TEXT(tried(), "b a");
	end();
}

/* A RELOAD has changed the list: the results of this dial are ignored. */
TEST(changed_list)
{
	begin(LIST(A_B_C, "disable"));
	dial_begins();
	pool->generation++;
	hosts_note(server, HOST_FAILS);
	hosts_note(server, HOST_REACHED);
	CHECK(hosts_note_address(server, false));
	dial_give_way(server, REASON_CONNECT_FAILED, "down");
	house_settle(&whole);
	CHECK_INT(pool->server_count[SERVER_LOGIN], 0);
	server = NULL;
	CHECK_TEXT(tried(), "a b c");
	end();
}

/* ---- addresses of a name ---- */

static struct address addresses[20];

static void set_address(int i)
{
	char text[32];

	snprintf(text, sizeof(text), "10.0.0.%d", i);
	CHECK(address_from_ip(&addresses[i], text, 5432));
	brief_address_of(&server->peer.remote, &addresses[i], 5432);
}

static bool note_address(int i, bool works)
{
	set_address(i);
	return hosts_note_address(server, works);
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
	server->dial->addresses = own;
	server->dial->address_count = count;
	hosts_order_addresses(server);
	server->dial->addresses = &server->dial->one;
	server->dial->address_count = 1;
	for (int i = 0; i < count; i++)
		size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%d", i ? " " : "",
					 ((const uint8_t *)&own[i].u.v4.sin_addr)[3]);
	return seen;
}

TEST(addresses_that_failed_come_last)
{
	begin(LIST("host=127.0.0.1", "disable"));
	dial_begins();
	CHECK_TEXT(ordered(4), "0 1 2 3");
	/* a result is reported only if it is new */
	CHECK(note_address(0, false) && !note_address(0, false));
	CHECK(note_address(2, false));
	CHECK(!note_address(1, true));
	CHECK_TEXT(ordered(4), "1 3 0 2");
	CHECK(note_address(0, true) && !note_address(0, true));
	CHECK_TEXT(ordered(4), "0 1 3 2");
	whole.world->now += RETRY;
	CHECK_TEXT(ordered(4), "0 1 2 3");
	end();
}

TEST(number_of_remembered_addresses_is_limited)
{
	begin(LIST("host=127.0.0.1", "disable"));
	dial_begins();
	for (int i = 0; i < 17; i++) {
		note_address(i, false);
		whole.world->now++;
	}
	/* the oldest failure is forgotten when a new failure is stored */
	CHECK_TEXT(ordered(18), "0 17 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
	end();
}

UNIT_MAIN
