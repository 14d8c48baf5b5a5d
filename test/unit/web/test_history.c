/* The samples of the last hour: room web. */
#include "whole.h"
#include "unit.h"
#include "web/history.h"

#include "base/mem.h"

static struct histories h;

static void add(uint64_t from, uint64_t to)
{
	for (uint64_t second = from; second < to; second++)
		histories_add(&h, whole.world->pools, (usec_t)second * USEC, (usec_t)second * USEC);
}

TEST(the_ring_keeps_an_hour)
{
	struct bytes out = BYTES_EMPTY;

	whole_open(WHOLE_INI("", ""));
	add(1000, 1003);
	CHECK_INT(h.all->count, 3);
	CHECK_INT(h.due, 1003 * USEC);
	CHECK_INT(history_find(h.all, 0), 0);
	CHECK_INT(history_find(h.all, 1001), 2);
	CHECK_INT(history_find(h.all, 5000), 3);
	CHECK_INT(history_write(h.all, 1, 1, &out), 2);
	bytes_append_u8(&out, 0);
	CHECK_TEXT((const char *)bytes_front(&out), ",\n[1001,0,0,0,0,0,0,null,null,null,null,null,null,0,0,0,0,0,0]");
	bytes_free(&out);
	add(1003, 1000 + HISTORY_SECONDS + 100);
	/* the oldest samples are gone, and an old position begins with the first that is left */
	CHECK_INT(history_find(h.all, 0), 100);
	CHECK_INT(history_write(h.all, 0, 10, &out), 110);
	CHECK(memcmp(bytes_front(&out), ",\n[1100,", 8) == 0);
	CHECK_INT(history_write(h.all, h.all->count, 10, &out), h.all->count);
	CHECK_INT(history_write(h.all, h.all->count + 5, 10, &out), h.all->count);
	bytes_free(&out);
	histories_free(&h, whole.world->pools);
	whole_close();
}

TEST(times_only_grow)
{
	whole_open(WHOLE_INI("", ""));
	/* the next sample is due when the next second of the wall clock begins */
	histories_add(&h, whole.world->pools, 1000 * USEC, 5000 * USEC + 900000);
	CHECK_INT(h.due, 1000 * USEC + 100000);
	histories_add(&h, whole.world->pools, 1000 * USEC + 150000, 5001 * USEC + 50000);
	histories_add(&h, whole.world->pools, 1001 * USEC, 5001 * USEC + 900000);
	/* two samples in one second are one */
	CHECK_INT(h.all->count, 2);
	CHECK_INT(h.all->samples[1].time, 5001);
	/* the wall clock was set back: nothing of its future is left */
	histories_add(&h, whole.world->pools, 1002 * USEC, 4000 * USEC);
	CHECK_INT(h.all->count, 1);
	CHECK_INT(h.all->samples[0].time, 4000);
	histories_free(&h, whole.world->pools);
	whole_close();
}

static struct pool *pool_of(unsigned number)
{
	struct pools *pools = whole.world->pools;
	char name[24];

	snprintf(name, sizeof(name), "db%u", number);
	return pool_get(database_get(pools, name, true, 1), user_get(pools, "app"), false, 1);
}

TEST(some_pools_have_a_history)
{
	struct pools *pools;

	whole_open(WHOLE_INI("", "[databases]\n* = host=127.0.0.1\n"));
	pools = whole.world->pools;
	/* pools without clients get one when they are asked for */
	pool_of(0);
	add(1, 2);
	CHECK(!pool_of(0)->history);
	for (unsigned i = 0; i < HISTORY_POOLS; i++)
		CHECK(history_of_pool(pools, pool_of(i), i == 3 ? 1 : (usec_t)(10 + i)));
	add(2, 4);
	CHECK_INT(pool_of(0)->history->count, 2);
	CHECK_INT(pool_of(0)->history->samples[1].time, 3);
	CHECK_INT(pool_of(0)->history->samples[1].query_p50, HISTORY_NONE);
	/* a request for another pool frees the history whose last request is oldest */
	CHECK(history_of_pool(pools, pool_of(HISTORY_POOLS), 100));
	CHECK(!pool_of(3)->history && pool_of(2)->history);
	latency_add(pool_of(0), LATENCY_SINGLE, 1000);
	pool_of(0)->closes = 7;
	add(4, 5);
	CHECK_INT(pool_of(0)->history->samples[2].queries, 1);
	CHECK_INT(pool_of(0)->history->samples[2].closes, 7);
	CHECK_INT(pool_of(0)->history->samples[2].query_p99, latency_bucket_value(latency_bucket(1000)));
	CHECK_INT(h.all->samples[3].transaction_p50, latency_bucket_value(latency_bucket(1000)));
	add(5, 6);
	CHECK_INT(h.all->samples[4].transaction_p50, HISTORY_NONE);
	histories_free(&h, pools);
	CHECK(!pool_of(0)->history);
	whole_close();
}

TEST(without_memory_there_are_no_samples)
{
	whole_open(WHOLE_INI("", ""));
	whole_memory_ends(0);
	add(1, 2);
	CHECK_INT(whole_memory_is_back(), 2);
	CHECK(!h.all && !h.before);
	add(2, 3);
	CHECK_INT(h.all->count, 1);
	histories_free(&h, whole.world->pools);
	whole_close();
}

UNIT_MAIN
