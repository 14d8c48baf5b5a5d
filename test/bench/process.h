#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

/* Resources used by processes, from /proc. */
struct process_figures {
	double cpu;	/* seconds, user and system */
	double memory;	/* KiB that belong to nothing but them: heap, stacks */
};

/* The sum over process IDs separated by commas. CPU time includes each process's first thread only. Zeros for NULL. */
struct process_figures process_read(const char *pids);

#endif
