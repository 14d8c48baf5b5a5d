/*
 * Turns of look-ups: limits on running look-ups in total, per pool, per address and per database, and the choice of the next look-up when one ends. A
 * look-up that waits for one limit does not count towards another.
 */
#include "auth/lookup_turns.h"
#include "base/mem.h"
#include "unit.h"

#define MOST 40
#define POOLS 8

static struct conf conf;
static struct budget of_database[POOLS];
static struct database databases[POOLS];
static struct shared shared;
static struct pools pools = { .conf = &conf, .shared = &shared };
static struct pool pool[POOLS];
static struct lookup_turns turns;
static struct lookup_turn turn[MOST];
static struct lookup_asker asker[MOST];
static char granted[200];

static void on_granted(struct lookup_turn *t)
{
	size_t used = strlen(granted);

	snprintf(granted + used, sizeof(granted) - used, "%s%d", used ? " " : "", (int)(t - turn));
}

static void begin(int most)
{
	memset(databases, 0, sizeof(databases));
	memset(pool, 0, sizeof(pool));
	conf.settings.max_auth_query_connections = most;
	budget_init(&shared.lookup_servers, most);
	pools.internal_servers_missed = false;
	for (int i = 0; i < POOLS; i++) {
		budget_init(&of_database[i], 0);
		databases[i].servers = &of_database[i];
		databases[i].pools = &pools;
		pool[i].database = &databases[i];
		pool[i].pools = &pools;
	}
	turns = (struct lookup_turns){ .pools = &pools, .granted = on_granted };
	verify_queue_init(&turns.waiting);
	list_init(&turns.taken);
	for (int i = 0; i < MOST; i++) {
		lookup_turn_init(&turn[i]);
		lookup_asker_init(&asker[i]);
	}
	granted[0] = 0;
}

/* All look-ups have ended, and no count or list is left. */
static void end(void)
{
	for (int i = 0; i < MOST; i++)
		if (turn[i].state == TURN_WAITS)
			lookup_turn_over(&turns, &turn[i]);
	for (int i = 0; i < MOST; i++)
		lookup_turn_over(&turns, &turn[i]);
	CHECK_INT(turns.taken_count, 0);
	CHECK(list_is_empty(&turns.taken));
	CHECK_INT(turns.waiting.waiting, 0);
}

#define OF_SITE 0x40			/* addresses from this index on belong to one site */

/* Requests a turn for look-up i in this pool for a client of this address. Returns true if the turn is granted. */
static bool ask(int i, int in, int address)
{
	const struct verify_source alone = { .bytes = { (uint8_t)address } }, of_site = { .bytes = { OF_SITE, (uint8_t)address }, .group = 1 },
				  source = address < OF_SITE ? alone : of_site;

	CHECK(lookup_turn_ask(&turns, &turn[i], &pool[in], &asker[i], &source));
	CHECK((turn[i].state == TURN_HAS) == list_is_empty(&turn[i].askers));
	CHECK((turn[i].state == TURN_HAS) == !asker[i].turn);
	return turn[i].state == TURN_HAS;
}

/* Returns the look-ups that were granted a turn since the previous call. */
static const char *news(void)
{
	static char read[sizeof(granted)];

	strcpy(read, granted);
	granted[0] = 0;
	return read;
}

TEST(total_look_up_limit)
{
	begin(8);
	for (int i = 0; i < 8; i++)
		CHECK(ask(i, i, i));
	CHECK(!ask(8, 0, 8));
	CHECK_TEXT(news(), "");
	lookup_turn_over(&turns, &turn[3]);
	CHECK_TEXT(news(), "8");
	CHECK_INT(turns.taken_count, 8);
	end();
}

TEST(pool_gets_a_quarter_of_the_turns)
{
	begin(8);
	CHECK(ask(0, 0, 0) && ask(1, 0, 1));
	CHECK(!ask(2, 0, 2));
	/* look-ups of other pools do not wait */
	CHECK(ask(3, 1, 3));
	lookup_turn_over(&turns, &turn[3]);
	CHECK_TEXT(news(), "");
	lookup_turn_over(&turns, &turn[0]);
	CHECK_TEXT(news(), "2");
	end();
}

TEST(address_gets_half_of_the_turns)
{
	begin(8);
	for (int i = 0; i < 4; i++)
		CHECK(ask(i, i, 9));
	CHECK(!ask(4, 4, 9));
	CHECK(ask(5, 4, 1));
	lookup_turn_over(&turns, &turn[5]);
	CHECK_TEXT(news(), "");
	lookup_turn_over(&turns, &turn[0]);
	CHECK_TEXT(news(), "4");
	end();
}

TEST(site_gets_half_of_the_turns)
{
	begin(8);
	for (int i = 0; i < 4; i++)
		CHECK(ask(i, i, OF_SITE + i));
	CHECK(!ask(4, 4, OF_SITE + 4));
	CHECK(ask(5, 4, 1));
	lookup_turn_over(&turns, &turn[0]);
	CHECK_TEXT(news(), "4");
	end();
}

