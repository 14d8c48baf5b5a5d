#ifndef STATE_SERVER_SESSION_H
#define STATE_SERVER_SESSION_H

#include "base/assert.h"
#include "conn/world.h"
#include "pg/frame.h"
#include "sql/sql_commands.h"

/*
 * The session of a server connection between two clients: it runs connect_query, is reset and
 * tested, and pgweir knows its parameters and its role. Promise: an idle server has no client and
 * executes no task. If its parameters or its role are not known and cannot be set back, it is
 * closed instead of becoming idle. See server_session.c.
 */
extern const struct server_task task_connect_query, task_reset, task_check;
/* Follows connect_query: reads the role and search_path of the session. */
extern const struct server_task task_note;
/* A task without a query: the ReadyForQuery of the client, or the next client of the server, waits
   until the listener has answered. */
extern const struct server_task task_hear;

/* The login of the server is over: executes connect_query, or releases the server. The server may
   end. */
void server_begin(struct server *server);
/* Whether server_reset_query is executed before the server is idle: after a session of its own
   (`had_session`), or always with server_reset_query_always. */
static inline bool server_wants_reset(const struct server *s, bool had_session)
{
	const struct settings *set = &s->peer.world->conf->settings;

	return (had_session || set->server_reset_query_always) && set->server_reset_query &&
	       *set->server_reset_query;
}
/* The state of a server after its link: SERVER_BEING_CANCELED, SERVER_TESTED (to be reset, or to
   wait for listeners) or SERVER_IDLE. */
static inline enum server_state server_next_state(const struct server *s)
{
	if (s->pooled.cancels > 0)
		return SERVER_BEING_CANCELED;
	return (s->needs_reset || s->notifies) ? SERVER_TESTED : SERVER_IDLE;
}
/* Moves a server without a client to server_next_state() and begins the work of that state. The
   server may end. */
void server_release(struct server *server);

/* A SET or RESET (`discarded` false) or DISCARD ALL is complete. Updates the role and the tracked
   parameters that the server does not report. `for_client`: the command is the client's. */
void server_note_command(struct server *server, bool discarded, bool for_client);
/* Whether connect_query may set parameters or a role; a RESET would undo these settings. */
bool server_has_lasting_query(const struct server *server);
/* A reset undoes the settings of connect_query: returns whether there may be any, and then marks
   the server to be closed when it is released. */
bool server_close_if_reset(struct server *server);
/* The client of the link may execute an unproven text, which taints the session: the session is
   reset before another client gets the server. If a reset would undo the settings of connect_query,
   the server is closed when it is released. The state that an earlier client may have left is in
   session.stale by then: server_note_client(). */
static inline void server_note_tainted(struct server *s, uint64_t client)
{
	ASSERT(!s->session.tainted_by || s->session.tainted_by == client ||
	       s->session.stale & STALE_SESSION);
	s->session.tainted_by = client;
	/* the next link executes RESET ALL */
	server_close_if_reset(s);
}
/* A link with this client begins. If another client has tainted the session, the session is stale
   and is reset first. Called before anything is noted about the new client. */
void server_note_client(struct server *server, const struct client *client);
/* The session has been reset for this client, which has executed nothing since the link began. */
void server_note_reset(struct server *server, const struct client *client);
/* The client has left, and the server may still execute its unproven texts: the session is reset
   before any client gets it. */
void server_note_stale(struct server *server);
/* Returns bit i if the client has set tracked parameter i to the value that the server has without
   a SET. 0 for most clients. */
uint64_t server_unset_params(const struct server *server, const struct client *client);
/* If a client's settings cannot be undone for the next client, the server is closed when it is
   released. */
void server_close_if_params_stay(struct server *server);

/* A Query is sent to the server; `text` is its first `size` bytes. Called before it is entered in
   the ledger. */
static inline void role_query_sent(struct server *s, const uint8_t *text, size_t size)
{
	if (ledger_is_empty(&s->ledger))
		server_note_plain_set(s, set_query_keeps(text, size));
}
/* Whether an answer with the tag SET answers a Query with a single SET LOCAL, whose effect ends
   with the transaction. */
static inline bool server_set_is_local(const struct server *s)
{
	return s->session.plain_set & SET_IS_LOCAL && ledger_is_within_query(&s->ledger) &&
	       !s->ledger.lost;
}
/* A Parse is sent to the server; `text` is its first `size` bytes. */
static inline void role_parse_sent(struct server *s, const uint8_t *text, size_t size)
{
	unsigned keeps;

	if (role_parse_surely_keeps(text, size))
		return;
	keeps = set_parse_keeps(text, size);
	server_note_prepared(s, !(keeps & SET_KEEPS_ROLE), !(keeps & SET_KEEPS_MEANING));
}
/* The server has reported the parameter `name` for its client. */
void role_reported(struct server *server, const char *name);

/* A note of a role: the names of the session user and the current role in hexadecimal, with a colon
   between. ROLE_NOTE is the SQL of a note. */
#define ROLE_NOTE \
	"pg_catalog.concat(" ROLE_HEX("session_user") ",':'," ROLE_HEX( \
		"pg_catalog.current_setting('role')") ")"
#define ROLE_HEX(name) \
	"pg_catalog.encode(pg_catalog.convert_to(" name ",pg_catalog.getdatabaseencoding()),'hex'" \
							")"
/* Returns a copy of the text if it is a note, freed with mem_free. NULL: it is not a note, or there
   is no memory. */
char *role_note_of(const uint8_t *text, size_t size);
/* Appends two columns of a SELECT, which set the role of the note (NULL: the role that a RESET
   restores), `for_transaction`: until the end of the transaction. False: it is not a note. */
bool role_sql(const char *note, bool for_transaction, struct bytes *sql);
/* Stores the notes of the role and search_path from another process; NULL: none. False: one is
   malformed, or there is no memory. */
bool server_restore_notes(struct server *server, const char *role, const char *search_path);

#endif
