#ifndef LISTENING_H
#define LISTENING_H

/* A listener, connections to it, and the accepted connections. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/listen.h"
#include "unit.h"

#define MOST 2000

static struct event_base *base;
static int accepted[MOST], count, accepts;
static struct listen_socket *listening;
static bool stop_on_accept, close_on_accept, any_listener;
static char why[300];

/* Counts attempts in place of the library function, which is only the system call. */
int accept4(int fd, struct sockaddr *peer, socklen_t *size, int flags)
{
	accepts++;
	return (int)syscall(SYS_accept4, fd, peer, size, flags);
}

static void on_accept(void *context, int fd, const struct address *peer, struct listen_socket *from)
{
	(void)context;
	CHECK(any_listener || from == listening);
	CHECK(peer->u.any.sa_family == AF_INET || peer->u.any.sa_family == AF_INET6 || peer->u.any.sa_family == AF_UNIX);
	accepted[count++] = fd;
	if (stop_on_accept)
		listen_socket_set_accepting(from, false);
	if (close_on_accept)
		listen_socket_close(&listening, true);
}

static void begin(void)
{
	base = event_base_new();
	count = accepts = 0;
	stop_on_accept = close_on_accept = any_listener = false;
	why[0] = '\0';
}

static void end(void)
{
	listen_socket_close(&listening, true);
	while (count > 0)
		close(accepted[--count]);
	event_base_free(base);
}

static inline void until(int wanted)
{
	alarm(20);
	while (count < wanted)
		event_base_loop(base, EVLOOP_ONCE);
	alarm(0);
}

static inline int dial(const struct listen_socket *l)
{
	struct address a;
	int fd;

	a.size = sizeof a.u;
	getsockname(l->fd, &a.u.any, &a.size);
	fd = socket(a.u.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect(fd, &a.u.any, a.size) != 0 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

#endif
