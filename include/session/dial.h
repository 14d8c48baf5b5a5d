#ifndef SESSION_DIAL_H
#define SESSION_DIAL_H

#include "session/hosts.h"
#include "session/world.h"

/*
 * Opening a server connection: name, connect, TLS, start-up, password, parameters. Also what a pool has
 * learned from its servers: the parameter values that a client is welcomed with, and the last login error.
 */
struct found;
struct pool_lore {
	const struct params *defaults;	/* tracked parameters of a session that asked for none */
	uint64_t known;			/* bit i: the default of tracked parameter i is known (it may be absent) */
	struct bytes welcome;		/* ParameterStatus messages of all parameters that are not tracked */
	unsigned generation;		/* of the pool, when this was learned */
	bool welcomed;			/* a server has logged in: `welcome` is filled */
	char *login_error;		/* of the last server login that failed, or NULL */
	struct found *found;		/* what auth_query has found for the pool's user, see found.h; or NULL */
	struct hosts hosts;
};
/* Made on first use; NULL: no memory. */
struct pool_lore *pool_lore_get(struct pool *pool, struct world *world);
void pool_lore_free(struct pool *pool, struct world *world);
/* True when the values of all parameters that `asked` leaves open are known. */
bool pool_lore_covers(const struct pool_lore *lore, const struct params_table *table, const struct params *asked);

/* Opens a server for the pool, in session mode with whom's start-up parameters (NULL: with none). */
void dial_begin(struct pool *pool, struct world *world, const struct client *whom);
/* Opens the connection that carries a cancel request for `target`; `done` bytes are sent when it stands. Gives the
   connection (LOGIN, is_cancel), or NULL. */
struct server *dial_for_cancel(struct server *target);
void dial_connected(struct server *server, const char *error);
void dial_secured(struct server *server, const char *error);
void dial_read(struct server *server, bool from_socket);
/* The way to the server that is being tried does not work: another address or host is tried, or, when there is none, the server
   ends. For what may be otherwise elsewhere; a server whose word is final (a refused password) ends with server_end. */
void dial_give_way(struct server *server, enum goodbye why, const char *detail);
/* About ten times a second: server_connect_timeout, and each way's part of it. */
void dial_tick(struct server *server);
/* The login ended badly: keeps the text, tells the pool what may be hoped for (unless it was policy that ended it). */
void dial_failed(struct server *server, enum goodbye why, const char *text);
void dial_free(struct server *server);

#endif
