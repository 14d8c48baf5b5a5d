/*
 * The one place that sets the step of a login. It is apart from login.c, so that who needs it needs nothing else of a login.
 */
#include "session/login.h"

#include "session/origin.h"

void login_step_to(struct client *c, enum login_step step)
{
	c->login->step = step;
	c->login->step_since = c->peer.world->now;
	origin_login_stepped(c);
}
