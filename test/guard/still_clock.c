/*
 * Preloaded into a pgweir that is measured: a clock that stands still. No tick, no timeout and no look at a file
 * takes part, so that what is counted does not depend on how fast the machine is.
 */
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = 1000000000;
	now->tv_nsec = 0;
	return 0;
}
