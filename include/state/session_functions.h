#ifndef STATE_SESSION_FUNCTIONS_H
#define STATE_SESSION_FUNCTIONS_H

#include "backend/server_info.h"
#include "base/inline.h"
#include "pg/frame.h"
#include "sql/state_functions.h"

/* The functions of a database whose calls change the state of the session. Promise: while the
   functions are not known, each text may change anything. See session_functions.c. */

/* The known functions of the pool; NULL: no function changes anything, or they are not known. While
   a pool reads values of sequences, this includes functions that insert rows, because a column may
   have a sequence. */
static ALWAYS_INLINE const struct state_functions *session_functions_of(const struct pool *pool)
{
	const struct server_info *info = pool->server_info;

	if (!info || !info->functions)
		return NULL;
	return pool->reads_sequences ? info->functions->all : info->functions->in_use;
}

/* Whether the known functions are up to date. */
static ALWAYS_INLINE bool session_functions_are_known(const struct pool *pool)
{
	const struct server_info *info = pool->server_info;

	return info && info->functions && info->functions->are_known;
}

/* Whether the functions must be read before the next client of the pool continues. */
static ALWAYS_INLINE bool session_functions_are_due(const struct pool *pool, usec_t now)
{
	const struct server_info *info = pool->server_info;

	return info && (!info->functions ||
			(info->functions->due <= now && !info->functions->reading_since));
}

extern const struct server_task task_functions;

/* Begins task_functions. The server has a client and owes nothing. The server may end. */
void session_functions_ask(struct server *server);
/* Frees a partial answer, if there is one: the next client asks. */
void session_functions_forget(struct server *server);
/* A command has changed definitions in this database: they are read again, as soon as the rate
   allows. */
void session_functions_changed(struct database *database, usec_t now);

#endif
