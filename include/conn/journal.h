#ifndef CONN_JOURNAL_H
#define CONN_JOURNAL_H

#include "conn/server.h"

/*
 * Messages that pgweir itself sends to a server: see journal.c.
 */

/* Sends complete messages after all bytes already sent to the server, and enters them in its ledger with this mark. The caller has flushed the
   gathered bytes of a client; no message of the client is half sent, no COPY may begin before these messages (ledger_may_copy), and the server
   does not skip messages until a Sync (ledger_enters). False: the connection is broken, or no memory; the caller ends the connection. */
bool journal_send(struct server *server, enum ledger_mark mark, const struct bytes *messages);

#endif
