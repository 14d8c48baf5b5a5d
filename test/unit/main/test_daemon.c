/* Daemonising: the exit status for the caller and the state of the daemon; dropping root privileges. */
#include "child.h"
#include "unit.h"

#include "main/daemon.h"

#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {			/* from the daemon to the test */
	pid_t pid, session;
	bool is_stderr_kept, is_stdout_null, is_ready_twice_harmless;
};

static bool leads_nowhere(int fd)
{
	char path[64], target[64];
	ssize_t size;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	size = readlink(path, target, sizeof target - 1);
	if (size < 0)
		return false;
	target[size] = '\0';
	return strcmp(target, "/dev/null") == 0;
}

/* Runs the daemon of the test; `ready`: the daemon completes its start. */
static void live(int fd, bool ready, const struct child *caller)
{
	struct report r = { .pid = getpid(), .session = getsid(0) };

	r.is_stderr_kept = leads_nowhere(STDIN_FILENO) && !leads_nowhere(STDERR_FILENO);
	if (ready) {
		daemon_ready(&fd);
		r.is_stdout_null = leads_nowhere(STDOUT_FILENO) && leads_nowhere(STDERR_FILENO);
		daemon_ready(&fd);
		r.is_ready_twice_harmless = fd == -1;
	}
	child_report(caller, &r, sizeof r);
	_exit(0);
}

/* Returns the exit status that the caller of a daemon gets. */
static int start(bool ready, struct report *report)
{
	struct child caller;
	int status;

	if (child_fork(&caller)) {
		int fd = daemon_start();

		if (fd < 0)
			_exit(77);
		live(fd, ready, &caller);
	}
	status = child_end(&caller, report, sizeof *report);
	CHECK(report->pid != caller.pid);
	return status;
}

TEST(caller_learns_of_success)
{
	struct report r = { 0 };

	CHECK_INT(start(true, &r), 0);
	CHECK(r.is_stdout_null);
	CHECK(r.is_ready_twice_harmless);
}

TEST(caller_learns_of_failure)
{
	struct report r = { 0 };

	CHECK_INT(start(false, &r), 1);
	CHECK(r.is_stderr_kept);
}

TEST(daemon_is_in_a_new_session_but_not_its_leader)
{
	struct report r = { 0 };

	start(true, &r);
	CHECK(r.session != getsid(0));
	CHECK(r.session != r.pid);
}

TEST(daemon_survives_a_killed_caller)
{
	int gate[2], ends[2];
	char byte;
	pid_t caller;

	REQUIRE(pipe(gate) == 0 && pipe(ends) == 0);
	fflush(NULL);
	caller = fork();
	if (caller == 0) {
		int fd = daemon_start();

		signal(SIGPIPE, SIG_IGN);
		/* the daemon completes its start only after the caller has gone */
		(void)!write(ends[1], "1", 1);
		(void)!read(gate[0], &byte, 1);
		daemon_ready(&fd);
		(void)!write(ends[1], "2", 1);
		_exit(0);
	}
	close(ends[1]);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	kill(caller, SIGKILL);
	waitpid(caller, NULL, 0);
	CHECK_INT(write(gate[1], "", 1), 1);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	CHECK_INT(byte, '2');
	close(ends[0]);
	close(gate[0]);
	close(gate[1]);
}

struct identity {
	uid_t uid;
	char why[256];
};

/* Runs in a child, because dropping root is irreversible: returns 0 if the user was accepted, 1 if not, with the error in `why`. */
static int become(const char *user, struct identity *who)
{
	struct child child;

	memset(who, 0, sizeof *who);
	if (child_fork(&child)) {
		bool good = daemon_become_user(user, who->why, sizeof who->why);

		who->uid = getuid();
		child_report(&child, who, sizeof *who);
		_exit(!good);
	}
	return child_end(&child, who, sizeof *who);
}

TEST(drop_privileges)
{
	struct identity who;
	char name[64];
	const struct passwd *me = getpwuid(getuid());

	CHECK_INT(become("no such account", &who), 1);
	CHECK(strstr(who.why, "no such account"));
	CHECK_INT(become("root", &who), 1);
	CHECK(strstr(who.why, "should not run as root"));
	if (getuid() == 0) {
		CHECK_INT(become(NULL, &who), 1);
		CHECK(strstr(who.why, "should not run as root"));
		CHECK_INT(become("", &who), 1);
		CHECK_INT(become("nobody", &who), 0);
		CHECK_INT(who.uid, getpwnam("nobody")->pw_uid);
	} else {
		CHECK_INT(become(NULL, &who), 0);
		CHECK_INT(become("", &who), 0);
		CHECK_INT(become("daemon", &who), 1);
		CHECK(strstr(who.why, "cannot become user"));
		if (me) {
			snprintf(name, sizeof name, "%s", me->pw_name);
			CHECK_INT(become(name, &who), 0);
		}
	}
}

UNIT_MAIN
