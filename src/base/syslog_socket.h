#ifndef BASE_SYSLOG_SOCKET_H
#define BASE_SYSLOG_SOCKET_H

#include "base/clock.h"

#include <stdbool.h>

/*
 * A replacement for syslog(3) that never blocks: see syslog_socket.c. Any number of sockets may be
 * open, each for its own daemon.
 */
#define SYSLOG_PATH "/dev/log"		/* the socket of the system's daemon */

struct syslog_socket {
	const char *path;		/* of the daemon's socket, not copied */
	int fd;				/* -1: not connected */
	bool is_stream;
	usec_t next_try;		/* monotonic: no attempt to connect before */
};

#define SYSLOG_SOCKET(where) { .path = (where), .fd = -1 }

/* Sends one line, "<PRI>Mmm dd hh:mm:ss IDENT[PID]: TEXT". `priority` is facility | severity as in
   <syslog.h>; the text has no line feed and no NUL. Connects if needed, at most once a second while
   no daemon listens. False: the line is lost; later lines may be sent. */
bool syslog_socket_send(struct syslog_socket *socket, int priority, const char *ident,
			const char *text);
/* Closes the connection; the next line connects again. Does nothing if it is closed. */
void syslog_socket_close(struct syslog_socket *socket);

#endif
