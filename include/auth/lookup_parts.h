#ifndef AUTH_LOOKUP_PARTS_H
#define AUTH_LOOKUP_PARTS_H

#include "auth/lookup.h"
#include "base/log.h"
#include "pg/authquery.h"

/* Shared by lookup.c (the life of a look-up, the clients that wait for it) and lookup_query.c (its query). */

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
	struct pool_client request;	/* HELD, QUEUED: represents the look-up in the pool */
	struct lookup_turn turn;	/* HELD: wanted or got; QUEUED, RUNNING: got */
	struct server *server;		/* RUNNING */
	struct authquery answer;	/* RUNNING */
	usec_t since;			/* the asked or waiting clients arrived by then */
	bool again;			/* they have been asked for already, of a server that was gone */
	struct list waiting;		/* for the next query (struct lookup_wait) */
	struct list asked;		/* for the running query */
	struct list dead;		/* of struct lookups */
	const char *user, *sql, *path;	/* in the key */
	UT_hash_handle hh;
	char key[];			/* address of the pool, user and NUL, sql and NUL, path and NUL */
};

/* ---- lookup.c ---- */

/* The only writer of lookup->phase: asserts that the table allows the move. */
void lookup_phase_to(struct lookup *l, enum lookup_phase phase);

/* Takes its request out of the pool. */
void lookup_request_over(struct lookup *l);
/* The client that has waited longest for the next query; NULL: none waits. */
struct lookup_wait *lookup_first_waiting(const struct lookup *l);
/* The query has ended: with an answer (NONE; `secret` NULL: no such user), or for this reason. Clients that came meanwhile get a query of their
   own. */
void lookup_query_over(struct lookup *l, enum close_reason refused, const struct secret *secret);
/* The server had gone before it began the query. Its clients wait again, ahead of the clients that arrived later. */
void lookup_ask_again(struct lookup *l);
/* Returns the reason to give to unauthenticated clients. The server's own words may name auth_user and more, so they are not passed on. */
enum close_reason lookup_reason_for_client(enum close_reason why);
/* Writes to the log: "POOL: auth_query for user "NAME" `action`: TEXT". */
void lookup_log(const struct lookup *l, enum log_level level, const char *action, const char *text);
void lookup_log_failure(const struct lookup *l, const char *text);

/* ---- lookup_query.c ---- */

/* Takes the server from the request and sends the query. Before, request and server are linked, and both are ACTIVE. */
void lookup_run(struct lookup *l, struct server *s);

#endif
