/*
 * The two clocks. Intervals use the monotonic clock, which administrators and NTP cannot set back;
 * times for people (log, SHOW) use the wall clock. Both are 64-bit microseconds, which overflow
 * after three hundred thousand years, so sums need no check.
 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static usec_t read_clock(clockid_t id)
{
	struct timespec now = { 0, 0 };

	clock_gettime(id, &now);
	return (usec_t)now.tv_sec * USEC + now.tv_nsec / 1000;
}

usec_t clock_monotonic(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

usec_t clock_wall(void)
{
	return read_clock(CLOCK_REALTIME);
}

char *clock_format(usec_t when, int millis, char *buf, size_t size)
{
	usec_t fraction = when % USEC;
	time_t seconds = (time_t)(when / USEC);
	struct tm parts;
	char day[64] = "", zone[32] = "", point[8] = "";

	if (size == 0)
		return buf;
	if (fraction < 0) {
		/* C rounds towards zero, the calendar rounds down. */
		fraction += USEC;
		seconds--;
	}
	buf[0] = '\0';
	if (!localtime_r(&seconds, &parts))
		return buf;
	strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &parts);
	strftime(zone, sizeof(zone), "%Z", &parts);
	if (millis)
		snprintf(point, sizeof(point), ".%03d", (int)(fraction / 1000));
	snprintf(buf, size, "%s%s %s", day, point, zone);
	return buf;
}