TEST(each_share_is_at_least_one)
{
	begin(1);
	CHECK(ask(0, 0, 0));
	CHECK(!ask(1, 1, 1));
	lookup_turn_over(&turns, &turn[0]);
	CHECK_TEXT(news(), "1");
	end();
}

TEST(look_ups_get_half_of_a_limited_database)
{
	begin(40);
	budget_set_limit(&of_database[0], 4);
	pool[1].database = &databases[0];
	CHECK(ask(0, 0, 0) && ask(1, 1, 1));
	CHECK(!ask(2, 0, 2) && !ask(3, 1, 3));
	CHECK(ask(4, 2, 4));
	lookup_turn_over(&turns, &turn[1]);
	CHECK_TEXT(news(), "2");
	end();
	/* one look-up is always allowed */
	begin(40);
	budget_set_limit(&of_database[0], 1);
	CHECK(ask(0, 0, 0));
	CHECK(!ask(1, 0, 1));
	end();
}

TEST(connections_used_by_look_ups_only)
{
	begin(4);
	while (budget_take(&shared.lookup_servers))
		;
	CHECK(!ask(0, 0, 0));
	/* idle servers of other pools are to be closed */
	CHECK(pools.internal_servers_missed);
	/* a look-up with an idle server needs no new connection */
	pool[1].server_count[SERVER_IDLE] = 1;
	CHECK(ask(1, 1, 1));
	pool[2].server_count[SERVER_USED] = 1;
	CHECK(ask(2, 2, 2));
	CHECK_TEXT(news(), "");
	budget_give(&shared.lookup_servers);
	lookup_turns_grant(&turns);
	CHECK_TEXT(news(), "0");
	end();
}

TEST(addresses_take_turns)
{
	begin(1);
	CHECK(ask(0, 0, 0));
	/* three look-ups of one address, then a look-up of another address */
	CHECK(!ask(1, 1, 5) && !ask(2, 2, 5) && !ask(3, 3, 5) && !ask(4, 4, 6));
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 5; k++)
			if (turn[k].state == TURN_HAS) {
				lookup_turn_over(&turns, &turn[k]);
				break;
			}
	CHECK_TEXT(news(), "1 4 2 3");
	end();
}

TEST(address_at_its_limit_does_not_block_a_pool)
{
	begin(4);
	CHECK(ask(0, 0, 5) && ask(1, 1, 5));
	CHECK(!ask(2, 2, 5));
	CHECK(ask(3, 2, 6));
	lookup_turn_over(&turns, &turn[0]);
	/* now the address has room, and the pool has none */
	CHECK_TEXT(news(), "");
	lookup_turn_over(&turns, &turn[3]);
	CHECK_TEXT(news(), "2");
	end();
}

/* A client whose address has reached its limit must not delay another client's login that waits for the same look-up. */
TEST(clients_of_several_addresses_share_a_look_up)
{
	const struct verify_source other = { .bytes = { 6 } };

	begin(4);
	CHECK(ask(0, 0, 5) && ask(1, 1, 5) && !ask(2, 2, 5));
	CHECK(lookup_turn_ask(&turns, &turn[2], &pool[2], &asker[3], &other));
	CHECK_INT(turn[2].state, TURN_HAS);
	/* the turn counts for the address that had room, and the first client no longer waits */
	CHECK_INT(turn[2].source.bytes[0], 6);
	CHECK(!asker[2].turn);
	CHECK_INT(turns.waiting.waiting, 0);
	end();
}

TEST(first_waiting_client_with_room_gets_the_turn)
{
	const struct verify_source other = { .bytes = { 6 } };

	begin(2);
	CHECK(ask(0, 0, 5) && ask(1, 1, 7));
	CHECK(!ask(2, 2, 5));
	CHECK(lookup_turn_ask(&turns, &turn[2], &pool[2], &asker[3], &other));
	CHECK_INT(turn[2].state, TURN_WAITS);
	CHECK_INT(turns.waiting.waiting, 2);
	lookup_turn_over(&turns, &turn[1]);
	CHECK_TEXT(news(), "2");
	CHECK_INT(turn[2].source.bytes[0], 6);
	CHECK_INT(turns.waiting.waiting, 0);
	end();
}

TEST(waiting_look_up_ends)
{
	begin(1);
	CHECK(ask(0, 0, 0));
	CHECK(!ask(1, 1, 1) && !ask(2, 2, 2));
	lookup_asker_leave(&turns, &asker[1]);
	lookup_asker_leave(&turns, &asker[1]);
	CHECK(!asker[1].turn);
	lookup_turn_over(&turns, &turn[1]);
	CHECK_INT(turn[1].state, TURN_NONE);
	lookup_turn_over(&turns, &turn[0]);
	CHECK_TEXT(news(), "2");
	/* ending is allowed in every state */
	lookup_turn_over(&turns, &turn[0]);
	CHECK_INT(turns.taken_count, 1);
	end();
}

UNIT_MAIN
