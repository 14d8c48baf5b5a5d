#ifndef CHILD_H
#define CHILD_H

/*
 * A process of its own for what can't be undone. It says what happened in one report, through a pipe:
 *
 *	if (child_fork(&child)) {
 *		...
 *		child_report(&child, &report, sizeof report);
 *		_exit(0);
 *	}
 *	status = child_end(&child, &report, sizeof report);
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

/* True in the child. */
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

/* Returns when it has ended and it or a descendant has reported: its exit status, -1 when it was killed. */
static int child_end(struct child *child, void *report, size_t size)
{
	int status;

	waitpid(child->pid, &status, 0);
	CHECK_INT(read(child->pipe, report, size), size);
	close(child->pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
