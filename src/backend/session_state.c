/*
 * The state of a client's session, with session_state = full: what a client sets in one transaction holds in the next, on whatever
 * server that is, and on no other client's.
 *
 * What a client has set is asked of the server, because SQL cannot be read well enough to know it: a SET may be rolled back, be one of many
 * statements of a text, or stand in a function. It is asked at the end of a link, before any other client has the server, and only where
 * something may have been set (server->state_in_doubt):
 *
 *  - after CommandComplete with the tag SET, RESET, DISCARD ALL, DO or CALL;
 *  - after a text that calls set_config, and at the end of each link of a client that has prepared such a statement.
 *
 * The answer is the set of parameters that the client has from then on (struct params), and that its next server is brought to
 * (relay/link_params.c). The view pg_settings says what has been set in a session, but for parameters with a dot that no extension has
 * defined. These are asked for by name; the names come from the client's texts (pg/setting_text.h) and from session_settings.
 *
 * A client that sets a parameter whose name cannot be known (set_config($1, ...)), or names too many, keeps its server until it leaves, as
 * in session mode. So it is known of each server without a client what its session has, or it is reset before it is lent again.
 *
 * SQL is looked at as a whole before it goes to the server. Of one that does not fit the read buffer the rest is not looked at; when it has set
 * something by a command, the client keeps its server.
 *
 * What a function sets that is called by a SELECT, without the word set_config in the client's text, is not noticed.
 */
#include "backend/session_state.h"

#include "backend/session_params.h"
#include "backend/task.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "pg/message.h"
#include "pg/setting_text.h"

#include <string.h>

#define ANSWER_MOST (64 * 1024)		/* bytes of names and values that are kept of one answer */
#define TRIES 3				/* a cancel request of the client's may hit the question */

/* What has come of the answer: name and value in turn, each with its NUL. */
struct session_answer {
	struct bytes pairs;
	size_t count;
	bool is_too_much;
	bool is_incomplete;		/* rows of it have come to another process */
	int tries;
};

/* ---- what clients do ---- */

/* It has a session of its own from now on. */
static void keep_server(struct server *s, struct client *c, const char *why)
{
	const char *query = s->peer.world->conf->settings.server_reset_query;
	char who[256];

	if (!c->shares_server)
		return;
	log_info("%s keeps its server connection until it leaves: %s", client_text(c, who, sizeof(who)), why);
	c->shares_server = false;
	if ((!query || !*query) && s->policy.close_reason == REASON_NONE)
		s->policy.close_reason = REASON_PARAMS_UNKNOWN;
}

static bool has_name(const struct client_session *state, const char *name)
{
	const char *at = (const char *)bytes_front(&state->names), *end = at + bytes_size(&state->names);

	for (; at < end; at += strlen(at) + 1)
		if (strcmp(at, name) == 0)
			return true;
	return false;
}

struct naming { struct server *s; struct client *c; };

static void name_it(void *context, const char *name)
{
	struct naming *n = context;
	struct client_session *state = n->c->session;

	if (bytes_size(&state->names) > 0 && has_name(state, name))
		return;
	if (state->count == SESSION_NAMES_MOST) {
		keep_server(n->s, n->c, "it has named too many parameters");
		return;
	}
	bytes_append_string(&state->names, name);
	state->count++;
	if (state->names.failed)
		keep_server(n->s, n->c, "out of memory");
}

static bool session_of(struct client *c)
{
	if (c->session)
		return true;
	c->session = mem_try(sizeof(*c->session));
	if (c->session)
		c->session->first = params_hold(c->params);
	return c->session;
}

void session_state_begin(struct server *s, struct client *c)
{
	c->keeps_state = c->shares_server && session_of(c);
	if (c->shares_server && !c->keeps_state)
		keep_server(s, c, "out of memory");
	s->state_in_doubt = c->keeps_state && c->session->calls;
	s->state_was_reset = s->state_text_was_cut = false;
}

void session_state_text(struct server *s, struct client *c, const uint8_t *text, size_t size, bool is_parse)
{
	struct naming naming = { s, c };
	unsigned said = setting_text_may_tell(text, size) ? setting_text_read(text, size, name_it, &naming) : 0;

	if (said & (SETTING_CALLED | SETTING_CUT))
		s->state_in_doubt = true;
	if (said & SETTING_CUT)
		s->state_text_was_cut = true;
	if (said & SETTING_UNNAMED)
		keep_server(s, c, "it sets a parameter whose name is not in the query");
	if (said & (SETTING_CALLED | SETTING_CUT) && (is_parse || said & SETTING_KEPT))
		c->session->calls = true;
}

void session_state_told(struct server *s, bool is_reset)
{
	struct client *c = s->policy.link ? client_of(s->policy.link) : NULL;

	if (!c || !c->keeps_state)
		return;
	s->state_in_doubt = true;
	s->state_was_reset |= is_reset;
	if (s->state_text_was_cut)
		keep_server(s, c, "its query is too long to be searched for the names of parameters");
}

