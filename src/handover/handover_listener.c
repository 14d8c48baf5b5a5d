/*
 * The listener of a pool, and the clients that LISTEN, in a handover (backend/listener.h).
 *
 * Both are handed over together or not at all, because notifications for the listener must reach its clients. They stay if one
 * of them cannot be handed over, while channels move between connections, and while a client waits for the listener.
 */
#include "handover/handover_parts.h"

#include "backend/hearing.h"
#include "backend/listener.h"
#include "backend/session_state.h"

#include <string.h>

static bool is_busy(const struct listener *l)
{
	return l->server && (l->server->task != TASK_NONE || !list_is_empty(&l->movers) || !list_is_empty(&l->barriers));
}

bool listener_is_calm(const struct pool *pool)
{
	const struct listener *l = listener_of(pool);

	return !l || !is_busy(l);
}

static bool may_go(const struct listener *l)
{
	if (is_busy(l) || !server_itself_may_be_given(l->server))
		return false;
	LIST_EACH(node, &l->hearings)
		if (!client_itself_may_be_given(LIST_OBJECT(node, struct hearing, node)->client))
			return false;
	return true;
}

void listeners_decide(const struct world *w)
{
	LIST_EACH(node, &w->pools->all) {
		struct listener *l = listener_of(LIST_OBJECT(node, struct pool, node));

		if (l)
			l->stays = l->server && !may_go(l);
	}
}

bool listener_stays(const struct pool *pool)
{
	const struct listener *l = listener_of(pool);

	return l && l->stays;
}

/* ---- the listener's server ---- */

void listener_pack(struct bytes *out, const struct server *s)
{
	const struct listener *l = s->policy.state == SERVER_LISTENING ? listener_of(s->policy.pool) : NULL;

	pack_text(out, l ? l->marker : NULL);
}

void listener_unpack_server(struct unpack *in, struct server *s)
{
	const char *marker = unpack_text(in);
	bool listens = s->policy.state == SERVER_LISTENING;

	in->bad = in->bad || listens != (marker != NULL) || (listens && !listener_restore_server(s, marker));
}

/* ---- clients ---- */

static void subscriptions_pack(struct bytes *out, const struct hearing *h)
{
	LIST_EACH(node, &h->subscriptions) {
		const struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		pack_text(out, s->channel->name);
		pack_bool(out, s->from_server);
		pack_bool(out, s->from_listener);
	}
	pack_text(out, NULL);
}

void hearing_pack(struct bytes *out, const struct client *c)
{
	const struct hearing *h = c->hears ? c->session->hearing : NULL;

	pack_bool(out, h != NULL);
	if (!h)
		return;
	subscriptions_pack(out, h);
	bytes_append_u8(out, h->step);
	pack_blob(out, h->pending.data ? bytes_front(&h->pending) : NULL, bytes_size(&h->pending));
}

void hearing_unpack(struct unpack *in, struct client *c)
{
	const uint8_t *pending;
	const char *name;
	size_t size;
	struct hearing *h;
	uint8_t step;

	if (!unpack_bool(in) || in->bad)
		return;
	in->bad |= !c->session;
	while (!in->bad && (name = unpack_text(in)) != NULL) {
		bool from_server = unpack_bool(in), from_listener = unpack_bool(in);

		in->bad = in->bad || !*name || !hearing_restore(c, name, from_server, from_listener);
	}
	step = unpack_u8(in);
	h = in->bad ? NULL : c->session->hearing;
	in->bad |= !h || step > HEARING_LEAVES;
	if (in->bad)
		return;
	h->step = step;
	pending = unpack_blob(in, &size);
	if (in->bad)
		return;
	bytes_append(&h->pending, pending, size);
	in->bad |= h->pending.failed;
}
