#ifndef CONN_JOURNAL_H
#define CONN_JOURNAL_H

#include "conn/server.h"

/*
 * Messages that the pooler itself sends to a server: see journal.c.
 */

/* Sends whole messages, after all bytes already sent to the server, and enters them in its ledger as the pooler's, with this mark. The
   bytes of a client that are still gathered for the server are to be flushed before; a message of the client's must not be half sent, no COPY
   may begin before it (ledger_may_copy), and the server must not be skipping to a Sync (ledger_enters). False: the connection is broken or
   there is no memory, and it is to be ended. */
bool journal_send(struct server *server, enum ledger_mark mark, const struct bytes *messages);

#endif
