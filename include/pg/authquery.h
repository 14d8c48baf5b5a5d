#ifndef PG_AUTHQUERY_H
#define PG_AUTHQUERY_H

#include "base/bytes.h"
#include "base/mem.h"

/*
 * Asking a server for the secret of a user (the setting auth_query): what is sent, and what the answers
 * mean. Pure: no connection, no clock.
 */

#define AUTHQUERY_SECRET_MOST 65530	/* bytes of the longest secret that is taken: a client cannot send a longer password */

enum authquery_verdict {
	AUTHQUERY_NO_USER,
	AUTHQUERY_USER,		/* known; `secret` is what was found, of length 0 where that was NULL */
	AUTHQUERY_FAILED	/* `why` says what was wrong; nothing is known of the user */
};

/* One exchange. */
struct authquery {
	const char *user, *path;	/* not owned: must outlive the exchange */
	struct secret *secret;	/* the row's; the code that takes it sets NULL */
	unsigned ended;		/* statements of the batch that have ended */
	unsigned rows;		/* of the statement under way */
	bool described;		/* the result has the shape that it must have */
	bool begun;		/* the server has answered anything but that its session ends */
	bool failed, other_name;
	bool cannot_exist;	/* the name is no text in the server's encoding */
	bool is_unusable;	/* `secret` is a SCRAM secret that cannot be used */
	char why[512];
};

/* `path`: schemas of search_path beside pg_catalog and pg_temp, with commas between; "" is none. */
void authquery_begin(struct authquery *query, const char *user, const char *path);
/* Appends the batch that asks `sql` ($1 is the user). `resets` are `count` names of session parameters
   that are to have the values that a session begins with: letters, digits, _ and . only. `role` is SQL for columns that
   give the session the role that connect_query has set, until the end of the transaction; NULL: it has set none, and the
   session gets that of auth_user. No memory shows as out->failed. */
void authquery_build(const struct authquery *query, struct bytes *out, const char *sql,
		     const char *const *resets, size_t count, const char *role);
/* Takes a whole message of the server's, one that the ledger let pass as an answer to the batch. False:
   the exchange cannot go on, the connection must be closed; `why` says the reason. */
bool authquery_take(struct authquery *query, uint8_t type, const uint8_t *body, size_t size);
/* It has failed for this reason, unless there is one already. */
void authquery_fail(struct authquery *query, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The batch has been answered, ReadyForQuery included. */
enum authquery_verdict authquery_end(struct authquery *query);
/* Wipes. */
void authquery_clear(struct authquery *query);

#endif
