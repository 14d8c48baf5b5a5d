/*
 * Clients that get a server before their welcome: for replication (replication.c), and in session mode with session_link =
 * login.
 *
 * The client is authenticated first. Then it waits in the queue of its pool as with a query, so all limits apply. When a server
 * is lent to it, different parameters are set there, and the welcome contains the parameters that this server has reported.
 * With session_link = login its BackendKeyData has the process id of the server, which serves no other client until this one
 * leaves; the secret of the key is pgweir's own.
 *
 * Invariant: a client with a server has a struct login only until its parameters are set.
 */
#include "login/login_link.h"

#include "backend/welcome.h"
#include "base/assert.h"

void login_link_queue(struct client *c)
{
	c->pooled.is_login = true;
	pool_client_become(c->peer.world->pools, &c->pooled, CLIENT_WAITING, c->peer.world->now);
}

void login_link_again(struct client *c)
{
	params_drop(c->peer.world->params, &c->params);
	login_link_queue(c);
}

bool login_link_begin(struct server *s, struct client *c)
{
	ASSERT(c->login && !c->params && c->pooled.dedicated == s->pooled.dedicated);
	/* the session of another client may have left parameters that differ from those at start-up */
	c->params = c->replication ? params_hold(s->params) : login_params(c, s->first_params);
	if (c->params)
		return true;
	client_end(c, REASON_NO_MEMORY, NULL);
	return false;
}

bool login_link_welcome(struct server *s, struct client *c)
{
	bool is_own = !c->replication && !c->shares_server;

	c->pooled.is_login = false;
	login_welcome(c, welcome_messages(s->welcome), is_own ? s->backend_pid : 0);
	return !peer_is_stopped(&c->peer);
}
