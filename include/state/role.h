#ifndef STATE_ROLE_H
#define STATE_ROLE_H

#include "conn/world.h"
#include "pg/meaning.h"

/*
 * The role of a session, where clients that change it must not hand it on: see role.c.
 */

/* A Query is sent to the server; `text` is its first `size` bytes. Called before it is entered in the ledger. */
void role_query_sent(struct server *server, const uint8_t *text, size_t size);
/* A Parse is sent to the server; `text` is its first `size` bytes. */
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

/* SQL that returns the role of a new session after connect_query; and the DataRow of the answer. If the answer is unusable, no role is stored. */
#define ROLE_NOTE "pg_catalog.concat(" ROLE_HEX("session_user") ",':'," ROLE_HEX("pg_catalog.current_setting('role')") ")"
#define ROLE_HEX(name) "pg_catalog.encode(pg_catalog.convert_to(" name ",pg_catalog.getdatabaseencoding()),'hex')"
void role_note(struct server *server, const uint8_t *row, size_t size);
/* Returns a copy of this text, if it is a note; freed with mem_free. NULL: it is not a note, or there is no memory. */
char *role_note_of(const uint8_t *text, size_t size);
/* Whether the session acts as its user, and `first` has the same user. */
bool role_is_none(const char *note, const char *first);
/* Appends two columns of a SELECT that set the role of a note (ROLE_NOTE). False: it is not a note. */
bool role_sql_of(const char *note, struct bytes *sql);
/* Stores a note of another process for the server. False: it is not a note, or there is no memory. */
bool role_restore(struct server *server, const char *note);
/* Appends two columns of a SELECT that give the session the role that it began with; `for_transaction`: until its end. */
void role_sql(const struct server *server, bool for_transaction, struct bytes *sql);

#endif
