/*
 * The steps by which the channels of a client move from its own server to the listener of its pool
 * (notify.c). The client keeps its server meanwhile (PIN_LISTENING). If the listener has a server:
 *
 *	the listener		LISTEN "a"				(step WAITS)
 *	the client's server	LISTEN marker; NOTIFY marker, '7'	(step MARKS)
 *	the client's server	UNLISTEN *				(step LEAVES)
 *
 * All servers receive notifications in the order of commits ("NOTIFY" in the documentation of
 * PostgreSQL). The client therefore receives the notifications before the marker from its own
 * server and the notifications after the marker from the listener: none is lost or comes twice.
 *
 * Invariant: a client in step MARKS is in the listener's `movers` until the listener has the
 * marker.
 */
#include "state/notify.h"

#include "state/session_state.h"
#include "state/task.h"

#include <string.h>

static struct subscription *subscription_of_step(struct list *node)
{
	return LIST_OBJECT(node, struct subscription, of_client);
}

enum notify_move notify_client_move(struct server *s, struct client *c)
{
	struct notify_client *h = c->session->notify_client;
	struct notify_server *l = h->notify_server;
	const char *encoding, *wanted = params_get(c->params, PARAM_CLIENT_ENCODING);
	bool is_heard = l->marker_is_heard;
	struct bytes sql = BYTES_EMPTY;

	if (!(c->pooled.pins & PIN_LISTENING) || ledger_is_in_doubt(&s->ledger))
		return NOTIFY_MOVE_NONE;
	if (h->step == NOTIFY_LEAVES) {
		server_run(s, &task_unlisten, "UNLISTEN *");
		return NOTIFY_MOVE_CHANNELS;
	}
	if (c->pooled.pins != PIN_LISTENING || h->step == NOTIFY_RESTS)
		return NOTIFY_MOVE_NONE;
	if (!l->server) {
		/* the session must have no other state of the client than its channels */
		if (notify_server_has_room(c->pooled.pool, 1) && s->pooled.cancels == 0 &&
		    !s->session.stale && !c->peer.world->pools->paused &&
		    pool_server_is_spent(&s->pooled, s->peer.world->now) == REASON_NONE)
			return NOTIFY_MOVE_SERVER;
		return NOTIFY_MOVE_NONE;
	}
	/* the listener receives notifications in the encoding of its own session */
	encoding = params_get(l->server->params, PARAM_CLIENT_ENCODING);
	if (s->pooled.close_reason != REASON_NONE || l->server->pooled.state != SERVER_LISTENING ||
	    !encoding || !wanted || strcmp(encoding, wanted) != 0)
		return NOTIFY_MOVE_NONE;
	notify_server_work(l);
	LIST_EACH(node, &h->subscriptions)
		is_heard &= subscription_of_step(node)->channel->state == CHANNEL_HEARD;
	if (!is_heard)
		return NOTIFY_MOVE_CHANNELS;
	/* the listener has LISTENed to all channels of the client: a marker with a new number
	   follows the last notification of this server */
	if (++l->moves == 0)
		l->moves = 1;
	h->move = l->moves;
	h->heard_by = 0;
	LIST_EACH(node, &h->subscriptions)
		if (subscription_of_step(node)->from_server)
			subscription_of_step(node)->move = h->move;
	list_remove(&h->moving);
	list_append(&l->movers, &h->moving);
	h->step = NOTIFY_MARKS;
	bytes_append_format(&sql, "LISTEN \"%s\";NOTIFY \"%s\",'%u'", l->marker, l->marker,
			    h->move);
	server_run_and_free(s, &task_mark, &sql);
	return NOTIFY_MOVE_CHANNELS;
}

/* The server has sent all notifications before the marker. */
static enum task_end mark_done(struct server *s, bool failed)
{
	struct notify_client *h;

	if (!s->pooled.link)
		return TASK_END_RELEASE;
	h = client_of(s->pooled.link)->session->notify_client;
	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return TASK_END_NOTHING;
	}
	if (failed) {
		list_remove(&h->moving);
		h->step = NOTIFY_RESTS;
		return TASK_END_RESUME;
	}
	h->step = NOTIFY_LEAVES;
	/* the listener has received the marker with its next answer */
	if (!list_is_empty(&h->moving)) {
		h->heard_by = h->notify_server->sent + 1;
		h->notify_server->is_to_answer = true;
		notify_server_work(h->notify_server);
	}
	server_run(s, &task_unlisten, "UNLISTEN *");
	return TASK_END_NOTHING;
}

static enum task_end unlisten_done(struct server *s, bool failed)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (failed || (c && s->said_fatal)) {
		server_end(s,
			   !c		   ? REASON_RESET_FAILED
			   : s->said_fatal ? REASON_SERVER_CRASHED
					   : REASON_STATE_STAYS,
			   NULL);
		return TASK_END_NOTHING;
	}
	if (!c)
		return TASK_END_RELEASE;
	s->session.channels_restored = false;
	if (c->session->notify_client) {
		c->session->notify_client->step = NOTIFY_RESTS;
		notify_client_flush(c);
	}
	pool_client_pin(&c->pooled, c->pooled.pins & ~(unsigned)PIN_LISTENING);
	return TASK_END_LINK;
}

/* The channels of the client move to the listener. */
const struct server_task task_mark = {
	.name = "listen",
	.description = "LISTEN and NOTIFY of a marker",
	.states = TASK_IN(ACTIVE),
	.on_done = mark_done,
};

/* The channels of the client have moved, or the server was the listener and has no clients. */
const struct server_task task_unlisten = {
	.name = "listen",
	.description = "UNLISTEN",
	.states = TASK_IN(ACTIVE) | TASK_IN(TESTED),
	.on_done = unlisten_done,
};
