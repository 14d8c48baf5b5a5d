/*
 * An answer about parameters updates two sets: the parameters of the server's session, and the parameters of its client. The server is asked for
 * parameters that are set in the session; all others have the start-up values of the session, or of the client.
 */
#include "state/session_learn.h"

#include "state/role.h"
#include "state/session_question.h"
#include "state/session_state.h"
#include "base/mem.h"

#include <string.h>

/* The role that moves with the client; NULL: the role at the start of the session. */
static const char *role_of(const struct server *s, const struct client *c)
{
	const struct session_answer *a = s->session.answer;

	if (!(s->session.doubts & FACT_ROLE))
		return params_other_value(c->params, PARAMS_ROLE);
	/* after connect_query a RESET restores another role, as for parameters */
	if (strcmp(a->role, a->first_role) == 0 || (s->session.was_reset && role_is_none(a->role, a->first_role)))
		return NULL;
	return a->role;
}

/* The answer by names. A RESET of a parameter with a dot leaves an empty value: the client has its start-up value then. */
struct learned {
	const char **values;		/* of the tracked parameters; NULL: not set in the session */
	struct params_pair *others;
	size_t count;
};

static bool read_answer(const struct server *s, const struct client *c, struct learned *l)
{
	const struct params *first = c->session->first;
	const struct session_answer *a = s->session.answer;
	const struct params_table *table = s->peer.world->params;
	const char *at = (const char *)(a->count > 0 ? bytes_front(&a->pairs) : NULL), *role = role_of(s, c);

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

static void learned_free(struct learned *l)
{
	mem_free(l->values);
	mem_free(l->others);
}

/* Makes a set of these others and of the tracked parameters in the answer, in the spelling of `told` if the server reports them. A parameter that
   is not set in the session has the value of `first`, or, without `first`, of the start of the session. NULL: no memory. */
static const struct params *set_of(struct server *s, const struct params *told, const struct params *first, const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const char **values = mem_try((size_t)params_count(table) * sizeof(*values));
	const struct params *set = NULL;

	for (int i = 0; values && i < params_count(table); i++) {
		bool is_reported = s->session.reported & (uint64_t)1 << i;

		if (is_reported && (l->values[i] || !first))
			values[i] = params_get(told, i);
		else
			values[i] = l->values[i] ? l->values[i] : params_get(first ? first : s->pooled.startup, i);
	}
	if (values)
		set = params_of_values(table, values, l->others, l->count);
	mem_free(values);
	return set;
}

/* Stores the parameters of the session and of its client, which has its start-up values for parameters that it has RESET. These, together with the
   others that it has set, can be more than a set may have. */
static enum session_taking take_over(struct server *s, struct client *c, const struct learned *l)
{
	struct params_table *table = s->peer.world->params;
	const struct params *has = set_of(s, s->params, NULL, l);
	const struct params *set = has ? set_of(s, c->params, c->session->first, l) : NULL;
	const struct params *all = set ? params_overlay(table, c->session->first, set) : NULL;
	const struct params *wants = all ? params_with_others(table, set, all) : NULL;
	enum session_taking taking = !wants ? SESSION_NO_MEMORY : params_others(wants) > PARAMS_OTHERS_MOST ? SESSION_TOO_MUCH : SESSION_TAKEN;

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

enum session_taking session_learn(struct server *s, struct client *c)
{
	struct learned l = { NULL, NULL, 0 };
	enum session_taking taking = SESSION_TOO_MUCH;

	if (!s->session.answer->is_too_much)
		taking = read_answer(s, c, &l) ? take_over(s, c, &l) : SESSION_NO_MEMORY;
	learned_free(&l);
	return taking;
}
