#ifndef BASE_SYSLOG_SOCKET_H
#define BASE_SYSLOG_SOCKET_H

#include "base/clock.h"

#include <stdbool.h>

/*
 * What syslog(3) does, without ever waiting: see syslog_socket.c. Any number of them may be open, each to a daemon of its own.
 */
#define SYSLOG_PATH "/dev/log"		/* where the system's daemon listens */

struct syslog_socket {
	const char *path;		/* of the daemon's socket; its owner keeps it as long as this lives */
	int fd;				/* -1: not connected */
	bool is_stream;
	usec_t next_try;		/* monotonic: it is not looked for again before */
};

#define SYSLOG_SOCKET(where) { .path = (where), .fd = -1 }

/* One line, as "<PRI>Mmm dd hh:mm:ss IDENT[PID]: TEXT". `priority` is facility | severity as in <syslog.h>; the text has no line
   feed and no NUL in it. Connects when it has to, at most once a second while no daemon listens. False: the line is lost; the next one
   may be sent all the same. */
bool syslog_socket_send(struct syslog_socket *socket, int priority, const char *ident, const char *text);
/* The next line connects anew. Harmless when it is closed. */
void syslog_socket_close(struct syslog_socket *socket);

#endif
