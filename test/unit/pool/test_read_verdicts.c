/* Verdicts on texts: what is forgotten, and when. */
#include "fake.h"

#include "pool/freshness.h"
#include "pool/read_verdicts.h"

#define HOSTS "host=h1,h2 target_session_attrs=primary reads=auto"

static struct database *shop(void) { return database_find(fake.pools, "shop"); }
static enum read_verdict on(uint64_t key) { return read_verdict_on(shop(), key, fake.now); }

static void set(uint64_t key, enum read_verdict verdict)
{
	read_verdict_set(shop(), key, verdict, shop()->roles->written->definitions, fake.now);
}

static void start(const char *ini)
{
	fake_start(ini);
	fake_join("shop", "bob");
	CHECK(roles_begin(shop(), fake.now));
}

TEST(verdict_lasts_until_definitions_change)
{
	start("[databases]\nshop=" HOSTS "\n[pgweir]\n");
	CHECK_INT(on(1), STANDBY_UNKNOWN);
	set(1, STANDBY_SUITS);
	set(2, STANDBY_NEVER);
	CHECK_INT(on(1), STANDBY_SUITS);
	CHECK_INT(on(2), STANDBY_NEVER);
	CHECK_INT(on(3), STANDBY_UNKNOWN);
	read_definitions_changed(shop());
	CHECK_INT(on(1), STANDBY_UNKNOWN);
	CHECK_INT(on(2), STANDBY_UNKNOWN);
	fake_end();
}

TEST(verdict_from_before_a_change_is_dropped)
{
	uint64_t before;

	start("[databases]\nshop=" HOSTS "\n[pgweir]\n");
	before = shop()->roles->written->definitions;
	read_definitions_changed(shop());
	read_verdict_set(shop(), 1, STANDBY_SUITS, before, fake.now);
	CHECK_INT(on(1), STANDBY_UNKNOWN);
	fake_end();
}

TEST(command_by_another_way_changes_definitions_too)
{
	start("[databases]\nshop=" HOSTS "\ndirect=host=h1\n[pgweir]\n");
	set(1, STANDBY_SUITS);
	fake_join("direct", "bob");
	read_definitions_changed(database_find(fake.pools, "direct"));
	CHECK_INT(on(1), STANDBY_UNKNOWN);
	fake_end();
}

TEST(verdict_is_forgotten_after_some_time)
{
	start("[databases]\nshop=" HOSTS "\n[pgweir]\n");
	set(1, STANDBY_SUITS);
	set(2, STANDBY_ASKED);
	set(3, STANDBY_NOT_NOW);
	set(4, STANDBY_NEVER);
	fake.now += READ_VERDICT_LASTS - 1;
	CHECK_INT(on(1), STANDBY_SUITS);
	CHECK_INT(on(3), STANDBY_NOT_NOW);
	fake.now++;
	/* confirmed by other questions, or forgotten */
	CHECK_INT(on(1), STANDBY_SUITS);
	CHECK_INT(on(2), STANDBY_UNKNOWN);
	CHECK_INT(on(3), STANDBY_UNKNOWN);
	CHECK_INT(on(4), STANDBY_NEVER);
	fake_end();
}

TEST(least_recently_used_verdict_leaves)
{
	start("[databases]\nshop=" HOSTS "\n[pgweir]\n");
	for (uint64_t key = 0; key < READ_VERDICTS_MOST; key++)
		set(key, STANDBY_SUITS);
	CHECK_INT(on(0), STANDBY_SUITS);
	set(READ_VERDICTS_MOST, STANDBY_SUITS);
	CHECK_INT(on(0), STANDBY_SUITS);
	CHECK_INT(on(1), STANDBY_UNKNOWN);
	CHECK_INT(on(2), STANDBY_SUITS);
	CHECK_INT(on(READ_VERDICTS_MOST), STANDBY_SUITS);
	fake_end();
}

UNIT_MAIN
