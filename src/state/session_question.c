/*
 * The query about the session of a client, and its answer. It is one Query of several statements:
 *
 *	SELECT set_config(...), ..., 1		three columns: no statement_timeout of the client
 *						applies
 *	SELECT name, setting FROM pg_settings	two columns: parameters that are set in the session
 *	SELECT 4 WHERE EXISTS (...)		one column, a number: the session has the fact with
 *						this number
 *	SELECT channel, 0, 0, 0			four columns: a channel that the session listens to
 *	SELECT note of the role			one column: the current role, and in a second row
 *						the role at the start of the session
 *
 * The query asks only for facts in doubt (session.dirty).
 */
#include "state/session_question.h"

#include "state/notify.h"
#include "state/server_session.h"
#include "state/session_functions.h"
#include "state/session_restore.h"
#include "state/session_state.h"
#include "state/session_values.h"
#include "state/task.h"
#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "pg/message.h"

#include <string.h>

#define TRIES 3				/* of one question to a server */
#define PARAMETERS PIN_PARAMETERS	/* a doubt: the client may have set parameters */
#define FOREVER (PIN_PARAMETERS | PIN_LIBRARY)	/* pins that last until the client leaves */
#define UNASKED (FOREVER | PIN_SEQUENCE)	/* pins about which the server cannot be asked */
#define ANSWER_MOST (64 * 1024)		/* bytes of names and values that are kept of one answer */
#define CHANNELS_MOST 500		/* of a client: more keep their server */

/* ---- the question ---- */

/* The hash of a name and its place in the names of a client: a text may contain one of many long
   names very often. */
struct session_place { uint32_t hash, at; };

/* Whether a text of the client has named this parameter. */
static bool asks_for(const struct client_session *state, const char *name)
{
	uint32_t hash = (uint32_t)hash_of(name, strlen(name));
	struct session_place place;

	for (size_t i = 0; i < bytes_size(&state->places); i += sizeof(place)) {
		memcpy(&place, bytes_front(&state->places) + i, sizeof(place));
		if (place.hash == hash &&
		    strcmp((const char *)bytes_front(&state->names) + place.at, name) == 0)
			return true;
	}
	return false;
}

bool session_will_ask_for(struct client_session *state, const char *name)
{
	struct session_place place = { (uint32_t)hash_of(name, strlen(name)),
				       (uint32_t)bytes_size(&state->names) };

	if (asks_for(state, name))
		return true;
	if (state->count == SESSION_NAMES_MOST)
		return false;
	bytes_append_string(&state->names, name);
	bytes_append(&state->places, &place, sizeof(place));
	state->names.failed |= state->places.failed;
	state->count++;
	return true;
}

/* The client's statement_timeout must not end the query. The change ends with this query, which is
   one transaction; pgweir.timeout keeps the old value for the second statement. (reset_val is in
   milliseconds.) */
static const char without_timeout[] =
	"SELECT "
	"pg_catalog.set_config('pgweir.timeout',pg_catalog.current_setting('statement_timeout'),"
	"true),pg_catalog.set_config('statement_timeout','0',true),1"
	"";
static const char parameters[] =
	";SELECT name,CASE name OPERATOR(pg_catalog.=) 'statement_timeout' WHEN true THEN "
	"pg_catalog.current_setting('pgweir.timeout') ELSE setting END FROM "
	"pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session'";
/* The first statement of the query sets statement_timeout, so pg_settings shows it as set in the
   session even if the client has not set it. */
static const char without_default_timeout[] =
	" AND (name OPERATOR(pg_catalog.<>) 'statement_timeout' OR "
	"pg_catalog.current_setting('pgweir.timeout')::pg_catalog.interval "
	"OPERATOR(pg_catalog.<>) (pg_catalog.concat(reset_val,'ms'))::pg_catalog.interval)";
static const struct {
	unsigned fact;
	enum session_ask ask;
	const char *where;		/* SQL after FROM; a row: the session has the fact */
} facts[] = {				/* pins come first, by their numbers */
#define SESSION_PIN(id, label, texts, set_by, ended_by, ask, where) { PIN_##id, ask, where },
#define SESSION_FACT(id, texts, set_by, ended_by, ask) { FACT_##id, ask, NULL },
#include "tbl/session_fact.tbl"
};

