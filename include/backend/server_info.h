#ifndef BACKEND_SERVER_INFO_H
#define BACKEND_SERVER_INFO_H

#include "backend/hosts.h"
#include "backend/welcome.h"
#include "conn/world.h"

/*
 * What a pool has learned from its servers: the parameter values that a client is welcomed with, the last
 * login error, which hosts work, and which functions change a session.
 */
struct listener;
struct proven_secret;
struct server_info {
	const struct params *defaults;	/* tracked parameters of a session that asked for none */
	uint64_t known;			/* bit i: the default of tracked parameter i is known (it may be absent) */
	struct welcome *welcome;	/* of the server that has logged in last (held); NULL: none has */
	unsigned generation;		/* of the pool, when this was learned */
	bool refused;			/* login_error is the server's own answer */
	char sqlstate[6];		/* of the server's last such answer; "": the last login failed otherwise */
	char *login_error;		/* of the last server login that failed, or NULL */
	struct proven_secret *found;		/* what auth_query has found for the pool's user, see proven_secret.h; or NULL */
	struct proven_secret *shown;		/* the password that PAM or LDAP found right for it last, see proven_secret.h; or NULL */
	struct hosts hosts;
	struct listener *listener;	/* of clients that LISTEN; see listener.h; NULL: there are none */
	struct database_functions *functions;	/* of all pools of the database, see session_functions.c; NULL: none has been read */
};
/* Made on first use; NULL: no memory. */
struct server_info *server_info_get(struct pool *pool, struct params_table *table);
/* Frees it. */
void server_info_free(struct pool *pool, struct params_table *table);
/* A server login of its pool has ended without success: keeps the text, and tells the pool what that means for the next login. True: *failure
   says what kind it was; false: it was no failure of the pool's servers, as when policy has ended it. */
bool server_info_failed(struct server *server, enum close_reason why, const char *text, enum login_failure *failure);
/* True when the values of all parameters that `asked` leaves open are known. */
bool server_info_covers(const struct server_info *info, const struct params_table *table, const struct params *asked);

/* The text of the server login that failed last; NULL: none has failed since the last success. */
const char *pool_login_error(const struct pool *pool);

#endif
