/*
 * Clients that have a server before they are welcomed: of replication (replication.c), and in session mode with session_link = login.
 *
 * Such a client is authenticated first. Then it waits in the queue of its pool as with a query, so all limits hold for it. When a server is lent
 * to it, its parameters are set there if they are others, and its welcome is what this very server has reported. By session_link its
 * BackendKeyData names the server's own process, which works for no other client until this one leaves. The secret of the key is
 * pgweir's own, as of any client.
 *
 * Invariant: a client with a server has a login only until its parameters are set there.
 */
#include "login/login_link.h"

#include "backend/welcome.h"
#include "base/assert.h"

void login_link_queue(struct client *c)
{
	c->policy.is_login = true;
	pool_client_become(c->peer.world->pools, &c->policy, CLIENT_WAITING, c->peer.world->now);
}

void login_link_again(struct client *c)
{
	params_drop(c->peer.world->params, &c->params);
	login_link_queue(c);
}

bool login_link_begin(struct server *s, struct client *c)
{
	ASSERT(c->login && !c->params && c->policy.dedicated == s->policy.dedicated);
	/* the session of another client may have left others in force than it began with */
	c->params = c->replication ? params_hold(s->params) : login_params(c, s->first_params);
	if (c->params)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

bool login_link_welcome(struct server *s, struct client *c)
{
	bool is_own = !c->replication && !c->shares_server;

	c->policy.is_login = false;
	login_welcome(c, welcome_messages(s->welcome), is_own ? s->backend_pid : 0);
	return !peer_is_stopped(&c->peer);
}