#define BY_NAME " UNION ALL SELECT '%s',pg_catalog.current_setting('%s',true)"
static const char channels[] = ";SELECT c,0,0,0 FROM pg_catalog.pg_listening_channels() c";

/* Whether the client may have set statement_timeout to the server's default: only a SET can lead to
   the default from another start-up value. */
static bool may_have_default_timeout(const struct server *s, const struct client *c)
{
	const struct params *first = c->session->first;
	int index = params_index(s->peer.world->params, "statement_timeout");

	return !s->session.was_reset &&
	       (index >= 0 ? params_get(first, index)
			   : params_other_value(first, "statement_timeout"));
}

/* Frees the content of an answer, for another try. */
static void clear_answer(struct session_answer *a)
{
	bytes_free(&a->pairs);
	bytes_free(&a->channels);
	mem_free(a->role);
	mem_free(a->first_role);
	a->role = a->first_role = NULL;
	a->count = 0;
	a->pins = 0;
	a->channel_count = 0;
	a->is_too_much = a->are_channels_too_many = false;
}

/* Asks the server for the facts in doubt. Creates session.answer, or clears session.answer for
   another try. False: no memory; the server has ended. */
static bool question_send_question(struct server *s)
{
	const struct client *c = client_of(s->pooled.link);
	struct bytes sql = BYTES_EMPTY;
	const char *names = bytes_size(&c->session->names) > 0
				    ? (const char *)bytes_front(&c->session->names)
				    : "";

	if (s->session.answer)
		clear_answer(s->session.answer);
	else
		s->session.answer = mem_try(sizeof(*s->session.answer));
	if (!s->session.answer) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	bytes_append_text(&sql, without_timeout);
	for (size_t fact = 0; fact < sizeof(facts) / sizeof(*facts); fact++) {
		if (!(s->session.dirty & facts[fact].fact))
			continue;
		switch (facts[fact].ask) {
		case ASK_NOT:
			break;
		case ASK_PARAMETERS:
			bytes_append_text(&sql, parameters);
			if (!may_have_default_timeout(s, c))
				bytes_append_text(&sql, without_default_timeout);
			/* parameters with a dot are asked for by name: the names that the client
			   has used, and the names of values from its start-up or from another
			   process */
			for (const char *at = names, *end = at + bytes_size(&c->session->names);
			     at < end; at += strlen(at) + 1)
				bytes_append_format(&sql, BY_NAME, at, at);
			for (size_t i = 0; i < params_others(c->params); i++) {
				const char *name = params_other(c->params, i).name;

				if (strchr(name, '.') && !asks_for(c->session, name))
					bytes_append_format(&sql, BY_NAME, name, name);
			}
			break;
		case ASK_EXISTS:
			bytes_append_format(&sql, ";SELECT %d WHERE EXISTS (SELECT 1 FROM %s)",
					    (int)fact, facts[fact].where);
			break;
		case ASK_CHANNELS:
			bytes_append_text(&sql, channels);
			break;
		case ASK_ROLE:
			/* The role at the start of the session comes last, because it may see less
			   than the client's role. The RESET ends with this query. */
			bytes_append_text(&sql, ";SELECT " ROLE_NOTE ";SELECT ");
			role_sql(s->session.role, true, &sql);
			bytes_append_text(&sql, ",1;SELECT " ROLE_NOTE);
		}
	}
	server_run_and_free(s, &task_state, &sql);
	return true;
}

/* ---- the answer ---- */

/* Returns the next column of a row, and "" with *is_null for SQL's NULL. Returns NULL if the row
   has no more columns, or the value contains a NUL byte. */
static const uint8_t *take_column(struct pg_cursor *row, uint32_t *size, bool *is_null)
{
	uint32_t length = pg_read_u32(row);
	const uint8_t *value;

	*is_null = length == UINT32_MAX;
	*size = *is_null ? 0 : length;
	value = pg_read_bytes(row, *size);
	return row->bad || (*size > 0 && memchr(value, 0, *size)) ? NULL : value;
}

