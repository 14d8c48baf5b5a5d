/*
 * Starting and ending verifiers.
 *
 * The program is executed again instead of forked: a fork would give every password, key and session in pgweir's memory to
 * modules of other authors, and would copy the page tables of a process with many thousand clients while all of them wait.
 * /proc/self/exe is the running binary, even if an upgrade has replaced the file.
 */
#include "verify/process.h"

#include "verify/child.h"
#include "verify/message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A separate process group, to end the verifier together with processes of its modules; default signal handling. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int error;

	sigemptyset(&none);
	sigfillset(&all);
	if ((error = posix_spawnattr_setsigmask(attributes, &none)) || (error = posix_spawnattr_setsigdefault(attributes, &all)) ||
	    (error = posix_spawnattr_setpgroup(attributes, 0)))
		return error;
	return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

static int spawn(int fd, pid_t *pid)
{
	char name[] = "pgweir", option[] = VERIFY_CHILD_OPTION, parent[24];
	char *const arguments[] = { name, option, parent, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error;

	snprintf(parent, sizeof(parent), "%ld", (long)getpid());
	if ((error = posix_spawn_file_actions_init(&actions)))
		return error;
	if ((error = posix_spawnattr_init(&attributes))) {
		posix_spawn_file_actions_destroy(&actions);
		return error;
	}
	if (!(error = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO)) && !(error = set_attributes(&attributes)))
		error = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

pid_t verify_process_start(int *fd)
{
	const int room = 2 * VERIFY_QUESTION_MOST;
	int ends[2], error;
	pid_t pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	/* a question must fit into the buffer as a whole */
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	error = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? errno : spawn(ends[1], &pid);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		errno = error;
		return -1;
	}
	*fd = ends[0];
	return pid;
}

void verify_process_kill(pid_t pid)
{
	kill(-pid, SIGKILL);
}

bool verify_process_reap(pid_t pid, int *status)
{
	pid_t found = waitpid(pid, status, WNOHANG);

	if (found == 0 || (found < 0 && errno == EINTR))
		return false;
	if (found < 0)
		*status = -1;
	return true;
}
