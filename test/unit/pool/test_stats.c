/* Averages for known loads. */
#include "pool/stats.h"
#include "unit.h"

#include <stdint.h>

static const struct stats zero;

TEST(averages_begin_a_second_before_the_history)
{
	struct stats_history history = { .newer_at = 5 * USEC, .total = { .xact_count = 10, .xact_time = 30 } };
	struct stats average;

	stats_average(&history, 5 * USEC, &average);
	CHECK_INT(average.xact_count, 10);
	CHECK_INT(average.xact_time, 3);
	stats_average(&history, 9 * USEC, &average);
	CHECK_INT(average.xact_count, 2);
	stats_average(&history, 4 * USEC, &average);
	CHECK(memcmp(&average, &zero, sizeof(zero)) == 0);
}

TEST(averages_begin_with_the_last_full_period)
{
	struct stats_history history = { .newer_at = 100 * USEC };
	struct stats average;

	history.total = (struct stats){
		.server_assignment_count = 40, .xact_count = 80, .query_count = 160, .received = 4000, .sent = 8000,
		.xact_time = 800, .query_time = 1600, .wait_time = 400, .bind_count = 2,
	};
	stats_period_end(&history, 104 * USEC);
	stats_average(&history, 104 * USEC, &average);
	CHECK_INT(average.server_assignment_count, 10);
	CHECK_INT(average.xact_count, 20);
	CHECK_INT(average.query_count, 40);
	CHECK_INT(average.received, 1000);
	CHECK_INT(average.sent, 2000);
	CHECK_INT(average.bind_count, 0);
	CHECK_INT(average.xact_time, 10);
	CHECK_INT(average.query_time, 10);
	CHECK_INT(average.wait_time, 10);
	/* Later values count at once, and the earlier period is no longer included as soon as the next one has ended. */
	history.total.xact_count += 7;
	stats_average(&history, 104 * USEC + USEC / 2, &average);
	CHECK_INT(average.xact_count, 19);
	stats_period_end(&history, 105 * USEC);
	stats_average(&history, 105 * USEC, &average);
	CHECK_INT(average.xact_count, 7);
	CHECK_INT(average.query_count, 0);
	CHECK_INT(average.xact_time, 0);
}

TEST(large_numbers_do_not_overflow)
{
	struct stats_history history = { .newer_at = USEC };
	struct stats average;

	history.total.sent = UINT64_C(1) << 60;
	stats_period_end(&history, 1025 * USEC);
	stats_average(&history, 1025 * USEC, &average);
	CHECK(average.sent == UINT64_C(1) << 50);
}

TEST(stats_add_sums_every_field)
{
	struct stats sum = { 0 }, one;

#define X(name) one.name = 3;
	STATS_EACH(X)
#undef X
	stats_add(&sum, &one);
	stats_add(&sum, &one);
#define X(name) CHECK_INT(sum.name, 6);
	STATS_EACH(X)
#undef X
}

UNIT_MAIN
