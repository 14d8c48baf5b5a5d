/*
 * The current role of a session.
 *
 * In transaction and statement mode SET ROLE or SET SESSION AUTHORIZATION of a client outlives its transaction, but not its link: the next link
 * begins with the role at the start of the session, which is set together with the tracked parameters (session_restore.c). To save the round trip,
 * this is done only after a possible change of the role (UNKNOWN_ROLE):
 *
 *	- after CommandComplete with the tag SET or RESET, unless the text is plain (pg/meaning.h): a Query that was sent while no
 *	  other message was pending (plain_set); or an Execute, unless a text that may set a role was ever prepared on this server
 *	  (roles_prepared);
 *	- after the server has reported session_authorization or is_superuser, whatever changed them.
 *
 * A role that a function or a DO block sets, without a change of is_superuser, is not noticed.
 *
 * With session_state = full the role moves with its client like a parameter: the server is asked for it (session_state.c), and it is in the client's
 * set (PARAMS_ROLE).
 *
 * RESET of both restores the role at the start of the session: the user of the login, or the role of ALTER ROLE ... SET role. connect_query may have
 * set another role. It is read after connect_query and kept in hexadecimal, because it is a name in the encoding of the database. If that fails, the
 * server is closed as soon as it is released with an unknown role.
 */
#include "state/role.h"
#include "state/session_state.h"


#include <string.h>

#define NOTE_MOST 512			/* bytes of a note; names have 63, or more where PostgreSQL was built so */

/* ---- commands of clients ---- */

void role_query_sent(struct server *s, const uint8_t *text, size_t size)
{
	if (ledger_is_empty(&s->ledger))
		s->session.plain_set = (uint8_t)set_query_keeps(text, size);
}

/* The role after connect_query is known, or there is no connect_query. */
static bool can_be_set_back(const struct server *s)
{
	const char *query = s->pooled.pool->database->conf->connect_query;

	return s->session.role || !query || !*query;
}

/* The client has a session of its own, and server_reset_query runs at its end. */
static bool will_be_reset(const struct server *s)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	const char *query = s->peer.world->conf->settings.server_reset_query;

	return c && !c->shares_server && query && *query;
}

static void close_if_stuck(struct server *s)
{
	if (s->session.unknown & UNKNOWN_ROLE && !can_be_set_back(s) && s->pooled.close_reason == REASON_NONE)
		s->pooled.close_reason = REASON_ROLE_UNKNOWN;
}

static void is_unknown(struct server *s)
{
	const struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	session_set_unknown(s, UNKNOWN_ROLE);
	if (c && c->keeps_state)
		session_add_doubt(s, FACT_ROLE | PIN_PARAMETERS);
	if (!will_be_reset(s))
		close_if_stuck(s);
}

void role_set_heard(struct server *s, bool of_query)
{
	bool is_plain = of_query ? s->session.plain_set & SET_KEEPS_ROLE : !s->session.roles_prepared;

	s->session.plain_set = 0;
	if (!is_plain || s->ledger.lost)
		is_unknown(s);
}

void role_discarded(struct server *s)
{
	session_set_known(s, UNKNOWN_ROLE);
	/* the session began with another one than the login */
	if (s->session.role)
		is_unknown(s);
}

void role_reported(struct server *s, const char *name)
{
	if (strcmp(name, "session_authorization") == 0 || strcmp(name, "is_superuser") == 0)
		is_unknown(s);
}

void role_was_reset(struct server *s, const char *query)
{
	/* a role that the operator wants sessions to have between clients */
	if (role_is_mentioned(query))
		session_set_known(s, UNKNOWN_ROLE);
	close_if_stuck(s);
}

/* ---- the role at the start of the session ---- */

static bool is_note(const char *note, size_t size)
{
	const char *colon = memchr(note, ':', size);
	size_t first = colon ? (size_t)(colon - note) : 0, second = colon ? size - first - 1 : 0;

	return size <= NOTE_MOST && first > 0 && first % 2 == 0 && second > 0 && second % 2 == 0 &&
	       strspn(note, "0123456789abcdef") == first && strspn(colon + 1, "0123456789abcdef") == second;
}

char *role_note_of(const uint8_t *text, size_t size)
{
	char note[NOTE_MOST + 1];

	if (size > NOTE_MOST)
		return NULL;
	memcpy(note, text, size);
	note[size] = '\0';
	return is_note(note, size) ? mem_copy_string(note) : NULL;
}

bool role_is_none(const char *note, const char *first)
{
	size_t user = strcspn(note, ":");

	return strcmp(note + user, ":6e6f6e65") == 0 && strncmp(note, first, user + 1) == 0;
}

bool role_restore(struct server *s, const char *note)
{
	if (!is_note(note, strlen(note)))
		return false;
	mem_free(s->session.role);
	s->session.role = mem_copy_string(note);
	return s->session.role;
}

void role_note(struct server *s, const uint8_t *row, size_t size)
{
	struct pg_cursor c = pg_cursor_of(row, size);
	const uint8_t *value;
	uint32_t length;
	char *note;

	pg_read_u16(&c);
	length = pg_read_u32(&c);
	value = pg_read_bytes(&c, c.bad ? 0 : length);
	note = c.bad ? NULL : role_note_of(value, length);
	if (!note)
		return;
	mem_free(s->session.role);
	s->session.role = note;
}

static void append_name(struct bytes *sql, const char *parameter, const char *hex, size_t size, bool for_transaction)
{
	bytes_append_format(sql, "pg_catalog.set_config('%s',", parameter);
	if (hex)
		bytes_append_format(sql, "pg_catalog.convert_from(pg_catalog.decode('%.*s','hex'),"
				    "pg_catalog.getdatabaseencoding())", (int)size, hex);
	else
		bytes_append_text(sql, "NULL");
	/* the value itself may have characters that the client's encoding has not */
	bytes_append_text(sql, for_transaction ? ",true) IS NULL" : ",false) IS NULL");
}

/* NULL: the role that a RESET restores. */
static void append_role(struct bytes *sql, const char *note, bool for_transaction)
{
	const char *colon = note ? strchr(note, ':') : NULL;

	append_name(sql, "session_authorization", note, colon ? (size_t)(colon - note) : 0, for_transaction);
	bytes_append_text(sql, ",");
	append_name(sql, "role", colon ? colon + 1 : NULL, colon ? strlen(colon + 1) : 0, for_transaction);
}

void role_sql(const struct server *s, bool for_transaction, struct bytes *sql)
{
	append_role(sql, s->session.role, for_transaction);
}

bool role_sql_of(const char *note, struct bytes *sql)
{
	if (!is_note(note, strlen(note)))
		return false;
	append_role(sql, note, false);
	return true;
}
