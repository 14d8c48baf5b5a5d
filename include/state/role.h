#ifndef STATE_ROLE_H
#define STATE_ROLE_H

#include "conn/world.h"
#include "pg/meaning.h"

/*
 * The role of a session, where clients that change it must not hand it on: see role.c.
 */

/* A Query goes to the server; of its text the first `size` bytes are here. To be called before it is entered in the
   ledger. */
void role_query_sent(struct server *server, const uint8_t *text, size_t size);
/* A Parse goes to the server; of its text the first `size` bytes are here. */
static inline void role_parse_sent(struct server *s, const uint8_t *text, size_t size)
{
	unsigned keeps;

	if (role_parse_surely_keeps(text, size))
		return;
	keeps = set_parse_keeps(text, size);
	s->session.roles_prepared |= !(keeps & SET_KEEPS_ROLE);
	s->session.meanings_prepared |= !(keeps & SET_KEEPS_MEANING);
}
/* The client's SET or RESET is complete, `of_query`: of a Query, not of an Execute. */
void role_set_heard(struct server *server, bool of_query);
/* DISCARD ALL is complete. */
void role_discarded(struct server *server);
/* The server has reported a parameter for its client. */
void role_reported(struct server *server, const char *name);
/* server_reset_query has run. */
void role_was_reset(struct server *server, const char *query);

/* SQL by which a new session behind connect_query notes its role; and the DataRow of the answer. Where that cannot be used,
   nothing is noted. */
#define ROLE_NOTE "pg_catalog.concat(" ROLE_HEX("session_user") ",':'," ROLE_HEX("pg_catalog.current_setting('role')") ")"
#define ROLE_HEX(name) "pg_catalog.encode(pg_catalog.convert_to(" name ",pg_catalog.getdatabaseencoding()),'hex')"
void role_note(struct server *server, const uint8_t *row, size_t size);
/* A copy of this text, if it is a note; to be freed with mem_free. NULL: it is none, or there is no memory. */
char *role_note_of(const uint8_t *text, size_t size);
/* The session acts as its user, which is that of `first`, too. */
bool role_is_none(const char *note, const char *first);
/* Appends two columns of a SELECT that give the session the role of a note, as ROLE_NOTE has given it; false: it is none. */
bool role_sql_of(const char *note, struct bytes *sql);
/* Makes `note`, as another process has noted it, the server's. False: it is none, or there is no memory. */
bool role_restore(struct server *server, const char *note);
/* Appends two columns of a SELECT that give the session the role that it began with; `for_transaction`: until its end. */
void role_sql(const struct server *server, bool for_transaction, struct bytes *sql);

#endif
