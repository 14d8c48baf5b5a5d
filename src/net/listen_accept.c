/*
 * Accepting connections, and handling of failures.
 *
 * One event accepts until the queue is empty: in a burst, each connection costs one accept4 and no other system call, because
 * accepted sockets inherit the options of the listening socket. A limit per event prevents that a flood blocks the established
 * connections.
 *
 * If descriptors (except a reserve) or memory are used up, accept fails while the queue stays readable, and the event loop
 * would spin. Then the listener pauses for 100 ms, and longer each time up to a second; new connections wait in the kernel's
 * queue. The begin and the end of such a period are logged.
 */
#include "net/listen_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define ACCEPTS_MOST 512		/* per event */
#define ROUNDS_ALONE 16			/* number of events that accept one connection each, after a second accept found an empty queue */
#define PAUSE_LEAST 100			/* ms */
#define PAUSE_MOST 1000
#define SPARE_MOST 32			/* descriptors that are reserved for other uses than new clients */
#define DRAIN_MOST 4096			/* accepted from the queue before closing */

static void look_away(struct listen_socket *l, int error)
{
	struct timeval wait;

	if (l->pause_ms == 0) {
		log_warning("cannot accept connections on %s: %s; trying again until it works", l->text, strerror(error));
		l->pause_ms = PAUSE_LEAST;
	} else {
		l->pause_ms = l->pause_ms * 2 < PAUSE_MOST ? l->pause_ms * 2 : PAUSE_MOST;
	}
	wait.tv_sec = l->pause_ms / 1000;
	wait.tv_usec = (suseconds_t)(l->pause_ms % 1000) * 1000;
	event_del(&l->readable);
	/* without memory for the timer, accepting resumes at once: spinning is better than never accepting again */
	if (event_add(&l->pause, &wait) != 0)
		event_add(&l->readable, NULL);
}

/* Whether the error belongs to the connection that accept would have returned (accept(2)), not to the listener. */
static bool is_error_of_peer(int error)
{
	switch (error) {
	case EINTR: case ECONNABORTED: case EPROTO: case EPERM: case ENETDOWN: case ENOPROTOOPT: case EHOSTDOWN:
	case ENONET: case EHOSTUNREACH: case EOPNOTSUPP: case ENETUNREACH: case ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

/* Returns the number that the next descriptor will have. */
static rlim_t next_descriptor(const struct listen_socket *l)
{
	int probe = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);

	if (probe < 0)
		return RLIM_INFINITY;
	close(probe);
	return (rlim_t)probe;
}

/*
 * The last descriptors are reserved: without them, pgweir could not open server connections for connected clients. A new
 * descriptor has the lowest free number, so its number shows how many are in use; while it is far below the limit, no system
 * call is needed.
 */
static bool update_descriptor_limit(struct listen_socket *l)
{
	struct rlimit limit;
	rlim_t spare;

	if (l->next < l->ceiling)
		return false;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return false;
	spare = limit.rlim_cur / 4 < SPARE_MOST ? limit.rlim_cur / 4 : SPARE_MOST;
	l->ceiling = limit.rlim_cur - spare;
	l->next = next_descriptor(l);
	return l->next >= l->ceiling;
}

/* Accepts one connection. False: no more connections can be accepted now. */
static bool accept_one(struct listen_socket *l)
{
	struct address peer;
	int fd;

	if (update_descriptor_limit(l)) {
		look_away(l, EMFILE);
		return false;
	}
	peer.size = sizeof peer.u;
	fd = accept4(l->fd, &peer.u.any, &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		if (l->leaving)		/* it inherited the filter of listen_socket_leave */
			listen_socket_set_option(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
		l->next = (rlim_t)fd + 1;
		if (l->pause_ms)
			log_info("accepting connections on %s again", l->text);
		l->pause_ms = 0;
		l->accepted(l->context, fd, &peer, l);
		return true;
	}
	if (is_error_of_peer(errno))
		return true;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		look_away(l, errno);
	return false;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct listen_socket *l = arg;
	int most = l->alone > 0 ? 1 : ACCEPTS_MOST, taken = 0;
	bool more = true;

	(void)fd, (void)what;
	l->in_callback = true;
	while (more && taken < most && l->accepting && !l->closed) {
		more = accept_one(l);
		taken += more;
	}
	l->in_callback = false;
	if (l->closed)
		mem_free(l);
	else if (l->alone > 0)
		l->alone--;
	else if (taken == 1 && !more)
		l->alone = ROUNDS_ALONE;
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
	struct listen_socket *l = arg;

	(void)fd, (void)what;
	if (event_add(&l->readable, NULL) != 0)
		look_away(l, ENOMEM);
}

void listen_socket_assign_events(struct listen_socket *l, struct event_base *base)
{
	event_assign(&l->readable, base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	event_assign(&l->pause, base, -1, 0, on_pause_over, l);
}

void listen_socket_set_accepting(struct listen_socket *l, bool on)
{
	if (on == l->accepting)
		return;
	l->accepting = on;
	if (!on) {
		event_del(&l->readable);
		event_del(&l->pause);
	} else if (event_add(&l->readable, NULL) != 0) {
		look_away(l, ENOMEM);
	}
}

void listen_socket_drain(struct listen_socket *l)
{
	for (int i = 0; i < DRAIN_MOST && l->accepting && !l->closed && accept_one(l); i++)
		;
}
