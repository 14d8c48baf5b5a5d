/*
 * The step of a login, and which moves there are (tbl/login_step.tbl). It is apart from login.c, so that the room auth needs nothing else
 * of a login.
 */
#include "auth/login_state.h"

#include "auth/client_address.h"
#include "base/state.h"

#include <stddef.h>

/* client_names() relies on it */
_Static_assert(offsetof(struct login, names) == 0, "the names come first");

#define L(id) (1u << LOGIN_##id)
static const struct state_row steps[] = {
#define LOGIN_STEP(id, waits_for, moves) [LOGIN_##id] = { moves, NULL },
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};
#undef L
#define STEPS (sizeof(steps) / sizeof(steps[0]))

bool login_step_waits_for_client(enum login_step step)
{
	enum waits_for { CLIENT, OTHERS };
	static const enum waits_for waits[STEPS] = {
#define LOGIN_STEP(id, waits_for, moves) [LOGIN_##id] = waits_for,
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
	};

	ASSERT((unsigned)step < STEPS);
	return waits[step] == CLIENT;
}

void login_step_to(struct client *c, enum login_step step)
{
	c->login->step = (enum login_step)state_move(steps, STEPS, c->login->step, step);
	c->login->step_since = c->peer.world->now;
	client_address_login_stepped(c);
}
