#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include "net/address.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/*
 * The file of a listening Unix socket. `path` is its name in the file system; it is "" for an
 * abstract socket, which has no file.
 */
struct socket_file {
	bool ours;			/* this process created the file with this inode: */
	dev_t device;
	ino_t inode;
};

/*
 * A listening socket. Each readable event accepts connections until the queue is empty (or a single
 * connection, while connections come one at a time) and passes each descriptor (non-blocking,
 * close-on-exec) to its owner. If the process or the system has no descriptor left, accepting
 * pauses for a moment instead of spinning.
 */

struct listen_config {
	/* IP address, "*" is not allowed; Unix: directory or "@name", or the whole name */
	const char *host;
	/* Unix: `host` is the name of the socket, and there is no port */
	bool is_whole_name;
	uint16_t port;
	int backlog;
	bool reuseport, defer_accept;
	/* accepts also with the last descriptors, which are reserved for server connections */
	bool uses_reserve;
	int unix_mode;			/* 0777; ignored for TCP and abstract names */
	const char *unix_group;		/* NULL: unchanged */
	struct socket_options options;
};

struct listen_socket;
typedef void listen_accept(void *context, int fd, const struct address *peer,
			   struct listen_socket *from);

struct listen_socket {
	/* other files may read these: */
	int fd;
	uint16_t port;
	struct socket_file file;
	struct address address;
	/* "127.0.0.1:6432", "[::]:6432", "unix:/tmp/.s.PGSQL.6432" */
	char text[128];
	/* only listen.c uses these: */
	struct event readable, pause;
	listen_accept *accepted;
	void *context;
	bool shares_port;		/* other processes may listen on it too */
	/* listen_socket_leave was called: the kernel drops SYN packets */
	bool leaving;
	bool accepting;			/* set by the owner */
	bool in_callback, closed;	/* the owner may close the listener within `accepted` */
	/* for this number of events, one connection is accepted per event, because single
	   connections mostly follow one another singly, and a second accept() would find none */
	unsigned alone;
	unsigned pause_ms;		/* 0: the last accept succeeded */
	/* a lower bound for the number of the next descriptor; from `ceiling` on, the limit of
	   descriptors is near */
	rlim_t next, ceiling;
	struct socket_options system;	/* the kernel's values, for options that are 0 */
};

/* Binds and listens. Returns NULL with a text in `why`, and errno: EADDRNOTAVAIL: this machine does
   not have the address; EAFNOSUPPORT: the kernel does not support the family. Replaces a Unix
   socket file without a listening process. */
struct listen_socket *listen_socket_open(struct event_base *base,
					 const struct listen_config *config, listen_accept *accept,
					 void *context, char *why, size_t why_size);
/* Takes ownership of a listening descriptor (from systemd, or at a takeover). NULL with a text. */
struct listen_socket *listen_socket_adopt(struct event_base *base, int fd, listen_accept *accept,
					  void *context, char *why, size_t why_size);
/* The process that created the socket has ended: from now on options, backlog, mode and group come
   from `config` (NULL: unchanged), and with `owns_file` this process removes the file of a Unix
   socket. Errors are logged. */
void listen_socket_succeed(struct listen_socket *l, const struct listen_config *config,
			   bool owns_file);
/* Stops or resumes accepting; the socket stays open. */
void listen_socket_set_accepting(struct listen_socket *l, bool on);
/* Sets the options of accepted sockets after a RELOAD. */
void listen_socket_set_options(struct listen_socket *l, const struct socket_options *options,
			       bool defer_accept);
static inline bool listen_socket_is_unix(const struct listen_socket *l)
{
	return l->address.u.any.sa_family == AF_UNIX;
}
/* Called shortly before closing: if other processes share the port and the kernel permits it, new
   connections go to these processes from now on, and connections in the queue are still accepted.
   False: the port is not shared, or the socket was adopted, so another process may continue to use
   this very socket. */
bool listen_socket_leave(struct listen_socket *l);
/* Accepts the connections in the queue of the kernel. The owner must not close the listener during
   the call. */
void listen_socket_drain(struct listen_socket *l);
/* Closes the socket; with `unlink_file` the file of a Unix socket is removed if this process
   created it. Sets *l to NULL. */
void listen_socket_close(struct listen_socket **l, bool unlink_file);

/* Whether this process may give a file to the group. False with a text in `why`. */
bool socket_file_check_group(const char *group, char *why, size_t why_size);

#endif
