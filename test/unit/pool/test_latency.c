/* Histograms of latencies: buckets, percentiles, periods, sampling and growth. */
#include "fake.h"

#include "pool/latency.h"
#include "unit.h"

#include <stdlib.h>

static struct pool *pool;

static void begin(void)
{
	fake_start("[databases]\napp =\n[pgbouncer]\npool_mode = transaction\n");
	pool = fake_join("app", "bob")->pooled.pool;
}

static uint64_t bytes_used(void)
{
	return sizeof(struct latencies) + pool->latencies->blocks_most * sizeof(struct latency_block);
}

TEST(each_latency_is_within_6_percent_of_its_bucket)
{
	unsigned last = 0;

	for (uint64_t usec = 0; usec < 3600 * (uint64_t)USEC; usec += 1 + usec / 97) {
		unsigned bucket = latency_bucket((usec_t)usec);
		double value = (double)latency_bucket_value(bucket);

		CHECK(bucket >= last && bucket < LATENCY_BUCKETS);
		CHECK(latency_bucket_low(bucket) <= usec && usec < latency_bucket_low(bucket + 1));
		CHECK(value <= (double)usec * 1.06 && value >= (double)usec * 0.94);
		last = bucket;
	}
	CHECK_INT(latency_bucket(INT64_MAX), LATENCY_BUCKETS - 1);
}

TEST(percentiles)
{
	struct latency_figures f;

	begin();
	for (int i = 1; i <= 1000; i++)
		latency_add_fast(pool, LATENCY_LOGIN, i <= 500 ? 100 : i <= 990 ? 1000 : i <= 999 ? 10000 : 100000);
	latency_read(fake.pools, pool, SHOWN_LOGIN, true, &f);
	CHECK_INT(f.count, 1000);
	CHECK_INT(f.p50, latency_bucket_value(latency_bucket(100)));
	CHECK_INT(f.p90, latency_bucket_value(latency_bucket(1000)));
	CHECK_INT(f.p99, latency_bucket_value(latency_bucket(1000)));
	CHECK_INT(f.p999, latency_bucket_value(latency_bucket(10000)));
	CHECK_INT(f.max, latency_bucket_value(latency_bucket(100000)));
	latency_read(fake.pools, NULL, SHOWN_LOGIN, false, &f);
	CHECK_INT(f.count, 1000);
	CHECK_INT(f.max, latency_bucket_value(latency_bucket(100000)));
	fake_end();
}

TEST(query_alone_is_a_transaction_as_well)
{
	struct latency_figures f;

	begin();
	latency_add_fast(pool, LATENCY_SINGLE, 10);
	latency_add_fast(pool, LATENCY_QUERY, 10);
	latency_add_fast(pool, LATENCY_QUERY, 10);
	latency_add_fast(pool, LATENCY_TRANSACTION, 30);
	latency_read(fake.pools, pool, SHOWN_QUERY, false, &f);
	CHECK_INT(f.count, 3);
	latency_read(fake.pools, pool, SHOWN_TRANSACTION, false, &f);
	CHECK_INT(f.count, 2);
	latency_read(fake.pools, NULL, SHOWN_TRANSACTION, true, &f);
	CHECK_INT(f.count, 2);
	fake_end();
}

TEST(last_minute_ends_and_total_stays)
{
	struct latency_figures f;
	usec_t now = LATENCY_PERIOD;

	begin();
	latency_add_fast(pool, LATENCY_CONNECT, 5);
	CHECK(latency_period_end(pool, now));
	CHECK(!latency_period_end(pool, now + LATENCY_PERIOD - 1));
	latency_add_fast(pool, LATENCY_CONNECT, 7);
	latency_read(fake.pools, pool, SHOWN_CONNECT, true, &f);
	CHECK(f.count == 2 && f.p50 == 5 && f.max == 7);
	CHECK(latency_period_end(pool, now += LATENCY_PERIOD));
	latency_read(fake.pools, pool, SHOWN_CONNECT, true, &f);
	CHECK(f.count == 1 && f.p50 == 7);
	CHECK(latency_period_end(pool, now += LATENCY_PERIOD));
	latency_read(fake.pools, pool, SHOWN_CONNECT, true, &f);
	CHECK(f.count == 0 && f.p50 == 0 && f.max == 0);
	latency_read(fake.pools, pool, SHOWN_CONNECT, false, &f);
	CHECK(f.count == 2 && f.p50 == 5 && f.max == 7);
	fake_end();
}

/* More latencies than a counter holds: the number is exact, and the percentiles are right, also those of a rare latency. */
TEST(counters_that_are_full)
{
	struct latency_figures minute, total;
	usec_t now = 0;

	begin();
	for (int period = 0; period < 3; period++) {
		for (int i = 0; i < 1000000; i++)
			latency_add_fast(pool, LATENCY_SINGLE, i % 250 == 7 ? 50000 : i % 10 < 5 ? 20 : 30);
		latency_read(fake.pools, pool, SHOWN_QUERY, true, &minute);
		latency_read(fake.pools, pool, SHOWN_QUERY, false, &total);
		CHECK_INT(minute.count, period ? 2000000 : 1000000);
		CHECK_INT(total.count, 1000000 * (period + 1));
		CHECK_INT(minute.p50, latency_bucket_value(latency_bucket(20)));
		CHECK_INT(minute.p99, latency_bucket_value(latency_bucket(30)));
		CHECK_INT(minute.p999, latency_bucket_value(latency_bucket(50000)));
		CHECK_INT(total.p90, latency_bucket_value(latency_bucket(30)));
		CHECK_INT(total.p999, latency_bucket_value(latency_bucket(50000)));
		CHECK(latency_period_end(pool, now += LATENCY_PERIOD));
	}
	CHECK(pool->latencies->kinds[LATENCY_SINGLE].total_shift > 0);
	latency_read(fake.pools, NULL, SHOWN_QUERY, false, &total);
	CHECK_INT(total.count, 3000000);
	fake_end();
}

TEST(memory_is_2_kib_and_grows_with_the_spread_of_latencies)
{
	struct latency_figures f;

	begin();
	CHECK(pool->latencies == NULL);
	for (unsigned i = 0; i < LATENCY_BLOCKS_FIRST - 1; i++)
		latency_add(pool, i % 2 ? LATENCY_QUERY : LATENCY_SINGLE, (usec_t)8 << i / 2);
	CHECK(bytes_used() <= 2048);
	for (unsigned which = 0; which < LATENCIES; which++)
		for (unsigned power = 0; power < 33; power++)
			latency_add_fast(pool, which, (usec_t)1 << power);
	CHECK(bytes_used() <= 11 * 1024);
	latency_read(fake.pools, pool, SHOWN_RESTORE, true, &f);
	CHECK_INT(f.count, 33);
	CHECK_INT(f.p50, latency_bucket_value(latency_bucket(1 << 16)));
	fake_end();
}

TEST(waits_count_clients_that_did_not_wait)
{
	struct latency_figures f;

	begin();
	pool->served_at_once = 99;
	latency_read(fake.pools, pool, SHOWN_WAIT, true, &f);
	CHECK(f.count == 99 && f.max == 0);
	latency_add(pool, LATENCY_WAIT, 4000);
	latency_read(fake.pools, pool, SHOWN_WAIT, false, &f);
	CHECK(f.count == 100 && f.p99 == 0 && f.max == latency_bucket_value(latency_bucket(4000)));
	latency_read(fake.pools, NULL, SHOWN_WAIT, false, &f);
	CHECK(f.count == 100);
	fake_end();
}

UNIT_MAIN
