/* Notifications to systemd, received by a datagram socket, and sockets passed by systemd. */
#include "unit.h"

#include "main/notify.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

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
	notify_ready();
	CHECK_TEXT(hear(), "READY=1");
	notify_reloading();
	CHECK(strncmp(hear(), "RELOADING=1\nMONOTONIC_USEC=", 27) == 0);
	CHECK(atoll(heard + 27) > 0);
	notify_status("%d clients, %s", 7, "fine");
	CHECK_TEXT(hear(), "STATUS=7 clients, fine");
	notify_stopping();
	CHECK_TEXT(hear(), "STOPPING=1");
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
	count = notify_listen_fds(fds, 4);
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
	notify_ready();
	notify_reloading();
	notify_status("%s", "unheard");
	notify_stopping();
	CHECK_INT(notify_listen_fds(fds, 1), 0);
	CHECK_INT(fds[0], -1);
}

UNIT_MAIN
