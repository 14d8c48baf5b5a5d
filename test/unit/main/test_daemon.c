/* Daemonising: the exit status for the caller and the state of the daemon; dropping root privileges. */
#include "child.h"
#include "unit.h"

#include "base/log.h"
#include "base/service.h"
#include "main/daemon.h"

#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
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
		bool good = daemon_become_user(user, who->why, sizeof who->why) == DAEMON_USER_TAKEN;

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

/* ---- RLIMIT_NOFILE: each case runs in its own process, because a lowered hard limit cannot be raised again ---- */

struct outcome {
	struct rlimit after;
	char logged[512];
};

static struct outcome need(rlim_t soft, rlim_t hard, bool as_root, uint64_t count)
{
	struct outcome o = { 0 };
	struct child child;

	if (child_fork(&child)) {
		char path[] = "/tmp/test_limits.XXXXXX";
		int fd = mkstemp(path);
		struct log_config config = { .file = path, .quiet = true };
		struct rlimit before = { soft, hard };

		/* The log is unlinked after it is open, so nothing is left even if this process is killed. */
		if (!log_configure(&config) || unlink(path) < 0 || setrlimit(RLIMIT_NOFILE, &before) < 0)
			_exit(2);
		if (!as_root && getuid() == 0 && setuid(65534) < 0)
			_exit(2);
		limits_need_descriptors(count);
		limits_log(count, 100);
		getrlimit(RLIMIT_NOFILE, &o.after);
		log_close();
		(void)!read(fd, o.logged, sizeof o.logged - 1);
		child_report(&child, &o, sizeof o);
		_exit(0);
	}
	CHECK_INT(child_end(&child, &o, sizeof o), 0);
	return o;
}

static bool is_only_line(const struct outcome *o, const char *line)
{
	const char *found = strstr(o->logged, line);

	return found && found[strlen(line)] == '\0' && strchr(o->logged, '\n') == found + strlen(line) - 1;
}

TEST(sufficient_limit_is_not_changed)
{
	struct outcome o = need(200, 400, false, 150);

	CHECK_INT(o.after.rlim_cur, 200);
	CHECK(is_only_line(&o, "LOG kernel file descriptor limit: 200 (hard: 400); max_client_conn: 100, max expected fd use: 150\n"));
}

TEST(soft_limit_is_raised_to_the_need)
{
	struct outcome o = need(200, 400, false, 300);

	CHECK_INT(o.after.rlim_cur, 300);
	CHECK_INT(o.after.rlim_max, 400);
	CHECK(is_only_line(&o, "LOG kernel file descriptor limit: 300 (hard: 400); max_client_conn: 100, max expected fd use: 300\n"));
}

TEST(insufficient_limit_is_logged_and_raised_to_the_maximum)
{
	struct outcome o = need(200, 400, false, 5000);

	CHECK_INT(o.after.rlim_cur, 400);
	CHECK(strstr(o.logged, "WARNING") && strstr(o.logged, "5000") && strstr(o.logged, "400"));
	CHECK(strstr(o.logged, "LimitNOFILE=") && strstr(o.logged, "max_client_conn"));
}

/* Containers may remove this capability from root. */
TEST(root_raises_the_hard_limit)
{
	struct rlimit now, more;

	getrlimit(RLIMIT_NOFILE, &now);
	more = now;
	more.rlim_max = now.rlim_max == RLIM_INFINITY ? now.rlim_max : now.rlim_max + 1;
	if (getuid() != 0 || setrlimit(RLIMIT_NOFILE, &more) < 0) {
		printf("(needs a privileged root)\n");
		return;
	}
	struct outcome o = need(200, 400, true, 5000);

	CHECK_INT(o.after.rlim_cur, 5000);
	CHECK_INT(o.after.rlim_max, 5000);
	CHECK(!strstr(o.logged, "WARNING"));
}

/* ---- notifications for systemd ---- */

#ifdef HAVE_LIBSYSTEMD

static int manager = -1;
static char heard[512];

static void begin(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[64];
	int size = snprintf(name, sizeof name, "@pgweir-test-%ld", (long)getpid());

	memcpy(address.sun_path, name, (size_t)size);
	address.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (bind(manager, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size)) < 0)
		abort();
	setenv("NOTIFY_SOCKET", name, 1);
}

static void end(void)
{
	unsetenv("NOTIFY_SOCKET");
	close(manager);
}

static const char *hear(void)
{
	ssize_t size = recv(manager, heard, sizeof heard - 1, 0);

	heard[size < 0 ? 0 : size] = '\0';
	return heard;
}

TEST(notification_messages)
{
	begin();
	service_notify("READY=1");
	CHECK_TEXT(hear(), "READY=1");
	service_notify("MAINPID=%d", 7);
	CHECK_TEXT(hear(), "MAINPID=7");
	CHECK_TEXT(hear(), "");
	end();
}

/* Prepares descriptors 3 to 5 as systemd passes them: a listening socket, a socket that does not listen, a listening socket. */
static int be_activated(void)
{
	int fds[4] = { -1, -1, -1, -1 };
	char pid[32];
	size_t count;

	for (int fd = 3; fd <= 5; fd++) {
		int s = socket(AF_INET, SOCK_STREAM, 0);

		if (fd != 4 && listen(s, 1) < 0)
			return 10;
		if (s != fd) {
			dup2(s, fd);
			close(s);
		}
	}
	snprintf(pid, sizeof pid, "%ld", (long)getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", "3", 1);
	count = service_listen_fds(fds, 4);
	if (count != 2 || fds[0] != 3 || fds[1] != 5)
		return 11;
	if (getenv("LISTEN_FDS"))
		return 12;
	if (dup(STDOUT_FILENO) != 4)	/* the socket that does not listen was closed */
		return 13;
	return 0;
}

TEST(passed_sockets)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		for (int fd = 3; fd < 64; fd++)
			close(fd);
		_exit(be_activated());
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), 0);
}

#endif

TEST(nothing_without_systemd)
{
	int fds[1] = { -1 };

	unsetenv("NOTIFY_SOCKET");
	unsetenv("LISTEN_FDS");
	service_notify("READY=%d", 1);
	CHECK_INT(service_listen_fds(fds, 1), 0);
	CHECK_INT(fds[0], -1);
}

UNIT_MAIN