/* ---- the question ---- */

static void ask_for(struct bytes *sql, const char *name)
{
	bytes_append_format(sql, " UNION ALL SELECT '%s',pg_catalog.current_setting('%s',true)", name, name);
}

/* The names with a dot that the client has named, or has: it may have them from another process, or from its start-up. */
static void ask_for_named(struct bytes *sql, const struct client *c)
{
	const struct client_session *state = c->session;
	const char *at = bytes_size(&state->names) > 0 ? (const char *)bytes_front(&state->names) : NULL;
	const char *end = at ? at + bytes_size(&state->names) : NULL;

	for (; at < end; at += strlen(at) + 1)
		ask_for(sql, at);
	for (size_t i = 0; i < params_others(c->params); i++) {
		const char *name = params_other(c->params, i).name;

		if (strchr(name, '.') && !(at && has_name(state, name)))
			ask_for(sql, name);
	}
}

/* The client's statement_timeout must not end the question. It is taken back at the end of this query, which is one transaction, and so
   pgweir.timeout has to say what it was. (reset_val is in milliseconds.) */
static const char question[] =
	"SELECT pg_catalog.set_config('pgweir.timeout',pg_catalog.current_setting('statement_timeout'),true),"
	"pg_catalog.set_config('statement_timeout','0',true),1;"
	"SELECT name,CASE name OPERATOR(pg_catalog.=) 'statement_timeout' WHEN true THEN pg_catalog.current_setting('pgweir.timeout') "
	"ELSE setting END FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session' AND "
	"(name OPERATOR(pg_catalog.<>) 'statement_timeout' OR pg_catalog.current_setting('pgweir.timeout')::pg_catalog.interval "
	"OPERATOR(pg_catalog.<>) (pg_catalog.concat(reset_val,'ms'))::pg_catalog.interval)";

static bool send_question(struct server *s)
{
	struct bytes sql = BYTES_EMPTY;
	bool sent = false;

	bytes_append_text(&sql, question);
	ask_for_named(&sql, client_of(s->policy.link));
	bytes_append_u8(&sql, 0);
	if (sql.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else
		sent = server_run(s, TASK_STATE, (const char *)sql.data);
	bytes_free(&sql);
	return sent;
}

bool session_state_ask(struct server *s)
{
	ASSERT(s->policy.link && !s->answer);
	s->answer = mem_try(sizeof(*s->answer));
	if (!s->answer) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	return send_question(s);
}

/* ---- the answer ---- */

/* The next column of a row, "" for NULL (*is_null). NULL: there is none, or it has a NUL in it. */
static const uint8_t *take_column(struct pg_cursor *row, uint32_t *size, bool *is_null)
{
	uint32_t length = pg_read_u32(row);
	const uint8_t *value;

	*is_null = length == UINT32_MAX;
	*size = *is_null ? 0 : length;
	value = pg_read_bytes(row, *size);
	return row->bad || (*size > 0 && memchr(value, 0, *size)) ? NULL : value;
}

void session_state_row(struct server *s, const struct pg_frame *f)
{
	struct pg_cursor row = pg_cursor_of(f->body, f->here);
	struct session_answer *a = s->answer;
	char text[PARAMS_NAME_LONGEST + 1];
	const uint8_t *name, *value;
	uint32_t name_size, value_size;
	bool is_null;

	/* the row of the first statement has three columns */
	if (!a || pg_read_u16(&row) != 2)
		return;
	name = take_column(&row, &name_size, &is_null);
	value = name ? take_column(&row, &value_size, &is_null) : NULL;
	if (!value || f->here < f->size || name_size > PARAMS_NAME_LONGEST || a->count == PARAMS_OTHERS_MOST ||
	    bytes_size(&a->pairs) + name_size + value_size > ANSWER_MOST) {
		a->is_too_much = true;
		return;
	}
	memcpy(text, name, name_size);
	text[name_size] = '\0';
	if (!params_has_form(text))
		a->is_too_much = true;
	if (is_null || !params_can_be_restored(text))
		return;
	bytes_append_string(&a->pairs, text);
	bytes_append(&a->pairs, value, value_size);
	bytes_append_u8(&a->pairs, 0);
	a->count++;
}

/* The answer by names. Of a parameter with a dot a RESET leaves an empty value, for which the one stands that the client began with. */
struct learned {
	const char **values;		/* of the tracked parameters; NULL: not set in the session */
	struct params_pair *others;
	size_t count;
};

static bool read_answer(const struct server *s, const struct params *first, struct learned *l)
{
	const struct session_answer *a = s->answer;
	const struct params_table *table = s->peer.world->params;
	const char *at = (const char *)(a->count > 0 ? bytes_front(&a->pairs) : NULL);

	l->values = mem_try((size_t)params_count(table) * sizeof(*l->values));
	l->others = mem_try((a->count + 1) * sizeof(*l->others));
	l->count = 0;
	if (!l->values || !l->others)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const char *name = at, *value = at + strlen(at) + 1;
		int index = params_index(table, name);

		if (index >= 0)
			l->values[index] = value;
		else if (!(s->state_was_reset && !*value && params_other_value(first, name)))
			l->others[l->count++] = (struct params_pair){ name, value };
		at = value + strlen(value) + 1;
	}
	return true;
}

