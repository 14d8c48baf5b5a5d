#ifndef STATE_SESSION_PARAMS_H
#define STATE_SESSION_PARAMS_H

#include "conn/world.h"

/*
 * The parameters of a server's session: see session_params.c.
 */

/* A SET or RESET (`discarded` false) or DISCARD ALL is complete: its effect on the role, and on the tracked parameters that the server does not
   report. `for_client`: the command is the client's. */
void server_parameters_told(struct server *server, bool discarded, bool for_client);
/* connect_query sets something, which no RESET leads back to. */
bool server_has_lasting_query(const struct server *server);
/* A reset undoes the settings of connect_query. True: there are some, and the server is closed when it is released. */
bool server_close_if_reset(struct server *server);
/* This client may have left unknown state in the session: the session is reset before another client gets the server. If a reset would undo the
   settings of connect_query, the server is closed when it is released. */
void server_doubt(struct server *server, uint64_t client);
/* connect_query may have set search_path, which the server does not report: the value is to be noted, and set in place of a RESET. */
bool server_notes_search_path(const struct server *server);
/* The second column of the SELECT after connect_query (the first is ROLE_NOTE); and the DataRow of the answer. */
#define SEARCH_PATH_NOTE ROLE_HEX("pg_catalog.current_setting('search_path')")
void server_note_search_path(struct server *server, const uint8_t *row, size_t size);
/* Stores a note of another process for the server. False: it is not a note, or there is no memory. */
bool server_restore_search_path(struct server *server, const char *note);
/* Bit i: the client has set tracked parameter i, and the server has that value without a SET. 0 for most clients. */
uint64_t server_unset_params(const struct server *server, const struct client *client);
/* If a client's settings cannot be taken back for the next client, the server is closed when it is released. */
void server_close_if_params_stay(struct server *server);

#endif
