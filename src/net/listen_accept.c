/*
 * Accepting, and what to do when it fails.
 *
 * One event accepts until the queue is empty: a burst of connections costs one accept4 each and nothing else, because the
 * options that each should have are set on the listening socket, which hands them on. A cap keeps a flood from
 * shutting out all that are connected already.
 *
 * Without descriptors (but a few) or memory the queue stays readable and accept goes on failing: waiting on it would
 * spin. The listener then looks away for 100 ms, longer each time up to a second, and the kernel's queue holds the
 * clients meanwhile. The log gets one line when this begins and one when it is over.
 */
#include "net/listen_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define ACCEPTS_MOST 512		/* in one event */
#define ROUNDS_ALONE 16			/* events in which one is taken, after a look behind it that was in vain */
#define PAUSE_LEAST 100			/* ms */
#define PAUSE_MOST 1000
#define SPARE_MOST 32			/* descriptors that are not given to new clients */
#define DRAIN_MOST 4096			/* taken from the queue at the end */

static void look_away(struct listener *l, int error)
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
	/* without memory for the pause it looks again at once: better busy than deaf, and what is there for a socket stays there */
	if (event_add(&l->pause, &wait) != 0)
		event_add(&l->readable, NULL);
}

/* Errors of the one connection that accept was about to return (accept(2)), not of the listener. */
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

/* The number that the next descriptor will have. */
static rlim_t next_descriptor(const struct listener *l)
{
	int probe = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);

	if (probe < 0)
		return RLIM_INFINITY;
	close(probe);
	return (rlim_t)probe;
}

/*
 * The last descriptors are not for new clients: with none left, nothing could be opened for connected ones. A new
 * descriptor is always the lowest that is free, so its number says how many are taken; while it is far below
 * the limit nothing has to be asked.
 */
static bool is_crowded(struct listener *l)
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

/* False when there is nothing more to accept now. */
static bool accept_one(struct listener *l)
{
	struct address peer;
	int fd;

	if (is_crowded(l)) {
		look_away(l, EMFILE);
		return false;
	}
	peer.size = sizeof peer.u;
	fd = accept4(l->fd, &peer.u.any, &peer.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		if (l->leaving)		/* it has inherited the filter, and has no use for it */
			listener_set_option(fd, SOL_SOCKET, SO_DETACH_FILTER, 0);
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
	struct listener *l = arg;
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
	struct listener *l = arg;

	(void)fd, (void)what;
	if (event_add(&l->readable, NULL) != 0)
		look_away(l, ENOMEM);
}

void listener_assign_events(struct listener *l, struct event_base *base)
{
	event_assign(&l->readable, base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	event_assign(&l->pause, base, -1, 0, on_pause_over, l);
}

void listener_set_accepting(struct listener *l, bool on)
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

void listener_drain(struct listener *l)
{
	for (int i = 0; i < DRAIN_MOST && l->accepting && !l->closed && accept_one(l); i++)
		;
}