static void learned_free(struct learned *l)
{
	mem_free(l->values);
	mem_free(l->others);
}

/* The set with these others, and of the tracked parameters what has been learned, in the spelling of `told` where the server reports it.
   Of one that is not set in the session: what `first` has, or, with no `first`, what the session began with. NULL: no memory. */
static const struct params *set_of(struct server *s, const struct params *told, const struct params *first, const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values));
	const struct params *set = NULL;

	for (int i = 0; values && i < params_count(table); i++) {
		bool is_reported = s->reported & (uint64_t)1 << i;

		if (is_reported && (l->values[i] || !first))
			values[i] = params_get(told, i);
		else
			values[i] = l->values[i] ? l->values[i] : params_get(first ? first : s->policy.startup, i);
	}
	if (values)
		set = params_of_values(table, values, l->others, l->count);
	mem_free(values);
	return set;
}

enum taking { TAKEN, TOO_MUCH, NO_MEMORY };

/* What the session has, and what its client has: where the client has RESET one, that is what it began with. These and the others that it
   has set can be more than a set may have. */
static enum taking take_over(struct server *s, struct client *c, const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const struct params *has = set_of(s, s->params, NULL, l);
	const struct params *set = has ? set_of(s, c->params, c->session->first, l) : NULL;
	const struct params *all = set ? params_overlay(table, c->session->first, set) : NULL;
	const struct params *wants = all ? params_with_others(table, set, all) : NULL;
	enum taking taking = !wants ? NO_MEMORY : params_others(wants) > PARAMS_OTHERS_MOST ? TOO_MUCH : TAKEN;

	if (taking == TAKEN) {
		params_replace(table, &s->params, params_hold(has));
		params_replace(table, &c->params, params_hold(wants));
	}
	params_drop(table, &wants);
	params_drop(table, &all);
	params_drop(table, &set);
	params_drop(table, &has);
	return taking;
}

void session_state_forget(struct server *s)
{
	if (!s->answer)
		return;
	bytes_free(&s->answer->pairs);
	mem_free(s->answer);
	s->answer = NULL;
}

static bool ask_again(struct server *s)
{
	struct session_answer *a = s->answer;

	if (s->said_fatal || ++a->tries == TRIES)
		return false;
	bytes_free(&a->pairs);
	a->count = 0;
	a->is_incomplete = a->is_too_much = false;
	send_question(s);
	return true;
}

bool session_state_learn(struct server *s)
{
	struct client *c = client_of(s->policy.link);
	struct session_answer *a = s->answer;
	struct learned l = { NULL, NULL, 0 };
	enum taking taking = TOO_MUCH;

	if (s->task_failed || a->is_incomplete || a->pairs.failed) {
		if (!ask_again(s))
			server_end(s, REASON_STATE_UNKNOWN, NULL);
		return false;
	}
	s->state_in_doubt = false;
	if (!a->is_too_much)
		taking = read_answer(s, c->session->first, &l) ? take_over(s, c, &l) : NO_MEMORY;
	learned_free(&l);
	session_state_forget(s);
	if (taking == NO_MEMORY) {
		server_end(s, REASON_NO_MEMORY, NULL);
		return false;
	}
	if (taking == TOO_MUCH) {
		keep_server(s, c, "it has set more than can be kept");
		return true;
	}
	s->unknown &= (uint8_t)~UNKNOWN_PARAMS;
	server_close_if_params_stay(s);
	return true;
}

/* ---- the hand-over ---- */

bool session_state_restore(struct client *c, const struct params *first, const char *names, size_t size, bool calls)
{
	struct client_session *state = mem_try(sizeof(*state));

	if (!state)
		return false;
	c->session = state;
	state->first = params_hold(first);
	state->calls = calls;
	if (size > 0 && names[size - 1] != '\0')
		return false;
	bytes_append(&state->names, names, size);
	for (size_t at = 0; at < size; at += strlen(names + at) + 1, state->count++)
		if (!strchr(names + at, '.') || !params_is_settable(names + at) || state->count == SESSION_NAMES_MOST)
			return false;
	return !state->names.failed;
}

bool session_state_is_asked_elsewhere(struct server *s)
{
	s->answer = mem_try(sizeof(*s->answer));
	if (s->answer)
		s->answer->is_incomplete = true;
	return s->answer;
}

void session_state_free(struct client *c)
{
	if (!c->session)
		return;
	params_drop(c->peer.world->params, &c->session->first);
	bytes_free(&c->session->names);
	mem_free(c->session);
	c->session = NULL;
}