/* The number of a pin, or a note of a role. */
static void short_row(struct session_answer *a, struct pg_cursor *row)
{
	uint32_t size;
	bool is_null;
	const uint8_t *text = take_column(row, &size, &is_null);

	if (text && size == 1 && *text >= '0' && *text < '0' + PINS)
		a->pins |= 1u << (*text - '0');
	else if (text && !a->role)
		a->role = role_note_of(text, size);
	else if (text && !a->first_role)
		a->first_role = role_note_of(text, size);
}

/* PostgreSQL has no name of this length: the row is malformed. */
static void channel_row(struct session_answer *a, struct pg_cursor *row)
{
	uint32_t size;
	bool is_null;
	const uint8_t *name = take_column(row, &size, &is_null);

	a->pins |= PIN_LISTENING;
	if (!name || size == 0 || bytes_size(&a->channels) + size > ANSWER_MOST ||
	    a->channel_count++ == CHANNELS_MOST) {
		a->are_channels_too_many = true;
		return;
	}
	bytes_append(&a->channels, name, size);
	bytes_append_u8(&a->channels, 0);
}

static void parameter_row(struct session_answer *a, struct pg_cursor *row, bool is_whole)
{
	char text[PARAMS_NAME_LONGEST + 1];
	const uint8_t *name, *value;
	uint32_t name_size, value_size;
	enum params_kind kind;
	bool is_null;

	name = take_column(row, &name_size, &is_null);
	value = name ? take_column(row, &value_size, &is_null) : NULL;
	if (!value || !is_whole || name_size > PARAMS_NAME_LONGEST ||
	    a->count == PARAMS_OTHERS_MOST ||
	    bytes_size(&a->pairs) + name_size + value_size > ANSWER_MOST) {
		a->is_too_much = true;
		return;
	}
	memcpy(text, name, name_size);
	text[name_size] = '\0';
	kind = params_kind_of(text);
	a->is_too_much |= kind == PARAMS_MALFORMED;
	if (is_null || kind < PARAMS_RESTORABLE)
		return;
	bytes_append_string(&a->pairs, text);
	bytes_append(&a->pairs, value, value_size);
	bytes_append_u8(&a->pairs, 0);
	a->count++;
}

static void question_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	struct session_answer *a = s->session.answer;
	unsigned columns = pg_read_u16(&row);

	/* the row of the first statement has three */
	if (a && columns == 1)
		short_row(a, &row);
	else if (a && columns == 2)
		parameter_row(a, &row, f->here == f->size);
	else if (a && columns == 4)
		channel_row(a, &row);
}

void session_question_forget(struct server *s)
{
	if (!s->session.answer)
		return;
	clear_answer(s->session.answer);
	mem_free(s->session.answer);
	s->session.answer = NULL;
}

/* ---- the effect of the answer ---- */

/*
 * The answer updates the parameters of the session and of its client. The server is asked for
 * parameters that are set in the session; all others have the start-up values of the session, or of
 * the client.
 */

enum session_taking { SESSION_TAKEN, SESSION_TOO_MUCH, SESSION_NO_MEMORY };

/* The answer. A RESET of a parameter with a dot leaves an empty value; the client has its start-up
   value then. */
struct learned {
	/* of the tracked parameters; NULL: not set in the session */
	const char **values;
	struct params_pair *others;
	size_t count;
};

/* Whether the note says that the session acts as its user, which is also the user of the note
   `first`. */
static bool role_is_none(const char *note, const char *first)
{
	size_t user = strcspn(note, ":");

	return strcmp(note + user, ":6e6f6e65") == 0 && strncmp(note, first, user + 1) == 0;
}

