/*
 * Preloaded into a measured pgweir: a clock that does not advance. No tick, timeout or file check takes part, so that the counts do not depend on the
 * speed of the machine.
 */
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = 1000000000;
	now->tv_nsec = 0;
	return 0;
}
