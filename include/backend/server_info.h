#ifndef BACKEND_SERVER_INFO_H
#define BACKEND_SERVER_INFO_H

#include "backend/hosts.h"
#include "backend/welcome.h"
#include "conn/world.h"

struct notify_server;
struct proven_secret;

/* Functions of a database with effects on the session (state/session_functions.c); the pools of a
   database share them. */
struct database_functions {
	unsigned pools;			/* references */
	struct state_functions *all;	/* of the last reading; NULL: never read */
	/* the same; NULL also if no function changes anything */
	const struct state_functions *in_use;
	/* no command has changed functions since the last reading */
	bool are_known;
	unsigned readings;		/* number of readings that have found a change */
	uint64_t hash;			/* state_functions_summary() of `all`; 0: never read */
	unsigned changes;		/* number of commands that have changed functions */
	usec_t due;			/* time of the next reading; 0: at once */
	usec_t reading_since;		/* when the present reading began; 0: none is under way */
	int tokens;			/* readings that may begin at once ... */
	usec_t tokens_at;		/* ... as of then */
};

/* The state of a new session, as reported by servers. */
struct reported_session {
	/* tracked parameters of a session without start-up parameters */
	const struct params *defaults;
	/* bit i: the default of tracked parameter i is known (it may be absent) */
	uint64_t known;
	/* of the last server that has logged in (a reference); NULL: none */
	struct welcome *welcome;
};

/* The last failed login at a server. */
struct server_login_failure {
	char *text;			/* NULL: none has failed since the last success */
	bool refused;			/* the text is the answer of the server */
	/* of that answer; "": the last login failed for another reason */
	char sqlstate[6];
};

/* Secrets of the user of the pool: see proven_secret.h. Each may be NULL. */
struct proven_secrets {
	struct proven_secret *found;	/* the secret that auth_query has found */
	struct proven_secret *shown;	/* the password that PAM or LDAP has accepted last */
	/* servers have refused the secret of the user list, and accepted the old one */
	bool prefers_old;
};

/*
 * The facts that a pool has learned from its servers. `generation` is the generation of the pool
 * when `reported`, `hosts` and `functions` were learned. Promise: these facts are not used after a
 * RELOAD if the pool connects to other servers from then on.
 */
struct server_info {
	unsigned generation;
	struct reported_session reported;
	struct server_login_failure failure;
	struct proven_secrets proven;
	struct hosts hosts;
	/* see notify.h; NULL: no client of the pool LISTENs */
	struct notify_server *notify_server;
	/* shared by all pools of the database, see session_functions.c; NULL: never read */
	struct database_functions *functions;
};
/* Made on first use; NULL: no memory. */
struct server_info *server_info_get(struct pool *pool, struct params_table *table);
/* Frees it. Its notify_server is already freed. */
void server_info_free(struct pool *pool, struct params_table *table);
/* Drops the reference; the last reference frees them. Sets *functions to NULL. */
void database_functions_drop(struct database_functions **functions);
/* A server login has ended without success: stores the text and reports the failure to the pool.
   Sets *failure to its kind. False: the login did not fail because of the server, for example it
   was ended by policy. */
bool server_info_failed(struct server *server, enum close_reason why, const char *text,
			enum login_failure *failure);

/* The part of this room in the records of a handover (handover/handover.c): the knowledge of the
   pool about its servers, and the report of the server at its login. An unpack function sets
   in->bad for an invalid value, or without memory. The server is unpacked after its pool. */
void server_info_pack(struct bytes *out, const struct pool *pool, const struct params_table *table);
void server_info_unpack(struct unpack *in, struct pool *pool, struct params_table *table);
void server_welcome_pack(struct bytes *out, const struct server *server);
void server_welcome_unpack(struct unpack *in, struct server *server);

/* Returns the text of the last failed server login. NULL: none has failed since the last
   success. */
const char *pool_login_error(const struct pool *pool);

#endif
