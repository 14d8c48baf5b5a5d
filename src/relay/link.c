/*
 * A link: a server is lent to a client, for a session, a transaction or a statement.
 *
 * In the order of time:
 *
 * 1. The scheduler has found a server for the client, and lend() (core/policy.c) calls
 *    link_begin(). The mode of the link is decided here and does not change in the link
 *    (shares_server), because a session that began as the client's own may have state that no
 *    other client may see.
 * 2. If server->params and client->params are the same set, and nothing of the session is stale,
 *    the client's messages are sent at once. Most links begin so, because most clients of an
 *    application have equal parameters.
 * 3. Otherwise the server executes a task of pgweir's own first (session_restore_begin()), and the
 *    messages wait in peer.held. Example: the client has set search_path; its next query would
 *    read another client's tables if it were sent before the SET. A client in its login gets its
 *    welcome after the task (link_welcome()).
 * 4. The answer to a task ends with ReadyForQuery, and link_task_over() continues as the task
 *    says (enum task_end): with another task, with the client's messages, or with the release.
 * 5. release.c ends the link.
 */
#include "relay/link.h"

#include "base/assert.h"
#include "base/inline.h"
#include "cancel/cancel.h"
#include "login/login.h"
#include "prepared/prepared.h"
#include "relay/release.h"
#include "relay/request.h"
#include "state/server_session.h"
#include "state/notify.h"
#include "state/session_functions.h"
#include "state/session_restore.h"
#include "state/session_state.h"

/* With session_state = full: the link begins, or continues without state of the client. */
static void begin_state(struct server *s, struct client *c)
{
	session_state_begin(s, c);
	if (c->link_facts.keeps_state &&
	    session_functions_are_due(c->pooled.pool, s->peer.world->now))
		session_set_stale(s, STALE_FUNCTIONS);
}

/* The login of the client is over. False: it has ended, or has no server: the pool mode has changed
   while it waited. */
static bool link_welcome(struct server *s, struct client *c)
{
	if (!login_link_welcome(s, c))
		return false;
	release_check(s);
	return c->pooled.link != NULL;
}

/* The server has the parameters of another client, or unknown ones. Returns what link_begin()
   returns. */
static bool bring_params(struct server *s, struct client *c)
{
	if (c->login && !login_link_begin(s, c))
		return false;
	/* the client has parameters now, and may have sent its first queries already */
	if (c->login && pool_keeps_state(c->pooled.pool))
		begin_state(s, c);
	return session_restore_begin(s, c, false) && (!c->login || link_welcome(s, c));
}

bool link_begin(struct server *s, struct client *c)
{
	c->link_facts.shares_server = c->link_facts.shares_names = link_will_share(c);
	c->link_facts.keeps_state = false;
	request_begin_link(c);
	server_note_client(s, c);
	if (pool_keeps_state(c->pooled.pool))
		begin_state(s, c);
	else
		server_values_to(s, VALUES_MIXED);
	/* prepared statements of the client are then not recorded */
	if (!c->link_facts.shares_names) {
		server_unnamed_to(s, 0);
		server_note_prepared(s, true, true);
	}
	server_work_begins(s, s->peer.world->now_wall);
	return (s->params == c->params && !s->session.stale) || bring_params(s, c);
}

/* ---- the pooler's own queries ---- */

/* The state of the client on this server is known: the link ends, or, if the client has sent a
   request meanwhile, continues. Then the server gets the client's parameters, which a RESET may
   have changed to its own. */
static void link_resume(struct server *s, struct client *c)
{
	release_check(s);
	/* the channels of the client are moving to the listener of the pool */
	if (c->pooled.link && s->task != NULL)
		return;
	if (c->pooled.link) {
		if (!c->pooled.pins)
			begin_state(s, c);
		if ((s->params != c->params ||
		     s->session.stale & (STALE_FUNCTIONS | STALE_CHANNELS)) &&
		    !session_restore_begin(s, c, false))
			return;
	}
	client_resume(c);
}

void link_task_over(struct server *s)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;
	enum task_end end = server_task_end(s);

	if (end == TASK_END_RESTORE)
		end = session_restore_begin(s, c, false) ? session_restored(s, false)
							 : TASK_END_NOTHING;
	switch (end) {
	case TASK_END_NOTHING:
	case TASK_END_RESTORE:
		return;
	case TASK_END_RELEASE:
		server_release(s);
		return;
	case TASK_END_LINK:
		link_resume(s, c);
		return;
	case TASK_END_RESTORED:
		if (c->login && !link_welcome(s, c))
			return;
		client_resume(c);
		cancel_release_waiting(c);
		return;
	case TASK_END_PARTED:
		if (c->login) {
			login_link_again(c);
			return;
		}
		break;
	case TASK_END_RESUME:
		break;
	}
	client_resume(c);
}

/* POST_READY: sends the notifications and the ReadyForQuery. */
static void send_ready(struct server *s, struct client *c)
{
	static const uint8_t ready[] = { PGS_READY, 0, 0, 0, 5, 'I' };

	ASSERT(s->task == &task_hear);
	server_task_to(s, NULL);
	bytes_append(&c->session->notify_client->pending, ready, sizeof(ready));
	notify_client_flush(c);
	if (stream_unsent(&c->peer.stream) > 0)
		flow_block(&s->peer, FLOW_ROOM);
	if (s->peer.blocked & FLOW_READY) {
		peer_hold_first(&s->peer);
		flow_unblock(&s->peer, FLOW_READY);
		if (!(s->peer.blocked & FLOW_ROOM))
			peer_come_again(&s->peer);
	}
}

void link_posted(struct client *c, unsigned posted)
{
	struct server *s = c->pooled.link ? server_of(c->pooled.link) : NULL;

	if (posted & POST_READY && s) {
		send_ready(s, c);
		release_if_over(s);
		peer_hold_first(&c->peer);
		flow_unblock(&c->peer, FLOW_ROOM | FLOW_ANSWERS | FLOW_HELD);
	} else if (posted & POST_LINK && s && c->pooled.listens && server_is_clean(s)) {
		release_if_over(s);
	}
}
