#ifndef SESSION_SERVER_H
#define SESSION_SERVER_H

#include "pg/ledger.h"
#include "pg/params.h"
#include "pool/pool.h"
#include "session/peer.h"

struct dial;				/* what only a server that is being opened needs */

/* What the pooler itself does with a server when it has no client's work: the answers are swallowed. */
enum server_task {
	TASK_NONE,
	TASK_CONNECT_QUERY,
	TASK_RESET,
	TASK_CHECK,
	TASK_PARAMS			/* linked: brings the session's parameters to the client's values */
};

/*
 * A server connection. Its phase is policy.state; what it owes is the ledger.
 * Invariant: an idle server has no client, owes nothing and is in no transaction.
 */
struct server {
	struct pool_server policy;
	struct peer peer;
	struct ledger ledger;
	const struct params *params;	/* values its session has */
	struct dial *dial;		/* until the login has ended */
	enum server_task task;
	bool task_failed;
	char status;			/* of the last ReadyForQuery: I T E */
	uint32_t backend_pid;
	uint8_t *cancel_key;		/* as the server gave it; NULL: it gave none */
	size_t cancel_key_size;
	struct address *address;	/* where it is connected to; cancels go there too */
};

static inline struct server *server_of(struct pool_server *p) { return LIST_ENTRY(p, struct server, policy); }

/* Ends it: closes the socket, and its client too when it has one. `detail` fills the %s. */
void server_end(struct server *server, enum goodbye why, const char *detail);
const char *server_text(const struct server *server, char *buf, size_t size);

#endif
