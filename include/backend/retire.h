#ifndef BACKEND_RETIRE_H
#define BACKEND_RETIRE_H

#include "conn/world.h"
#include "pg/statement_sql.h"

/*
 * Server connections that have become obsolete: those in use are closed when they are released, the others
 * at once, unless it is said otherwise.
 */

/* Settings or TLS files that server connections depend on are others: every one retires, those over Unix
   sockets, which know no TLS, only with unix_too. */
void retire_all(struct world *world, bool unix_too);
/* Those that were marked as obsolete elsewhere and that no client uses, or that are being opened, end. */
void retire_unused(struct world *world);
/* A client has changed with what sessions on the host of this server begin (ALTER ROLE or ALTER DATABASE ... SET), and its transaction is over:
   all servers of this host are obsolete. Not more often than every RETIRE_PAUSE: a change within that time waits for retire_due(). */
#define RETIRE_PAUSE USEC
void retire_sessions(struct server *server);
/* Ten times a second: carries out what has waited. */
void retire_due(struct world *world);
/* A client sends this text, `size` bytes, to the server. If the text drops or renames a database, the idle servers of that database end, because PostgreSQL
   refuses to drop a database that has sessions. PostgreSQL waits for their end (5 s). */
void retire_database(struct server *server, const uint8_t *text, size_t size);
static inline void retire_for_text(struct server *s, const uint8_t *text, size_t size)
{
	if (statement_sql_may_end_database(text, size))
		retire_database(s, text, size);
}
/* The resolver's dns_on_change; the context is the world: connections dialled by `name` with an address that
   is not in the answer. Those that are being opened have a second left. */
void retire_moved(void *world, const char *name, const struct dns_answer *now);
/* About once a second: has the resolver watch the names that server connections were dialled by, so that retire_moved hears of
   changes while nothing is dialled. */
void retire_watch(struct world *world);

#endif