/* Looks up the parameters of the answer. False: no memory. */
static bool look_up(const struct server *s, const struct client *c, struct learned *l)
{
	const struct params *first = c->session->first;
	const struct session_answer *a = s->session.answer;
	const struct params_table *table = s->peer.world->params;
	const char *at = (const char *)(a->count > 0 ? bytes_front(&a->pairs) : NULL), *role;

	if (!(s->session.dirty & FACT_ROLE))
		role = params_other_value(c->params, PARAMS_ROLE);
	/* NULL: the role at the start of the session; after connect_query a RESET restores another
	   role, as for parameters */
	else if (strcmp(a->role, a->first_role) == 0 ||
		 (s->session.was_reset && role_is_none(a->role, a->first_role)))
		role = NULL;
	else
		role = a->role;
	l->values = mem_try((size_t)params_count(table) * sizeof(*l->values));
	l->others = mem_try((a->count + 2) * sizeof(*l->others));
	l->count = 0;
	if (!l->values || !l->others)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const char *name = at, *value = at + strlen(at) + 1;
		int index = params_index(table, name);

		if (index >= 0)
			l->values[index] = value;
		else if (!(s->session.was_reset && !*value && params_other_value(first, name)))
			l->others[l->count++] = (struct params_pair){ name, value };
		at = value + strlen(value) + 1;
	}
	if (role)
		l->others[l->count++] = (struct params_pair){ PARAMS_ROLE, role };
	return true;
}

/* Makes a set of these others and of the tracked parameters in the answer, in the spelling of
   `told` if the server reports them. Other parameters have the value of `first`, or, without
   `first`, of the start of the session. NULL: no memory. */
static const struct params *question_set_of(struct server *s, const struct params *told,
					    const struct params *first, const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values));
	const struct params *set = NULL;

	for (int i = 0; values && i < params_count(table); i++) {
		bool is_reported = s->session.reported & (uint64_t)1 << i;

		if (is_reported && (l->values[i] || !first))
			values[i] = params_get(told, i);
		else
			values[i] = l->values[i] ? l->values[i]
						 : params_get(first ? first : s->pooled.startup, i);
	}
	if (values)
		set = params_of_values(table, values, l->others, l->count);
	mem_free(values);
	return set;
}

/* Stores the parameters of the session and of its client, which has its start-up values for
   parameters that it has RESET. Both together can be more than a set may have. */
static enum session_taking question_store(struct server *s, struct client *c,
					  const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const struct params *has = question_set_of(s, s->params, NULL, l);
	const struct params *set = has ? question_set_of(s, c->params, c->session->first, l) : NULL;
	const struct params *all = set ? params_overlay(table, c->session->first, set) : NULL;
	const struct params *wants = all ? params_with_others(table, set, all) : NULL;
	enum session_taking taking = !wants					 ? SESSION_NO_MEMORY
				     : params_others(wants) > PARAMS_OTHERS_MOST ? SESSION_TOO_MUCH
										 : SESSION_TAKEN;

	if (taking == SESSION_TAKEN) {
		s->session.set_there = 0;
		for (int i = 0; i < params_count(table); i++)
			s->session.set_there |= (uint64_t)(l->values[i] != NULL) << i;
		params_replace(table, &s->params, params_hold(has));
		params_replace(table, &c->params, params_hold(wants));
	}
	params_drop(table, &wants);
	params_drop(table, &all);
	params_drop(table, &set);
	params_drop(table, &has);
	return taking;
}

/* Sets server->params to the values of the session, and client->params to the values of the client.
   Without success they do not change. */
static enum session_taking take_params(struct server *s, struct client *c)
{
	struct learned l = { NULL, NULL, 0 };
	enum session_taking taking = SESSION_TOO_MUCH;

	if (!s->session.answer->is_too_much)
		taking = look_up(s, c, &l) ? question_store(s, c, &l) : SESSION_NO_MEMORY;
	mem_free(l.values);
	mem_free(l.others);
	return taking;
}

/* The answer is complete. True: the server and the client have its parameters, and the client its
   pins. False: the server is asked again, or has ended. */
