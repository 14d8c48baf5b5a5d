/*
 * The step of a login. It is apart from login.c, so that the room auth needs nothing else of a login.
 */
#include "auth/login_state.h"

#include "auth/client_address.h"

#include <stddef.h>

/* client_names() relies on it */
_Static_assert(offsetof(struct login, names) == 0, "the names come first");

void login_step_to(struct client *c, enum login_step step)
{
	c->login->step = step;
	c->login->step_since = c->peer.world->now;
	client_address_login_stepped(c);
}
