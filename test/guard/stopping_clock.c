/* As still_clock.c, but the clock advances while the file $CLOCK_RUNS exists. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static struct timespec last[16];

	if (last[clock % 16].tv_sec == 0 || access(getenv("CLOCK_RUNS"), F_OK) == 0)
		syscall(SYS_clock_gettime, clock, &last[clock % 16]);
	*now = last[clock % 16];
	return 0;
}
