#ifndef BACKEND_RETIRE_H
#define BACKEND_RETIRE_H

#include "conn/world.h"
#include "sql/sql_commands.h"

/*
 * Obsolete server connections. Promise: an obsolete server is assigned to no further client; idle
 * servers close at once, servers in use close when they are released.
 */

/* Settings or files for connecting to servers have changed: servers over TCP or over Unix sockets,
   which use no TLS, are obsolete. Closes the obsolete servers that are idle or being opened, also
   the servers that were obsolete already. */
void retire_servers(struct world *world, bool over_tcp, bool over_unix);
/* The transaction of a client has changed the defaults of new sessions on the host of this server
   (ALTER ROLE or ALTER DATABASE ... SET): all servers of the host are obsolete. At most once in
   RETIRE_PAUSE: a later change waits for retire_tick(). */
#define RETIRE_PAUSE USEC
void retire_sessions(struct server *server);
/* Called ten times a second: carries out changes that have waited; once a second lets the resolver
   watch the names of connected servers. */
void retire_tick(struct world *world);
/* A client sends this text, `size` bytes, to the server. If the text drops or renames a database,
   the idle servers of that database close, because PostgreSQL refuses to drop a database with
   sessions. PostgreSQL waits 5 seconds for the end of these sessions. */
void retire_database(struct server *server, const uint8_t *text, size_t size);
static inline void retire_for_text(struct server *s, const uint8_t *text, size_t size)
{
	if (statement_sql_may_end_database(text, size))
		retire_database(s, text, size);
}
/* The callback `changed` of struct dns_config; the context is the world. Retires servers that were
   dialled by `name`, if their address is not in the answer; servers in login have one more
   second. */
void retire_moved(void *world, const char *name, const struct dns_answer *now);

#endif
