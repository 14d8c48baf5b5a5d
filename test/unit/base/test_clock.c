/* The clocks and the formatting of time stamps. */
#include "base/clock.h"

#include "unit.h"

#include <stdlib.h>
#include <time.h>

static const char *format(usec_t when, int millis)
{
	static char buf[64];

	return clock_format(when, millis, buf, sizeof(buf));
}

static void set_zone(const char *zone)
{
	setenv("TZ", zone, 1);
	tzset();
}

TEST(monotonic_never_goes_back)
{
	usec_t last = clock_monotonic();

	CHECK(last > 0);
	for (int i = 0; i < 1000; i++) {
		usec_t now = clock_monotonic();

		CHECK(now >= last);
		last = now;
	}
}

TEST(wall_is_the_time_of_day)
{
	time_t before = time(NULL) - 1;
	usec_t now = clock_wall();

	CHECK(now / USEC >= before);
	CHECK(now / USEC <= time(NULL) + 1);
}

TEST(format_writes_date_time_and_zone)
{
	set_zone("UTC");
	CHECK_TEXT(format(0, 0), "1970-01-01 00:00:00 UTC");
	CHECK_TEXT(format(1795226483 * USEC + 820999, 1), "2026-11-21 02:01:23.820 UTC");
	CHECK_TEXT(format(1795226483 * USEC + 820999, 0), "2026-11-21 02:01:23 UTC");
	CHECK_TEXT(format(1795226483 * USEC + 4000, 1), "2026-11-21 02:01:23.004 UTC");
	set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
	CHECK_TEXT(format(1795226483 * USEC, 0), "2026-11-21 03:01:23 CET");
	set_zone("UTC");
}

TEST(format_rounds_down_before_the_epoch)
{
	CHECK_TEXT(format(-1, 1), "1969-12-31 23:59:59.999 UTC");
	CHECK_TEXT(format(-USEC, 1), "1969-12-31 23:59:59.000 UTC");
}

TEST(format_terminates_in_any_size)
{
	char buf[8] = "xxxxxxx";

	clock_format(0, 1, buf, 0);
	CHECK_TEXT(buf, "xxxxxxx");
	CHECK_TEXT(clock_format(0, 1, buf, 1), "");
	CHECK_TEXT(clock_format(0, 1, buf, 5), "1970");
	CHECK_TEXT(clock_format(INT64_MAX, 0, buf, 3), "29");
}

UNIT_MAIN
