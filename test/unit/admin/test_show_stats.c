/* SHOW STATS and TOTALS: exact numbers over one period. */
#include "shows.h"

static void end_period(void)
{
	fake.world.now = 1010 * USEC;
	fake.world.pools->stats_at = 0;
	pools_maintain(fake.world.pools, fake.world.now);
}

/* Exact numbers over one period. */
TEST(stats)
{
	struct client *c = begin("");
	struct stats_history *h = &database_find(fake.world.pools, "shop")->stats;
	const char *got;

	fake.world.now = 1010 * USEC;
	h->total = (struct stats){ 10, 20, 40, 1000, 2000, 500, 800, 300, 4, 5, 6, 2 };
	end_period();
	h->total.query_count = 41;
	got = fake_ask(c, "show stats");
	CHECK(strstr(got, " D(many|0|") != NULL && strstr(got, " D(pgbouncer|0|1|1|") != NULL);
	CHECK(strstr(got, " D(shop|10|20|41|1000|2000|500|800|300|4|5|6|2|1|2|4|100|200|25|19|30|0|0|0|0) C(SHOW)") != NULL);
	CHECK(strstr(fake_ask(c, "show stats_totals"), " D(shop|10|20|41|1000|2000|500|800|300|4|5|6|2)") != NULL);
	CHECK(strstr(fake_ask(c, "show stats_averages"), " D(shop|1|2|4|100|200|25|19|30|0|0|0|0)") != NULL);
	fake_end();
}

TEST(totals_are_sums)
{
	struct client *c = begin("");
	struct stats_history *shop = &database_find(fake.world.pools, "shop")->stats;
	struct stats_history *many = &database_find(fake.world.pools, "many")->stats;
	const char *got;

	shop->total = (struct stats){ .xact_count = 30, .xact_time = 600, .sent = 1000 };
	many->total = (struct stats){ .xact_count = 10, .xact_time = 1000, .sent = 500 };
	end_period();
	got = fake_ask(c, "show totals");
	CHECK(strstr(got, " D(total_xact_count|41) ") != NULL);	/* and this SHOW */
	CHECK(strstr(got, " D(total_server_bytes|1500) ") != NULL);
	CHECK(strstr(got, " D(avg_xact_count|4) ") != NULL);
	CHECK(strstr(got, " D(avg_server_bytes|150) ") != NULL);
	CHECK(strstr(got, " D(avg_xact_time|39) ") != NULL);	/* the average of the totals is 1600 / 41, not the sum of the averages 20 + 100 */
	fake_end();
}

/* Databases younger than the period, and databases without a completed period, do not increase the divisor of any average. */
TEST(totals_of_databases_of_different_age)
{
	struct client *c = begin("");
	struct stats_history *shop = &database_find(fake.world.pools, "shop")->stats;
	struct stats_history *many = &database_find(fake.world.pools, "many")->stats, kept;

	shop->total.query_count = 30;
	end_period();
	*many = (struct stats_history){ .total.query_count = 10, .newer_at = 1008 * USEC };
	CHECK(strstr(fake_ask(c, "show totals"), " D(avg_query_count|4) ") != NULL);
	kept = *shop;
	end_period();
	*shop = kept;
	CHECK(strstr(fake_ask(c, "show totals"), " D(avg_query_count|4) ") != NULL);
	fake_end();
}

UNIT_MAIN