static bool question_learn(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	struct session_answer *a = s->session.answer;
	unsigned asked = s->session.dirty, pins;

	/* without `a` another process has received a part of the answer */
	if (s->task_failed || !a || a->pairs.failed || a->channels.failed ||
	    (asked & FACT_ROLE && !a->first_role)) {
		/* asked once more, because a cancel request of the client may have hit the query */
		if (s->said_fatal || (a && ++a->tries == TRIES))
			server_end(s, REASON_STATE_UNKNOWN, NULL);
		else
			question_send_question(s);
		return false;
	}
	if (asked & PARAMETERS) {
		const struct params *told = params_hold(c->params);
		enum session_taking taking = take_params(s, c);
		/* after a RESET the client was told the server's default, and has its start-up
		   value */
		bool alive = taking != SESSION_TAKEN ||
			     session_tell(c, told, c->params, s->session.reported);

		params_drop(s->peer.world->params, &told);
		if (!alive)
			return false;
		switch (taking) {
		case SESSION_NO_MEMORY:
			server_end(s, REASON_NO_MEMORY, NULL);
			return false;
		case SESSION_TOO_MUCH:
			session_keep_server(c, PIN_PARAMETERS, "it has set more than can be kept");
			break;
		case SESSION_TAKEN:
			session_set_known(s, STALE_PARAMS);
			if (asked & FACT_ROLE && (params_other_value(s->params, PARAMS_ROLE) ||
						  strcmp(a->role, a->first_role) == 0))
				session_set_known(s, STALE_ROLE);
			server_close_if_params_stay(s);
		}
	}
	if (asked & PIN_LISTENING) {
		/* with too many channels the client stays at this server */
		if (a->are_channels_too_many && c->session->notify_client)
			c->session->notify_client->step = NOTIFY_RESTS;
		if (!a->are_channels_too_many &&
		    !notify_client_learn(c, a, s->session.channels_restored))
			return false;
	}
	/* tainted, because functions and triggers of a temporary schema are not known, and because
	   the client's role may not see all settings that the client has made under another role */
	if (asked & PIN_TEMPORARY || params_other_value(c->params, PARAMS_ROLE))
		server_note_tainted(s, c->peer.id);
	pins = (c->pooled.pins & (~asked | UNASKED)) | (a->pins & asked & ~(unsigned)UNASKED);
	session_set_clean(s, UINT16_MAX);
	s->session.was_reset = s->session.text_was_cut = false;
	session_question_forget(s);
	session_pin(c, pins);
	return true;
}

static enum task_end state_done(struct server *s, bool failed)
{
	(void)failed;
	if (!s->pooled.link) {
		session_question_forget(s);
		return TASK_END_RELEASE;
	}
	if (!question_learn(s))
		return TASK_END_NOTHING;
	if (s->pooled.link->listens)
		notify_client_flush(client_of(s->pooled.link));
	return TASK_END_LINK;
}

const struct server_task task_state = {
	.name = "state",
	.description = "asking for the session's settings",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.reads_rows = true,
	.ends_alone = true,
	.on_row = question_row,
	.on_done = state_done,
};

bool session_state_ask(struct server *s)
{
	struct client *c = client_of(s->pooled.link);
	struct bytes sql = BYTES_EMPTY;

	if (s->session.dirty & FACT_CHANNELS) {
		session_set_clean(s, FACT_CHANNELS);
		/* no channel is left after DISCARD ALL */
		if (c->pooled.listens) {
			c->session->notify_client->step = NOTIFY_LEAVES;
			session_pin(c, c->pooled.pins | PIN_LISTENING);
		}
	}
	if (c->session)
		c->session->draws_now = false;
	/* After a possible RESET the session gets the client's start-up parameters that the server
	   lacks. Nothing is asked for: the pins last until the client leaves. */
	if (c->pooled.pins & FOREVER) {
		bool was_reset = s->session.was_reset;

		if (!(s->session.dirty & PARAMETERS) || !c->session ||
		    c->session->first == s->first_params)
			return false;
		session_set_clean(s, PARAMETERS);
		s->session.was_reset = false;
		session_state_keeps_server(c);
		if (params_sql_after_reset(s->peer.world->params, s->first_params,
					   c->session->first, was_reset, &sql) > 0)
			server_run_and_free(s, &task_params, &sql);
		return true;
	}
	/* the link continues: the server was asked at the end of an earlier transaction */
	if (c->pooled.pins && c->session && c->activity.last != c->session->asked_at)
		session_note_prepared(s, c);
	/* the client loses its server, or keeps none for its values */
	if (s->session.dirty == 0)
		return c->session && (c->session->values || session_must_yield(c)) &&
		       session_values_ask(s, c);
	ASSERT(!s->session.answer);
	if (!question_send_question(s))
		return true;
	c->session->asked_at = c->activity.last;
	c->pooled.pool->state_asks++;
	return true;
}
