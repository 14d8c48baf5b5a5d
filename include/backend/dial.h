#ifndef BACKEND_DIAL_H
#define BACKEND_DIAL_H

#include "backend/server_info.h"

/*
 * Opening a server connection: name, connect, TLS, start-up, password, parameters. Promise: a
 * server leaves SERVER_LOGIN only with a complete login, or ends with a reason; nothing blocks.
 */

/* Opens a server for the pool, with the start-up parameters of the client (NULL: none) in session
   mode, and with the parameters in `kept` (name\0value\0 ...; NULL: none). */
void dial_begin(struct pool *pool, struct world *world, const struct client *client,
		const struct bytes *kept);
/* Opens a watcher's connection to the host of the pool (LOGIN, is_watcher). NULL: no memory. */
struct server *dial_to_watch(struct pool *pool, struct world *world);
/* Opens the connection that carries a cancel request for `target`; `connected` is called when it is
   connected. Returns the connection (LOGIN, is_cancel), or NULL. */
struct server *dial_for_cancel(struct server *target, void (*connected)(struct server *carrier));
/* Events of the socket: connected, TLS handshake complete (`error` NULL: success), readable. */
void dial_connected(struct server *server, const char *error);
void dial_secured(struct server *server, const char *error);
void dial_read(struct server *server, bool from_socket);
/* The address that is tried does not work: tries another address or host, or ends the server if
   there is none. For failures that another server may not have; a server with a final answer (a
   refused password) ends with server_end. */
void dial_give_way(struct server *server, enum close_reason why, const char *detail);
/* Connects to the same address again, in a later turn. */
void dial_again(struct server *server);
/* Called about ten times a second: server_connect_timeout, and the part of it for each address. */
void dial_tick(struct server *server);
/* Notes at the host whether the dial has opened a server there: host_note_attempt(). */
bool dial_note_attempt(const struct server *server, struct host *host, enum close_reason why,
		       const char *text);
/* The server, or the watcher, has ended in its login: notes at its host whether the host works.
   `text`: the error for clients. Returns whether the login before it has failed in the same way:
   then the log has its line. */
bool dial_note_failure(struct server *server, enum close_reason why, const char *text);
/* Whether the last attempt of the pool, or at the host, has failed with an error that contains this
   text: the log has its line, and an alarm tells that it lasts. */
bool dial_failed_alike(const struct server *server, const char *text);
void dial_free(struct server *server);

/* The only writer of dial->step: asserts that tbl/dial_step.tbl allows the move. */
void dial_step_to(struct dial *dial, enum dial_step step);
/* Whether the StartupMessage has been sent and messages of the server are expected. */
static inline bool dial_step_reads_messages(enum dial_step step)
{
	return step >= DIAL_STARTUP && step != DIAL_DERIVE;
}

#endif
