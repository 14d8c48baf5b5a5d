#ifndef BENCH_PROCESS_H
#define BENCH_PROCESS_H

/* What processes have taken, from /proc. */
struct process_figures {
	double cpu;	/* seconds, user and system */
	double memory;	/* KiB that belong to nothing but them: heap, stacks */
};

/* The sum over process ids with commas between. CPU time is that of each one's first thread. Zeros for NULL. */
struct process_figures process_read(const char *pids);

#endif
