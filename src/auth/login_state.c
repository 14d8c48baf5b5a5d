/*
 * The steps of a client's login (tbl/login_step.tbl): the only writer of login->step.
 *
 * A step says which side must act next. While that is the client, it is silent, and its login may
 * end to make room for others (client_address.c); the time of each step is added to its part of the
 * login, for EXPLAIN CLIENT.
 */
#include "auth/auth_inside.h"

#include "auth/login_state.h"
#include "base/state.h"

#include <stddef.h>

/* client_names() relies on it */
_Static_assert(offsetof(struct login, names) == 0, "the names come first");

#define L(id) (1u << LOGIN_##id)
static const struct state_row login_steps[] = {
#define LOGIN_STEP(id, waits_for, part, moves) [LOGIN_##id] = { moves, NULL },
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};
#undef L
#define STEPS (sizeof(login_steps) / sizeof(login_steps[0]))

static const enum { CLIENT, OTHERS } waits_for[STEPS] = {
#define LOGIN_STEP(id, waits_for, part, moves) [LOGIN_##id] = waits_for,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};

bool login_waits_for_client(const struct login *l)
{
	return waits_for[l->step] == CLIENT;
}

void login_step_to(struct client *c, enum login_step step)
{
	struct login *l = c->login;

	login_step_took(c);
	l->step = (enum login_step)state_move(login_steps, STEPS, l->step, step);
	l->step_since = c->peer.world->now;
	client_address_step(c);
}
