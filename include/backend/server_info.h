#ifndef BACKEND_SERVER_INFO_H
#define BACKEND_SERVER_INFO_H

#include "backend/hosts.h"
#include "backend/welcome.h"
#include "conn/world.h"

struct notify_server;
struct proven_secret;

/* Functions of a database that change the state of the session (state/session_functions.c); the pools of a database share them. */
struct database_functions {
	unsigned pools;			/* so many hold it */
	struct state_functions *all;	/* as they were read last; NULL: never */
	const struct state_functions *in_use;	/* the same; NULL also: none of them changes anything */
	bool are_known;			/* nothing is known to have changed since then */
	unsigned readings;		/* so many have found something new */
	unsigned changes;		/* so many commands have changed definitions */
	usec_t due;			/* they are to be read then; 0: at once */
	usec_t reading_since;		/* a server reads them; 0: none does */
	int tokens;			/* readings that may begin at once ... */
	usec_t tokens_at;		/* ... as of then */
};

/* The state of a new session, as servers have reported it. */
struct reported_session {
	const struct params *defaults;	/* tracked parameters of a session that asked for none */
	uint64_t known;			/* bit i: the default of tracked parameter i is known (it may be absent) */
	struct welcome *welcome;	/* of the server that has logged in last (held); NULL: none has */
};

/* The last login at a server that failed. */
struct server_login_failure {
	char *text;			/* NULL: none has failed since the last success */
	bool refused;			/* the text is the answer of the server */
	char sqlstate[6];		/* of that answer; "": the last login failed otherwise */
};

/* Secrets of the user of the pool: see proven_secret.h. Each may be NULL. */
struct proven_secrets {
	struct proven_secret *found;	/* the secret that auth_query has found */
	struct proven_secret *shown;	/* the password that PAM or LDAP has accepted last */
};

/*
 * What a pool has learned from its servers. `generation` is the generation of the pool when `reported`, `hosts` and `functions` were
 * learned; after a RELOAD that leads to other servers they are dropped.
 */
struct server_info {
	unsigned generation;
	struct reported_session reported;
	struct server_login_failure failure;
	struct proven_secrets proven;
	struct hosts hosts;
	struct notify_server *notify_server;	/* of clients that LISTEN; see notify_server.h; NULL: there are none */
	struct database_functions *functions;	/* of all pools of the database, see session_functions.c; NULL: none has been read */
};
/* Made on first use; NULL: no memory. */
struct server_info *server_info_get(struct pool *pool, struct params_table *table);
/* Frees it; its notify_server is freed before. */
void server_info_free(struct pool *pool, struct params_table *table);
/* The holder of *functions gives them up; the last one frees them. Sets *functions to NULL. */
void database_functions_drop(struct database_functions **functions);
/* A server login of its pool has ended without success: keeps the text, and tells the pool what that means for the next login. True: *failure
   says what kind it was; false: it was no failure of the pool's servers, as when policy has ended it. */
bool server_info_failed(struct server *server, enum close_reason why, const char *text, enum login_failure *failure);
/* True when the values of all parameters that `asked` leaves open are known. */
bool server_info_covers(const struct server_info *info, const struct params_table *table, const struct params *asked);

/* The text of the server login that failed last; NULL: none has failed since the last success. */
const char *pool_login_error(const struct pool *pool);

#endif
