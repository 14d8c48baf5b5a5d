/*
 * The parameters of a server's session.
 *
 * Reported parameters are known. Parameters that the server does not report (search_path before PostgreSQL 18, most of track_extra_parameters) are
 * known until a SET or RESET is complete: then the next link sets all of them. DISCARD ALL restores the values at the start of the session.
 *
 * connect_query may set search_path, which servers before PostgreSQL 18 do not report. pgweir reads the value after connect_query and keeps it, in
 * hexadecimal, because it is in the encoding of the database. The session itself does not keep it: a client could change it there. If the value is
 * not known, the server is closed as soon as it is released with another search_path.
 */
#include "state/session_params.h"

#include "state/role.h"
#include "state/session_state.h"
#include "state/task.h"
#include "base/mem.h"

#include <string.h>

#define SEARCH_PATH_MOST 16384		/* bytes of a note */

/* Each of them has its start-up value again. */
static void forget_unreported(struct server *s)
{
	struct world *w = s->peer.world;
	const struct params *set = params_with_others(w->params, s->params, s->pooled.startup);

	session_set_known(s, UNKNOWN_PARAMS);
	if (set)
		params_replace(w->params, &s->params, set);
	else
		session_set_unknown(s, UNKNOWN_PARAMS);
	for (int i = 0; i < params_count(w->params); i++) {
		if (s->session.reported & (uint64_t)1 << i)
			continue;
		set = params_with(w->params, s->params, i, params_get(s->pooled.startup, i));
		if (set)
			params_replace(w->params, &s->params, set);
		else
			session_set_unknown(s, UNKNOWN_PARAMS);
	}
}

/* The query sets something, which no RESET leads back to. */
bool server_has_lasting_query(const struct server *s)
{
	const char *query = s->pooled.pool->database->conf->connect_query;

	return query && strcasestr(query, "set");
}

/* A RESET of search_path would undo the setting of connect_query. */
bool server_notes_search_path(const struct server *s)
{
	return server_has_lasting_query(s) && !s->pooled.dedicated && !(s->session.reported & (uint64_t)1 << PARAM_SEARCH_PATH);
}

bool server_restore_search_path(struct server *s, const char *note)
{
	size_t size = strlen(note);

	mem_free(s->session.search_path);
	s->session.search_path = size % 2 == 0 && size <= SEARCH_PATH_MOST && strspn(note, "0123456789abcdef") == size ? mem_copy_string(note) : NULL;
	return s->session.search_path;
}

void server_note_search_path(struct server *s, const uint8_t *row, size_t size)
{
	struct pg_cursor c = pg_cursor_of(row, size);
	const uint8_t *value;
	uint32_t length;
	char *note;

	if (pg_read_u16(&c) < 2)
		return;
	pg_read_bytes(&c, pg_read_u32(&c));
	length = pg_read_u32(&c);
	value = pg_read_bytes(&c, length);
	note = value && length <= SEARCH_PATH_MOST ? mem_try(length + 1) : NULL;
	if (!note)
		return;
	memcpy(note, value, length);
	server_restore_search_path(s, note);
	mem_free(note);
}

/* search_path may have changed, or is changed for a client, and its first value is not known. */
static bool search_path_stays(const struct server *s)
{
	return !s->session.search_path && server_notes_search_path(s) && (s->session.unknown & UNKNOWN_PARAMS || params_get(s->params, PARAM_SEARCH_PATH));
}

/* Settings of connect_query are start-up values, and values set for a client are known. */
void server_parameters_told(struct server *s, bool discarded, bool for_client)
{
	if (discarded || for_client || s->task == &task_reset || s->task == &task_check)
		s->session.set_there = 0;
	if (discarded) {
		s->session.values_of = 0;
		role_discarded(s);
		forget_unreported(s);
		/* the session began with the value of connect_query */
		if (s->session.search_path)
			session_set_unknown(s, UNKNOWN_PARAMS);
		/* later messages of the client may set them again before this is processed */
		if (!for_client) {
			s->session.doubted_by = 0;
			session_set_known(s, UNKNOWN_SESSION);
		}
		return;
	}
	if (for_client)
		role_set_heard(s, ledger_is_within_query(&s->ledger));
	if (for_client || s->task == &task_reset || s->task == &task_check) {
		session_set_unknown(s, UNKNOWN_PARAMS);
		if (search_path_stays(s))
			server_close_if_params_stay(s);
	}
}

/* session_question.c asks for the parameters that are set in the session. If a client has set a parameter to the server's start-up value, it must
   be set in the session too, or the answer would say that the client has RESET it. */
uint64_t server_unset_params(const struct server *s, const struct client *c)
{
	const struct params *first = c->session ? c->session->first : c->params;
	uint64_t unset = 0;

	if (first == c->params)
		return 0;
	/* each text is there once */
	for (int i = 0; i < params_count(s->peer.world->params); i++) {
		const char *wants = params_get(c->params, i);

		if (wants && wants != params_get(first, i) && wants == params_get(s->params, i))
			unset |= (uint64_t)1 << i;
	}
	return unset & ~s->session.set_there;
}

bool server_close_if_reset(struct server *s)
{
	if (!server_has_lasting_query(s))
		return false;
	if (s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_STATE_STAYS;
	return true;
}

void server_doubt(struct server *s, uint64_t client)
{
	s->session.doubted_by = client;
	/* RESET ALL would take away more than that */
	server_close_if_reset(s);
}

/* connect_query may have set a parameter that a client has asked for: its value is not known, and a RESET would set another one. Some parameters
   would end or delay a server without a client (params_is_settable). */
static bool server_may_set_back(const struct server *s)
{
	const char *query = s->pooled.pool->database->conf->connect_query;

	if (s->pooled.dedicated)
		return true;
	if (search_path_stays(s))
		return false;
	for (size_t i = 0; i < params_others(s->params); i++) {
		const char *name = params_other(s->params, i).name;

		if (strcmp(name, PARAMS_ROLE) == 0)
			continue;
		if (!params_is_settable(name) || (query && strcasestr(query, name) && pool_mode_of(s->pooled.pool) != MODE_SESSION))
			return false;
	}
	return true;
}

void server_close_if_params_stay(struct server *s)
{
	if (!server_may_set_back(s) && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_PARAMS_UNKNOWN;
}
