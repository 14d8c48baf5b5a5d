#ifndef NET_LISTEN_PARTS_H
#define NET_LISTEN_PARTS_H

#include "net/listen.h"
#include "net/socket_file.h"

#include <event2/event_struct.h>
#include <sys/resource.h>

/* What listen.c (opening, options, closing) and listen_accept.c share. */

struct listener {
	int fd;
	struct event readable, pause;
	listen_accept *accepted;
	void *context;
	struct address address;
	uint16_t port;
	bool shares_port;		/* other processes may listen on it too */
	bool leaving;			/* the kernel drops what would begin a connection */
	bool accepting;			/* what the owner wants */
	bool in_callback, closed;	/* the owner may close from within `accepted` */
	unsigned alone;			/* so many events more bring one each: a client that comes alone is mostly followed by another alone */
	unsigned pause_ms;		/* 0: the last accept was fine */
	rlim_t next, ceiling;		/* the next descriptor is at least this; from here on the limit is near */
	struct socket_options system;	/* what the kernel gives where an option is 0 */
	struct socket_file file;
	char text[128];
};

/* ---- listen.c ---- */

/* False with errno. */
bool listener_set_option(int fd, int level, int name, int value);

/* ---- listen_accept.c ---- */

void listener_assign_events(struct listener *listener, struct event_base *base);

#endif
