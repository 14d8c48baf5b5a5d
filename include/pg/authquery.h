#ifndef PG_AUTHQUERY_H
#define PG_AUTHQUERY_H

#include "base/bytes.h"
#include "base/mem.h"

/*
 * The query for the secret of a user (the setting auth_query): building the messages, and reading
 * the answers. The functions are pure.
 */

/* limit of a secret in bytes: a client cannot send a longer password */
#define AUTHQUERY_SECRET_MOST 65530

enum authquery_verdict {
	AUTHQUERY_MORE,		/* the answer goes on */
	AUTHQUERY_BROKEN,	/* the connection must be closed; `why` is the reason */
	AUTHQUERY_NO_USER,
	AUTHQUERY_USER,		/* the user exists; `secret` has length 0 for NULL */
	AUTHQUERY_FAILED	/* `why` is the reason; it is unknown whether the user exists */
};

/* One execution of the query. It begins with the first two members, and zeros. */
struct authquery {
	const char *user;	/* not owned, nor `path`: must outlive the exchange */
	/* schemas of search_path besides pg_catalog and pg_temp, separated by commas; "" for
	   none */
	const char *path;
	struct secret *secret;	/* from the row, owned by the caller */
	unsigned ended;		/* statements of the batch that have ended */
	unsigned rows;		/* of the statement in progress */
	bool described;		/* the result has the required columns */
	/* the server has sent an answer other than the end of its session */
	bool begun;
	bool failed, other_name;
	bool cannot_exist;	/* the name is invalid in the encoding of the server */
	bool is_unusable;	/* `secret` is a SCRAM secret that cannot be used */
	char why[512];
};

/* Appends the batch with the query `sql` ($1 is the user). `resets`: `count` names of session
   parameters that get their initial values: letters, digits, _ and . only. `role`: SQL for columns
   that set the role of connect_query until the end of the transaction; NULL: connect_query has set
   no role, and the session gets the role of auth_user. If there is no memory, out->failed is
   set. */
void authquery_build(const struct authquery *query, struct bytes *out, const char *sql,
		     const char *const *resets, size_t count, const char *role);
/* Takes a complete message of the server that the ledger accepted as an answer to the batch; `body`
   NULL: the message is too long. ReadyForQuery ends the answer. */
enum authquery_verdict authquery_take(struct authquery *query, uint8_t type, const uint8_t *body,
				      size_t size);

#endif
