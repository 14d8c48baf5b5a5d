#ifndef AUTH_LOOKUP_PARTS_H
#define AUTH_LOOKUP_PARTS_H

#include "auth/lookup.h"
#include "base/log.h"
#include "pg/authquery.h"

/* What lookup.c (the life of a look-up, the clients that wait for it) and lookup_query.c (its query) share. */

enum lookup_phase {
#define LOOKUP_PHASE(id, moves) LOOKUP_##id,
#include "tbl/lookup_phase.tbl"
#undef LOOKUP_PHASE
	LOOKUP_PHASES
};

struct lookup {
	struct world *world;
	struct pool *pool;
	enum lookup_phase phase;	/* set by lookup_phase_to */
	struct pool_client request;	/* HELD, QUEUED: what stands for it in the pool */
	struct lookup_turn turn;	/* HELD: wanted or got; QUEUED, RUNNING: got */
	struct server *server;		/* RUNNING */
	struct authquery answer;	/* RUNNING */
	usec_t since;			/* those that are asked for, or wait to be, came then at the latest */
	bool again;			/* they have been asked for already, of a server that was gone */
	struct list waiting;		/* for the next query (struct lookup_wait) */
	struct list asked;		/* for the one that runs */
	struct list dead;		/* of struct lookups */
	const char *user, *sql, *path;	/* in the key */
	UT_hash_handle hh;
	char key[];			/* address of the pool, user and NUL, sql and NUL, path and NUL */
};

/* ---- lookup.c ---- */

/* The only writer of lookup->phase: asserts that the table allows the move. */
void lookup_phase_to(struct lookup *l, enum lookup_phase phase);
bool lookup_phase_may_follow(enum lookup_phase from, enum lookup_phase to);

/* Takes its request out of the pool. */
void lookup_request_over(struct lookup *l);
/* The client that has waited longest for the next query; NULL: none waits. */
struct lookup_wait *lookup_first_waiting(const struct lookup *l);
/* The query has ended: with an answer (NONE; `secret` NULL: no such user), or for this reason. Clients that came meanwhile get a query of their
   own. */
void lookup_query_over(struct lookup *l, enum close_reason refused, const struct secret *secret);
/* The server had gone before it began the query. Its clients wait again, in front of those that came meanwhile. */
void lookup_ask_again(struct lookup *l);
/* What unauthenticated clients may hear: not the words of a server, which may name auth_user and more. */
enum close_reason lookup_reason_for_client(enum close_reason why);
/* A line of the log: "POOL: auth_query for user "NAME" WHAT: TEXT". */
void lookup_log(const struct lookup *l, enum log_level level, const char *what, const char *text);
void lookup_log_failure(const struct lookup *l, const char *text);

/* ---- lookup_query.c ---- */

/* Its request and this server are linked, and both ACTIVE: takes the server from the request, and sends the query. */
void lookup_run(struct lookup *l, struct server *s);

#endif
