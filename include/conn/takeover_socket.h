#ifndef CONN_TAKEOVER_SOCKET_H
#define CONN_TAKEOVER_SOCKET_H

#include "net/listen.h"

/*
 * The socket on which a running process listens for the process that replaces it: see
 * takeover_socket.c.
 */

struct settings;
enum taker_found { TAKER_FOUND, TAKER_NOBODY, TAKER_REFUSED };

/* Listens beside the pidfile, or else beside the Unix socket for clients. The caller owns the
   result. NULL with a text: not possible. */
struct listen_socket *takeover_socket_open(struct event_base *base, const struct settings *settings,
					   listen_accept *accept, void *context, char *why,
					   size_t why_size);
/* Connects to the running process; the caller owns *fd, which is non-blocking. TAKER_NOBODY: no
   process listens; TAKER_REFUSED: a process accepted no connection for some seconds, or the
   settings name no place; both with a text. */
enum taker_found takeover_socket_connect(const struct settings *settings, int *fd, char *why,
					 size_t why_size);
/* Whether the user of the peer is the user of this process. Sets *pid to the process of the
   peer. */
bool takeover_check_user(int fd, int32_t *pid);

#endif
