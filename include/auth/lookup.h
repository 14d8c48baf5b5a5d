#ifndef AUTH_LOOKUP_H
#define AUTH_LOOKUP_H

#include "auth/lookup_turns.h"
#include "conn/world.h"
#include "pg/authquery.h"

/*
 * Look-ups of users that are not in the user list (auth_user, auth_query, auth_dbname). Logins of
 * the same user wait for the same look-up, which uses a server of the pool of auth_user.
 */
struct lookup;

struct lookups {
	struct lookup *by_key;		/* uthash: users that are being looked up now */
	/* number of answers so far: of two answers for a user, the greater number is the later
	   one */
	uint64_t answers;
	struct list dead;		/* freed by the next tick */
	struct lookup_turns turns;
};
/* NULL: no memory. */
struct lookups *lookups_new(struct pools *pools);
/* No look-up may be in progress. */
void lookups_free(struct lookups **lookups);

/* How a login waits for a look-up; embedded in struct login. */
struct lookup_wait {
	struct list node;		/* of clients that wait for the same answer */
	struct client *client;
	struct lookup *lookup;		/* NULL: does not wait */
	/* the answer, owned by the code that takes it; NULL: no such user */
	struct secret *found;
	uint64_t answer;		/* the number of the answer (lookups->answers) */
	struct unknown_source *source;	/* the server that has answered; NULL: none */
	/* the reason for the client if there is no answer; otherwise REASON_NONE */
	enum close_reason refused;
	struct lookup_asker asker;	/* for the look-up's turn */
};

/* A look-up of one user, in one pool, with one query. */
enum lookup_phase {
#define LOOKUP_PHASE(id, moves) LOOKUP_##id,
#include "tbl/lookup_phase.tbl"
#undef LOOKUP_PHASE
	LOOKUP_PHASES
};
struct lookup {
	struct world *world;
	struct pool *pool;
	enum lookup_phase phase;
	struct pool_client request;	/* HELD, QUEUED: represents the look-up in the pool */
	struct lookup_turn turn;	/* HELD: requested or granted; QUEUED, RUNNING: granted */
	struct server *server;		/* RUNNING */
	struct authquery answer;	/* RUNNING */
	usec_t since;			/* the waiting clients arrived at this time or earlier */
	/* the query is repeated, because the connection to the server was lost */
	bool again;
	struct list waiting;		/* struct lookup_wait: for the next query */
	struct list asked;		/* struct lookup_wait: for the running query */
	struct list dead;		/* of struct lookups */
	const char *user, *sql, *path;	/* in the key */
	UT_hash_handle hh;
	/* address of the pool, user and NUL, sql and NUL, path and NUL */
	char key[];
};

enum lookup_begun {
	LOOKUP_BEGUN_NONE,			/* no look-up is configured for this user */
	/* the client is CLIENT_LOOKUP and is called (peer_come_again) when there is an answer */
	LOOKUP_BEGUN_WAITS,
	LOOKUP_BEGUN_ENDED			/* the client has ended */
};
/* Looks up the client's user, which is not in the user list, for the client's database. The client
   is in STARTUP. */
enum lookup_begun lookup_begin(struct client *client);
/* The limit for logins that wait for look-ups, for verifiers and for derivations (for each):
   max_auth_queue, or by default three quarters of max_client_conn. */
static inline int lookup_queue_most(const struct settings *set)
{
	int64_t most = set->max_auth_queue > 0 ? set->max_auth_queue : set->max_client_conn * 3 / 4;

	return most > 0 ? (int)most : 1;
}
/* A client in CLIENT_LOOKUP was called (peer_come_again). True: its wait is over, and `found` or
   `refused` is the result. */
bool lookup_continue(struct client *client);
/* The login ends: stops waiting, and wipes the secret that was found. */
void lookup_leave(struct lookup_wait *wait);

/* The pool's decision about the look-up of this request: the request gets a server, or is
   refused. */
void lookup_lent(struct server *server, struct pool_client *request);
void lookup_refused(struct pool_client *request, enum close_reason why, const char *detail);

/* For a server with a look-up (server->lookup, task_lookup): handles its input; returns the reason
   to end the connection now, or REASON_NONE; handles the end of the connection, for the reason in
   `text`. */
void lookup_read(struct server *server, bool from_socket);
enum close_reason lookup_overdue(const struct server *server);
void lookup_server_gone(struct server *server, enum close_reason why, const char *text);

/* Called about ten times a second, first in the tick: frees look-ups that have ended, and grants
   turns. */
void lookups_tick(struct lookups *lookups);

#endif
