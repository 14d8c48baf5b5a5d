/*
 * Preloaded into a measured pgweir: a clock that does not advance. No tick, timeout or file check takes part, so that the counts do not depend on the
 * speed of the machine. While the file $CLOCK_RUNS exists, the clock advances; then it stops.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static struct timespec last[16];
	const char *runs = getenv("CLOCK_RUNS");

	now->tv_sec = 1000000000;
	now->tv_nsec = 0;
	if (!runs || (unsigned)clock >= sizeof(last) / sizeof(last[0]))
		return 0;
	if (last[clock].tv_sec == 0 || access(runs, F_OK) == 0)
		syscall(SYS_clock_gettime, clock, &last[clock]);
	*now = last[clock];
	return 0;
}
