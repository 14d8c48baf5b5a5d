/*
 * CPU time and memory of other processes.
 *
 * CPU time is read from schedstat, in nanoseconds: stat counts in hundredths of a second, which is one per cent of a measurement of one second. If
 * the kernel has no schedstat, stat is used. Memory is the anonymous part: code and cached files are not a cost of clients. smaps_rollup counts it
 * exactly; the counters of statm lag by some pages per CPU.
 */
#include "process.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_of(const char *pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/%s", pid, name);
	return fopen(path, "r");
}

static bool cpu_from_schedstat(const char *pid, double *seconds)
{
	FILE *file = open_of(pid, "schedstat");
	unsigned long long nanoseconds = 0;
	bool found = file && fscanf(file, "%llu", &nanoseconds) == 1 && nanoseconds > 0;

	if (file)
		fclose(file);
	*seconds = (double)nanoseconds / 1e9;
	return found;
}

static double cpu_from_stat(const char *pid)
{
	FILE *file = open_of(pid, "stat");
	char line[1024], *behind_name;
	unsigned long user = 0, system = 0;

	if (!file)
		return 0;
	if (fgets(line, sizeof(line), file) && (behind_name = strrchr(line, ')')))
		sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
	fclose(file);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double memory_of(const char *pid)
{
	FILE *file = open_of(pid, "smaps_rollup");
	char line[256];
	double kib = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Anonymous: %lf kB", &kib) == 1)
			break;
	}
	fclose(file);
	return kib;
}

struct process_figures process_read(const char *pids)
{
	struct process_figures sum = { .cpu = 0 };
	char *copy = strdup(pids ? pids : ""), *rest = copy, *pid;

	while (copy && (pid = strsep(&rest, ","))) {
		double cpu;

		if (!*pid)
			continue;
		sum.cpu += cpu_from_schedstat(pid, &cpu) ? cpu : cpu_from_stat(pid);
		sum.memory += memory_of(pid);
	}
	free(copy);
	return sum;
}
