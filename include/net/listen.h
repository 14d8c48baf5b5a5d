#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "net/address.h"

#include <event2/event.h>

/*
 * A listening socket. It accepts until the queue is empty (or one at a time while they come one at a time), hands each descriptor
 * (non-blocking, close-on-exec) to its owner and, when the process or the system has no
 * descriptor left, pauses for a moment instead of spinning.
 */
struct listener;

struct listen_config {
	const char *host;		/* IP address, "*" is not known here; Unix: directory or "@name" */
	uint16_t port;
	int backlog;
	bool reuseport, defer_accept;
	int unix_mode;			/* 0777; ignored for TCP and abstract names */
	const char *unix_group;		/* NULL: leave */
	struct socket_options options;
};

typedef void listen_accept(void *context, int fd, const struct address *peer, struct listener *from);

/* Binds and listens. NULL with a text in `why`, and errno: EADDRNOTAVAIL, this machine does not have the address; EAFNOSUPPORT, its
   kernel not the family. A Unix socket file that no process listens on any more is replaced. */
struct listener *listener_open(struct event_base *base, const struct listen_config *config, listen_accept *accept, void *context,
			       char *why, size_t why_size);
/* Takes over a descriptor that listens already (systemd, takeover). NULL with a text. */
struct listener *listener_adopt(struct event_base *base, int fd, listen_accept *accept, void *context, char *why, size_t why_size);
/* The process that made the socket has let it go: options, backlog, mode and group are those of `config` (NULL: stay) from now
   on; `owns_file`: a Unix socket's file is removed with it. What cannot be set is logged. */
void listener_succeed(struct listener *l, const struct listen_config *config, bool owns_file);
/* A Unix socket with a file of our making. */
bool listener_owns_file(const struct listener *l);
/* Stops (false) or resumes (true) accepting; the socket stays. */
void listener_set_accepting(struct listener *l, bool on);
/* Sets the options of accepted sockets anew after a RELOAD. */
void listener_set_options(struct listener *l, const struct socket_options *options, bool defer_accept);
bool listener_is_unix(const struct listener *l);
uint16_t listener_port(const struct listener *l);
int listener_fd(const struct listener *l);
/* "127.0.0.1:6432", "[::]:6432", "unix:/tmp/.s.PGSQL.6432". Lives as long as the listener. */
const char *listener_text(const struct listener *l);
/* A moment before it is closed: where other processes share its port, connections that begin from now on are left to them if
   the kernel permits; those that have begun are still accepted. False: no process shares it (or the socket was adopted:
   then another process may go on with this very socket). */
bool listener_leave(struct listener *l);
/* Accepts what waits in the kernel's queue. The owner must not close it meanwhile. */
void listener_drain(struct listener *l);
/* Closes; `unlink_file`: a Unix socket file of its own making is removed. Sets *l to NULL. */
void listener_close(struct listener **l, bool unlink_file);

#endif
