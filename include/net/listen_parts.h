#ifndef NET_LISTEN_PARTS_H
#define NET_LISTEN_PARTS_H

#include "net/listen.h"
#include "net/socket_file.h"

#include <event2/event_struct.h>
#include <sys/resource.h>

/* Shared by listen.c (opening, options, closing) and listen_accept.c. */

struct listen_socket {
	int fd;
	struct event readable, pause;
	listen_accept *accepted;
	void *context;
	struct address address;
	uint16_t port;
	bool shares_port;		/* other processes may listen on it too */
	bool leaving;			/* listen_socket_leave was called: the kernel drops SYN packets */
	bool accepting;			/* set by the owner */
	bool in_callback, closed;	/* the owner may close the listener within `accepted` */
	unsigned alone;			/* for this number of events, one connection is accepted per event: a client that connects alone is
					   usually followed by another alone */
	unsigned pause_ms;		/* 0: the last accept succeeded */
	rlim_t next, ceiling;		/* a lower bound for the number of the next descriptor; from `ceiling` on, the limit of descriptors is
					   near */
	struct socket_options system;	/* the kernel's values, for options that are 0 */
	struct socket_file file;
	char text[128];
};

/* ---- listen.c ---- */

/* False with errno. */
bool listen_socket_set_option(int fd, int level, int name, int value);

/* ---- listen_accept.c ---- */

void listen_socket_assign_events(struct listen_socket *listener, struct event_base *base);

#endif
