/*
 * Steps of clients that LISTEN: from the server that they have to the listener of the pool, and the way of notifications before a
 * ReadyForQuery (state/notify_server.c has the picture).
 *
 * Each step is a task of a server. A step of a client's server begins when the server has nothing else to do; the client's next request waits
 * for it. Where a step fails, the client keeps its server (PIN_LISTENING), and hears notifications there.
 */
#include "relay/fan_out.h"

#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/session_state.h"
#include "backend/task.h"
#include "base/assert.h"
#include "pg/message.h"
#include "relay/link.h"

#include <string.h>

static struct notify_client *notify_client_of(const struct client *c) { return c->session->notify_client; }

/* ---- to the listener ---- */

/* All that the client has there is its channels. */
static bool may_become_listener(const struct server *s, const struct client *c)
{
	return notify_server_may_begin(c->pooled.pool) && s->pooled.cancels == 0 && !s->unknown && !c->peer.world->pools->paused &&
	       pool_server_is_spent(&s->pooled, s->peer.world->now) == REASON_NONE;
}

static void become_listener(struct server *s, struct client *c)
{
	struct notify_client *h = notify_client_of(c);

	link_leave_to_listener(s);
	notify_server_begin(h->notify_server, s, h);
}

/* What the listener hears is in the encoding of its server. */
static bool is_same_encoding(const struct server *s, const struct client *c)
{
	const char *a = params_get(s->params, PARAM_CLIENT_ENCODING), *b = params_get(c->params, PARAM_CLIENT_ENCODING);

	return a && b && strcmp(a, b) == 0;
}

static bool begin_marking(struct server *s, struct notify_client *h)
{
	struct bytes sql = BYTES_EMPTY;
	bool sent;

	bytes_append_format(&sql, "LISTEN \"%s\";NOTIFY \"%s\",'%u'", h->notify_server->marker, h->notify_server->marker, notify_client_move(h));
	bytes_append_u8(&sql, 0);
	if (sql.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	sent = !sql.failed && server_run(s, TASK_MARK, (const char *)bytes_front(&sql));
	bytes_free(&sql);
	return sent;
}

bool fan_out_moves(struct server *s, struct client *c)
{
	struct notify_client *h = notify_client_of(c);
	struct notify_server *l = h->notify_server;

	if (!(c->pooled.pins & PIN_LISTENING) || ledger_is_in_doubt(&s->ledger))
		return false;
	if (h->step == NOTIFY_LEAVES) {
		server_run(s, TASK_UNLISTEN, "UNLISTEN *");
		return true;
	}
	if (c->pooled.pins != PIN_LISTENING || h->step == NOTIFY_RESTS)
		return false;
	if (!l->server) {
		if (!may_become_listener(s, c))
			return false;
		become_listener(s, c);
		return true;
	}
	if (s->pooled.close_reason != REASON_NONE || peer_is_stopped(&l->server->peer) || !is_same_encoding(l->server, c))
		return false;
	notify_server_work(l);
	if (!notify_client_is_ready(h))
		return true;
	h->step = NOTIFY_MARKS;
	begin_marking(s, h);
	return true;
}

/* Its server has said all that came before the marker. */
static void marked(struct server *s, struct client *c)
{
	struct notify_client *h = notify_client_of(c);

	if (s->task_failed || s->status != 'I') {
		list_remove(&h->moving);
		h->step = NOTIFY_RESTS;
		client_resume(c);
		return;
	}
	h->step = NOTIFY_LEAVES;
	if (!list_is_empty(&h->moving))
		notify_client_expects_marker(h);
	server_run(s, TASK_UNLISTEN, "UNLISTEN *");
}

static void has_left(struct server *s, struct client *c)
{
	if (s->task_failed || s->status != 'I') {
		server_end(s, REASON_STATE_STAYS, NULL);
		return;
	}
	s->channels_restored = false;
	if (c->session->notify_client) {
		notify_client_of(c)->step = NOTIFY_RESTS;
		notify_client_flush(c);
	}
	pool_client_pin(&c->pooled, c->pooled.pins & ~(unsigned)PIN_LISTENING);
	link_resume(s, c);
}

/* ---- before a ReadyForQuery ---- */

bool fan_out_holds_ready(struct server *s, struct client *c)
{
	struct notify_client *h = notify_client_of(c);

	if (s->status != 'I')
		return false;
	if (s->task != TASK_NONE || !notify_client_barrier(h)) {
		notify_client_flush(c);
		return false;
	}
	server_task_to(s, TASK_HEAR);
	/* answers to what the client has sent together with it come after */
	if (!ledger_is_empty(&s->ledger)) {
		flow_block(&s->peer, FLOW_READY);
		list_remove(&s->peer.again);
	}
	return true;
}

static void go_ready(struct notify_client *h)
{
	static const uint8_t ready[] = { PGS_READY, 0, 0, 0, 5, 'I' };
	struct client *c = h->client;
	struct server *s;

	list_remove(&h->waiting);
	if (peer_is_stopped(&c->peer) || !c->pooled.link)
		return;
	s = server_of(c->pooled.link);
	ASSERT(s->task == TASK_HEAR);
	server_task_to(s, TASK_NONE);
	bytes_append(&h->pending, ready, sizeof(ready));
	notify_client_flush(c);
	if (stream_unsent(&c->peer.stream) > 0)
		flow_block(&s->peer, FLOW_ROOM);
	if (s->peer.blocked & FLOW_READY) {
		s->peer.held_first = bytes_size(&s->peer.held) > 0;
		flow_unblock(&s->peer, FLOW_READY);
		if (!(s->peer.blocked & FLOW_ROOM))
			peer_come_again(&s->peer);
	}
	link_end_if_over(s);
	client_resume(c);
}

/* ---- the listener ---- */

/* Its channels are heard: the marker is sent, now, or at the end of what the client is at. */
static void go_on_moving(struct notify_server *l)
{
	LIST_EACH_SAFE(node, &l->clients) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, node);
		struct server *s = h->client->pooled.link ? server_of(h->client->pooled.link) : NULL;

		if (h->step == NOTIFY_WAITS && s && server_is_clean(s))
			link_end_if_over(s);
	}
}

