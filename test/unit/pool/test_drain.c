/* DRAIN: targets, and the turns of clients. */
#include "fake.h"

#include "pool/drain.h"
#include "unit.h"

static const char ini[] = "[databases]\napp = host=10.0.0.1,10.0.0.2\nlocal =\n* = host=10.0.0.3\n[pgbouncer]\n";

static const char *target(enum drain_of of, const char *name)
{
	static char text[DRAIN_TEXT];

	return drain_text(&(struct drain){ .of = of, .name = (char *)(uintptr_t)name }, text, sizeof(text));
}

static bool is_of(enum drain_of of, const char *name, const char *database, const char *user)
{
	struct drain drain = { .of = of, .name = (char *)(uintptr_t)name };

	return drain_applies(&drain, database_get(fake.pools, database, true, fake.now), user, NULL);
}

TEST(targets)
{
	fake_start(ini);
	CHECK_TEXT(target(DRAIN_OF_ALL, ""), "every database");
	CHECK_TEXT(target(DRAIN_OF_DATABASE, "a\nb"), "database \"a\\x0ab\"");
	CHECK_TEXT(target(DRAIN_OF_USER, "joe"), "user \"joe\"");
	CHECK(is_of(DRAIN_OF_ALL, "", "app", NULL) && !is_of(DRAIN_OF_ALL, "", "pgbouncer", "joe"));
	CHECK(is_of(DRAIN_OF_DATABASE, "app", "app", "joe") && !is_of(DRAIN_OF_DATABASE, "app", "local", "joe"));
	CHECK(is_of(DRAIN_OF_USER, "joe", "app", "joe") && !is_of(DRAIN_OF_USER, "joe", "app", "jo") && !is_of(DRAIN_OF_USER, "joe", "app", NULL));
	CHECK(is_of(DRAIN_OF_HOST, "10.0.0.1", "app", "joe") && is_of(DRAIN_OF_HOST, "10.0.0.2", "app", NULL));
	CHECK(is_of(DRAIN_OF_HOST, "10.0.0.3", "made", "joe") && !is_of(DRAIN_OF_HOST, "10.0.0.3", "app", "joe") && !is_of(DRAIN_OF_HOST, "10.0.0.3", "local", "joe"));
	fake_end();
}

TEST(a_target_has_one_drain)
{
	struct database *app;
	struct drain *of_app, *of_joe;

	fake_start(ini);
	app = database_get(fake.pools, "app", true, fake.now);
	CHECK(!drain_due(fake.pools, app, "joe", NULL, 1, INT64_MAX));
	CHECK(drain_begin(fake.pools, DRAIN_OF_DATABASE, "app", 0, 0));
	of_app = drain_begin(fake.pools, DRAIN_OF_DATABASE, "app", 5, 5);
	of_joe = drain_begin(fake.pools, DRAIN_OF_USER, "joe", 5, 5);
	CHECK(list_first(&fake.pools->drains) == &of_app->node && list_last(&fake.pools->drains) == &of_joe->node && of_app->node.next == &of_joe->node);
	CHECK(drain_due(fake.pools, app, "joe", NULL, 1, 5) == of_app && !drain_due(fake.pools, app, "joe", NULL, 1, 4));
	CHECK(!drain_stop(fake.pools, DRAIN_OF_DATABASE, "joe", false) && drain_stop(fake.pools, DRAIN_OF_DATABASE, "app", false));
	CHECK(drain_due(fake.pools, app, "joe", NULL, 1, INT64_MAX) == of_joe && !drain_due(fake.pools, app, "bob", NULL, 1, INT64_MAX));
	CHECK(drain_begin(fake.pools, DRAIN_OF_ALL, "", 0, 0) && drain_due(fake.pools, app, "bob", NULL, 1, 0));
	CHECK(drain_stop(fake.pools, DRAIN_OF_ALL, "", false) && !drain_stop(fake.pools, DRAIN_OF_ALL, "", false));
	/* the others end with the pools */
	CHECK(drain_begin(fake.pools, DRAIN_OF_HOST, "10.0.0.1", 0, 0));
	fake_end();
}

/* Of 100 clients with every `step`th id, the number that has had its turn after each tenth of the time differs from the even number by at most 3. */
TEST(turns_are_spread_evenly)
{
	const usec_t time = DRAIN_SECONDS_MOST * USEC;
	struct database *app;

	fake_start(ini);
	app = database_get(fake.pools, "app", true, fake.now);
	CHECK(drain_begin(fake.pools, DRAIN_OF_ALL, "", fake.now, fake.now + time));
	for (uint64_t step = 1; step <= 4; step++)
		for (int tenth = 0; tenth <= 10; tenth++) {
			int had = 0;

			for (uint64_t id = 0; id < 100; id++)
				had += drain_due(fake.pools, app, "joe", NULL, 1000 + id * step, fake.now + time / 10 * tenth) != NULL;
			CHECK(had >= 10 * tenth - 3 && had <= 10 * tenth + 3);
			CHECK(tenth < 10 || had == 100);
		}
	fake_end();
}

UNIT_MAIN
