/*
 * The step of a login, and which moves there are (tbl/login_step.tbl). It is apart from login.c, so that the room auth needs nothing else
 * of a login.
 */
#include "auth/login_state.h"

#include "auth/client_address.h"
#include "base/assert.h"

#include <stddef.h>

/* client_names() relies on it */
_Static_assert(offsetof(struct login, names) == 0, "the names come first");

enum waits_for { CLIENT, OTHERS };

#define L(id) (1u << LOGIN_##id)
static const struct {
	enum waits_for waits_for;
	unsigned moves;
} rows[] = {
#define LOGIN_STEP(id, waits_for, moves) [LOGIN_##id] = { waits_for, moves },
#include "tbl/login_step.tbl"
#undef LOGIN_STEP
};
#undef L

bool login_step_may_follow(enum login_step from, enum login_step to)
{
	ASSERT((unsigned)from < sizeof(rows) / sizeof(rows[0]));
	return rows[from].moves & 1u << to;
}

bool login_step_waits_for_client(enum login_step step)
{
	ASSERT((unsigned)step < sizeof(rows) / sizeof(rows[0]));
	return rows[step].waits_for == CLIENT;
}

void login_step_to(struct client *c, enum login_step step)
{
	ASSERT(login_step_may_follow(c->login->step, step));
	c->login->step = step;
	c->login->step_since = c->peer.world->now;
	client_address_login_stepped(c);
}
