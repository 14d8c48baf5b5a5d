#ifndef WATCH_WATCHER_H
#define WATCH_WATCHER_H

#include "conn/world.h"
#include "pool/host.h"

/*
 * Watchers: a server connection to each host whose role some database asks for. Promise: a host is
 * asked every host_check_period, and at once and then every 50 ms while a primary is in doubt; a
 * watcher counts for no limit and serves no client. See watcher.c.
 */
struct watchers;

/* Reads the DataRow that answers the question, `size` bytes of body, into *answer, except for its
   time. False: malformed. */
bool watch_read_row(const uint8_t *body, size_t size, struct host_evidence *answer);
/* NULL: no memory. */
struct watchers *watchers_new(struct world *world);
/* The watchers' servers have ended. */
void watchers_free(struct watchers **watchers);
/* Called several times a second: begins, asks and ends watchers. */
void watchers_tick(struct watchers *watchers);
/* The login of a watcher's server is over: asks for the role. */
void watch_begin(struct server *server);
/* A watcher's server ends, with this text. */
void watch_end(struct server *server, enum close_reason why, const char *text);

#endif
