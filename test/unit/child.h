#ifndef CHILD_H
#define CHILD_H

/*
 * A child process for operations that cannot be undone. The child sends one report of the outcome through a pipe:
 *
 *     if (child_fork(&child)) {
 *             ...
 *             child_report(&child, &report, sizeof(report));
 *             _exit(0);
 *     }
 *     status = child_end(&child, &report, sizeof(report));
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

struct child {
	pid_t pid;
	int pipe;
};

/* Returns true in the child. */
static bool child_fork(struct child *child)
{
	int ends[2];

	if (pipe(ends) < 0)
		abort();
	fflush(NULL);
	child->pid = fork();
	if (child->pid < 0)
		abort();
	child->pipe = ends[child->pid == 0];
	close(ends[child->pid != 0]);
	return child->pid == 0;
}

static void child_report(const struct child *child, const void *report, size_t size)
{
	if (write(child->pipe, report, size) != (ssize_t)size)
		_exit(2);
}

/* Waits until the child has ended and the child or a descendant has reported. Returns the exit status, or -1 if a signal killed the child. */
static int child_end(struct child *child, void *report, size_t size)
{
	int status;

	waitpid(child->pid, &status, 0);
	CHECK_INT(read(child->pipe, report, size), size);
	close(child->pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
