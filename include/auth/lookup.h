#ifndef AUTH_LOOKUP_H
#define AUTH_LOOKUP_H

#include "auth/lookup_turns.h"
#include "conn/world.h"

/*
 * Looking users up that are not in the user list (auth_user, auth_query, auth_dbname). Logins of the same
 * user wait for the same look-up; it borrows a server from the pool of auth_user.
 */
struct lookup;

struct lookups {
	struct lookup *by_key;		/* uthash: users that are being looked up now */
	uint64_t answers;		/* number of answers so far: of two answers for a user, the greater number is the later one */
	struct list dead;		/* freed by the next tick */
	struct lookup_turns *turns;
};
/* NULL: no memory. */
struct lookups *lookups_new(struct pools *pools);
/* No look-up may be in progress. */
void lookups_free(struct lookups **lookups);

/* The part of a login that waits; embedded in struct login. */
struct lookup_wait {
	struct list node;		/* of clients that wait for the same answer */
	struct client *client;
	struct lookup *lookup;		/* NULL: does not wait, or no more */
	struct secret *found;		/* the answer; the code that takes it sets NULL. NULL: no such user */
	uint64_t answer;		/* the number of it, lookups->answers */
	struct unknown_source *source;	/* that has answered; NULL: none has */
	enum close_reason refused;		/* there is no answer: why, as the client is to hear it */
	struct lookup_asker asker;	/* of the look-up's turn */
};

/* Where the user of this client is looked up (lookup_source.c); texts of the snapshot in force, or of
   the login. */
struct lookup_source {
	const char *database, *user, *sql;
	const char *path;		/* schemas for the names in `sql`, searched after pg_catalog; may be "" */
	bool is_of_client;		/* the database is the one named by the client */
};
/* False: nothing is configured for it. */
bool lookup_choose_source(const struct client *client, struct lookup_source *source);


enum lookup_begun {
	LOOKUP_BEGUN_NONE,			/* nothing is configured to look this user up with */
	LOOKUP_BEGUN_WAITS,			/* the client is CLIENT_LOOKUP and is called (peer_come_again) when there is an answer */
	LOOKUP_BEGUN_ENDED			/* the client has ended */
};
/* Looks up the client's user, which is not in the user list, for the client's database. The client is in STARTUP. */
enum lookup_begun lookup_begin(struct client *client);
/* A client that is CLIENT_LOOKUP was called. True: its wait is over, `found` or `refused` say how. */
bool lookup_continue(struct client *client);
/* The login ends: stops waiting, and wipes the secret that was found. */
void lookup_leave(struct lookup_wait *wait);

/* A look-up that waited has its turn (lookup_turns.h). */
void lookup_granted(struct lookup_turn *turn);
/* The pool's decision about the look-up of this request: the request gets a server, or is refused. */
void lookup_lent(struct server *server, struct pool_client *request);
void lookup_refused(struct pool_client *request, enum close_reason why, const char *detail);

/* server->lookup runs there (task_lookup): its socket has something; why the connection is to end now, or REASON_NONE; it ends, and
   `text` says why. */
void lookup_read(struct server *server, bool from_socket);
enum close_reason lookup_overdue(const struct server *server);
void lookup_server_gone(struct server *server, enum close_reason why, const char *text);

/* Frees the look-ups that have ended. Not where one of them may still be on the stack: once a tick, before anything else of it. */
void lookups_reap(struct lookups *lookups);
/* About ten times a second, before anything else: that, and the turns. */
void lookups_tick(struct lookups *lookups);

#endif