static void answered(struct server *s)
{
	struct notify_server *l = notify_server_of(s->pooled.pool);
	bool has_more_channels;

	ASSERT(l && l->server == s);
	if (s->task_failed || s->status != 'I') {
		server_end(s, REASON_TEST_FAILED, NULL);
		return;
	}
	has_more_channels = notify_server_answered(l);
	LIST_EACH_SAFE(node, &l->barriers) {
		struct notify_client *h = LIST_OBJECT(node, struct notify_client, waiting);

		if (h->barrier <= l->answered)
			go_ready(h);
	}
	if (has_more_channels)
		go_on_moving(l);
	notify_server_work(l);
}

/* ---- UNLISTEN ---- */

void fan_out_relisten(struct server *s, struct client *c)
{
	struct bytes sql = BYTES_EMPTY;

	notify_client_sql(notify_client_of(c), &sql);
	bytes_append_u8(&sql, 0);
	if (sql.failed)
		server_end(s, REASON_NO_MEMORY, NULL);
	else
		server_run(s, TASK_RELISTEN, (const char *)bytes_front(&sql));
	bytes_free(&sql);
}

static void listens_again(struct server *s, struct client *c)
{
	if (s->task_failed || s->status != 'I') {
		server_end(s, REASON_STATE_UNKNOWN, NULL);
		return;
	}
	session_state_note_channels(s, c);
	client_resume(c);
}

void fan_out_task_over(struct server *s, enum server_task task)
{
	struct client *c = s->pooled.link ? client_of(s->pooled.link) : NULL;

	if (s->said_fatal) {
		server_end(s, REASON_SERVER_CRASHED, NULL);
		return;
	}
	switch (task) {
	case TASK_LISTEN:
		answered(s);
		return;
	case TASK_MARK:
		marked(s, c);
		return;
	case TASK_UNLISTEN:
		has_left(s, c);
		return;
	default:
		ASSERT(task == TASK_RELISTEN);
		listens_again(s, c);
	}
}
