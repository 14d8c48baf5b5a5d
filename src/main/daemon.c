/*
 * The process as a daemon: going into the background, switching from root to another user, and
 * limits.
 *
 * As usual there are two forks: the first child starts a session and ends; the second is not a
 * session leader and can never get a controlling terminal. The calling process waits until the
 * daemon listens, so its exit status tells whether the start succeeded, and its caller may connect
 * as soon as it returns. All three share a pipe: a byte means ready, an end without a byte means
 * that the daemon has ended.
 */
#include "main/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

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

int daemon_start(void)
{
	int ends[2];
	pid_t child;
	ssize_t size;
	char byte;

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
		/* the rest of the life of the calling process; _exit, because the daemon owns the
		   buffers and exit handlers */
		close(ends[1]);
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
		do
			size = read(ends[0], &byte, 1);
		while (size < 0 && errno == EINTR);
		_exit(size == 1 ? 0 : 1);
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

enum daemon_user daemon_become_user(const char *user, char *why, size_t why_size)
{
	const struct passwd *who;

	if (!user || !*user) {
		if (geteuid() != 0)
			return DAEMON_USER_TAKEN;
		snprintf(why, why_size,
			 "pgweir should not run as root: name another account with the setting "
			 "\"user\" or with -u");
		return DAEMON_USER_REFUSED;
	}
	errno = 0;
	who = getpwnam(user);
	if (!who) {
		snprintf(why, why_size, "user \"%s\": %s", user,
			 errno ? strerror(errno) : "there is no such account");
		return DAEMON_USER_UNUSABLE;
	}
	if (who->pw_uid == 0) {
		snprintf(why, why_size, "user \"%s\" is root: pgweir should not run as root", user);
		return DAEMON_USER_UNUSABLE;
	}
	if (who->pw_uid == geteuid())
		return DAEMON_USER_TAKEN;
	if (initgroups(who->pw_name, who->pw_gid) < 0 || setgid(who->pw_gid) < 0 ||
	    setuid(who->pw_uid) < 0) {
		snprintf(why, why_size, "cannot become user \"%s\": %s", who->pw_name,
			 strerror(errno));
		return DAEMON_USER_REFUSED;
	}
	/* becoming root again must be impossible */
	if (setuid(0) == 0) {
		snprintf(why, why_size, "user \"%s\" can become root again", who->pw_name);
		return DAEMON_USER_REFUSED;
	}
	return DAEMON_USER_TAKEN;
}

/* ---- limits of the operating system ---- */

/*
 * Every connection takes a descriptor, and without descriptors pgweir would refuse clients that
 * the configuration admits. A low limit is logged at start, before it has an effect.
 */

void limits_need_descriptors(uint64_t count)
{
	struct rlimit have, want;

	if (getrlimit(RLIMIT_NOFILE, &have) < 0) {
		log_warning("cannot read the limit of open files: %s", strerror(errno));
		return;
	}
	/* RLIM_INFINITY is the largest number */
	if (have.rlim_cur >= count)
		return;
	want = (struct rlimit){ count, count };
	if (have.rlim_max < count && setrlimit(RLIMIT_NOFILE, &want) == 0)
		return;
	want = (struct rlimit){ have.rlim_max < count ? have.rlim_max : count, have.rlim_max };
	setrlimit(RLIMIT_NOFILE, &want);
}

void limits_log(uint64_t count, int64_t max_client_conn)
{
	struct rlimit have;

	if (getrlimit(RLIMIT_NOFILE, &have) < 0)
		return;
	log_info("kernel file descriptor limit: %" PRId64 " (hard: %" PRId64
		 "); max_client_conn: %" PRId64 ", max expected fd use: %" PRIu64,
		 (int64_t)have.rlim_cur, (int64_t)have.rlim_max, max_client_conn, count);
	if (have.rlim_cur < count)
		log_warning("the configuration may need %" PRIu64 " open files, but only %" PRIu64
			    " are allowed: raise the limit "
			    "(LimitNOFILE= of the service, or \"ulimit -n\"), or lower "
			    "max_client_conn or the pool sizes",
			    count, (uint64_t)have.rlim_cur);
}
