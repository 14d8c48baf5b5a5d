/*
 * Going into the background, and switching from root to another user.
 *
 * As usual there are two forks: the first child starts a session and ends; the second is not a session leader and can never get
 * a controlling terminal. The calling process waits until the daemon listens, so its exit status tells whether the start
 * succeeded, and its caller may connect as soon as it returns. All three share a pipe: a byte means ready, an end without a
 * byte means that the daemon has ended.
 */
#include "main/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void point_nowhere(int first, int last)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	for (int i = first; i <= last; i++)
		dup2(fd, i);
	if (fd > STDERR_FILENO)
		close(fd);
}

/* The rest of the life of the calling process. _exit is used because the daemon owns the buffers and exit handlers. */
static _Noreturn void wait_for_daemon(int fd, pid_t child)
{
	char byte;
	ssize_t size;

	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	do
		size = read(fd, &byte, 1);
	while (size < 0 && errno == EINTR);
	_exit(size == 1 ? 0 : 1);
}

int daemon_start(void)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	/* otherwise each process would write the contents of the buffers */
	fflush(NULL);
	child = fork();
	if (child < 0) {
		int saved = errno;

		close(ends[0]);
		close(ends[1]);
		errno = saved;
		return -1;
	}
	if (child > 0) {
		close(ends[1]);
		wait_for_daemon(ends[0], child);
	}
	close(ends[0]);
	setsid();
	child = fork();
	if (child != 0)
		_exit(child < 0);
	point_nowhere(STDIN_FILENO, STDIN_FILENO);
	return ends[1];
}

void daemon_ready(int *fd)
{
	if (*fd < 0)
		return;
	point_nowhere(STDOUT_FILENO, STDERR_FILENO);
	/* the waiting process may have been killed (SIGPIPE is ignored) */
	while (write(*fd, "", 1) < 0 && errno == EINTR)
		;
	close(*fd);
	*fd = -1;
}

static bool drop_root(const struct passwd *who, char *why, size_t why_size)
{
	if (initgroups(who->pw_name, who->pw_gid) < 0 || setgid(who->pw_gid) < 0 || setuid(who->pw_uid) < 0) {
		snprintf(why, why_size, "cannot become user \"%s\": %s", who->pw_name, strerror(errno));
		return false;
	}
	/* becoming root again must be impossible */
	if (setuid(0) == 0) {
		snprintf(why, why_size, "user \"%s\" can become root again", who->pw_name);
		return false;
	}
	return true;
}

/* NULL with a text: no process can become this user, or the user is root. */
static const struct passwd *find_user(const char *user, char *why, size_t why_size)
{
	const struct passwd *who;

	errno = 0;
	who = getpwnam(user);
	if (!who) {
		snprintf(why, why_size, "user \"%s\": %s", user, errno ? strerror(errno) : "there is no such account");
	} else if (who->pw_uid == 0) {
		snprintf(why, why_size, "user \"%s\" is root: pgweir should not run as root", user);
		who = NULL;
	}
	return who;
}

bool daemon_check_user(const char *user, char *why, size_t why_size)
{
	return find_user(user, why, why_size) != NULL;
}

bool daemon_become_user(const char *user, char *why, size_t why_size)
{
	const struct passwd *who;

	if (!user || !*user) {
		if (geteuid() != 0)
			return true;
		snprintf(why, why_size,
			 "pgweir should not run as root: name another account with the setting \"user\" or with -u");
		return false;
	}
	who = find_user(user, why, why_size);
	if (!who)
		return false;
	if (who->pw_uid == geteuid())
		return true;
	return drop_root(who, why, why_size);
}

void daemon_allow_core_dumps(bool allow)
{
#ifdef PGWEIR_TEST_BUILD
	allow = true;
#endif
	prctl(PR_SET_DUMPABLE, allow ? 1UL : 0UL, 0UL, 0UL, 0UL);
}
