#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "net/address.h"

#include <event2/event.h>

/*
 * A listening socket. Each readable event accepts connections until the queue is empty (or a single connection, while
 * connections come one at a time) and passes each descriptor (non-blocking, close-on-exec) to its owner. If the process or the
 * system has no descriptor left, accepting pauses for a moment instead of spinning.
 */
struct listen_socket;

struct listen_config {
	const char *host;		/* IP address, "*" is not allowed; Unix: directory or "@name" */
	uint16_t port;
	int backlog;
	bool reuseport, defer_accept;
	int unix_mode;			/* 0777; ignored for TCP and abstract names */
	const char *unix_group;		/* NULL: unchanged */
	struct socket_options options;
};

typedef void listen_accept(void *context, int fd, const struct address *peer, struct listen_socket *from);

/* Binds and listens. Returns NULL with a text in `why`, and errno: EADDRNOTAVAIL: this machine does not have the address;
   EAFNOSUPPORT: the kernel does not support the family. Replaces a Unix socket file without a listening process. */
struct listen_socket *listen_socket_open(struct event_base *base, const struct listen_config *config, listen_accept *accept, void *context,
			       char *why, size_t why_size);
/* Takes ownership of a listening descriptor (from systemd, or at a takeover). NULL with a text. */
struct listen_socket *listen_socket_adopt(struct event_base *base, int fd, listen_accept *accept, void *context, char *why, size_t why_size);
/* The process that created the socket has ended: from now on options, backlog, mode and group come from `config` (NULL:
   unchanged), and with `owns_file` this process removes the file of a Unix socket. Errors are logged. */
void listen_socket_succeed(struct listen_socket *l, const struct listen_config *config, bool owns_file);
/* Whether this process created the file of the Unix socket. */
bool listen_socket_owns_file(const struct listen_socket *l);
/* Stops or resumes accepting; the socket stays open. */
void listen_socket_set_accepting(struct listen_socket *l, bool on);
/* Sets the options of accepted sockets after a RELOAD. */
void listen_socket_set_options(struct listen_socket *l, const struct socket_options *options, bool defer_accept);
bool listen_socket_is_unix(const struct listen_socket *l);
uint16_t listen_socket_port(const struct listen_socket *l);
int listen_socket_fd(const struct listen_socket *l);
/* Returns "127.0.0.1:6432", "[::]:6432", "unix:/tmp/.s.PGSQL.6432", valid as long as the listener. */
const char *listen_socket_text(const struct listen_socket *l);
/* Called shortly before closing: if other processes share the port and the kernel permits it, new connections go to these
   processes from now on, and connections in the queue are still accepted. False: the port is not shared, or the socket was
   adopted, so another process may continue to use this very socket. */
bool listen_socket_leave(struct listen_socket *l);
/* Accepts the connections in the queue of the kernel. The owner must not close the listener during the call. */
void listen_socket_drain(struct listen_socket *l);
/* Closes the socket; with `unlink_file` the file of a Unix socket is removed if this process created it. Sets *l to NULL. */
void listen_socket_close(struct listen_socket **l, bool unlink_file);

#endif
