/*
 * The listener of a pool, and the clients that LISTEN, in a handover (state/notify_server.h).
 *
 * Both are handed over together or not at all, because notifications for the listener must reach its clients. They stay if one
 * of them cannot be handed over, while channels move between connections, and while a client waits for the listener.
 */
#include "handover/handover_parts.h"

#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/session_state.h"

#include <string.h>

static bool is_busy(const struct notify_server *l)
{
	return l->server && (l->server->task != NULL || !list_is_empty(&l->movers) || !list_is_empty(&l->barriers));
}

bool listener_is_calm(const struct pool *pool)
{
	const struct notify_server *l = notify_server_of(pool);

	return !l || !is_busy(l);
}

static bool may_go(const struct notify_server *l)
{
	if (is_busy(l) || !server_itself_may_be_given(l->server))
		return false;
	LIST_EACH(node, &l->clients)
		if (!client_itself_may_be_given(LIST_OBJECT(node, struct notify_client, node)->client))
			return false;
	return true;
}

void listeners_decide(const struct world *w)
{
	LIST_EACH(node, &w->pools->all) {
		struct notify_server *l = notify_server_of(LIST_OBJECT(node, struct pool, node));

		if (l)
			l->stays = l->server && !may_go(l);
	}
}

bool listener_stays(const struct pool *pool)
{
	const struct notify_server *l = notify_server_of(pool);

	return l && l->stays;
}

/* ---- the listener's server ---- */

void listener_pack(struct bytes *out, const struct server *s)
{
	const struct notify_server *l = s->pooled.state == SERVER_LISTENING ? notify_server_of(s->pooled.pool) : NULL;

	pack_text(out, l ? l->marker : NULL);
}

void listener_unpack_server(struct unpack *in, struct server *s)
{
	const char *marker = unpack_text(in);
	bool listens = s->pooled.state == SERVER_LISTENING;

	in->bad = in->bad || listens != (marker != NULL) || (listens && !notify_server_restore_server(s, marker));
}

/* ---- clients ---- */

static void subscriptions_pack(struct bytes *out, const struct notify_client *h)
{
	LIST_EACH(node, &h->subscriptions) {
		const struct subscription *s = LIST_OBJECT(node, struct subscription, of_client);

		pack_text(out, s->channel->name);
		pack_bool(out, s->from_server);
		pack_bool(out, s->from_listener);
	}
	pack_text(out, NULL);
}

void notify_client_pack(struct bytes *out, const struct client *c)
{
	const struct notify_client *h = c->hears ? c->session->notify_client : NULL;

	pack_bool(out, h != NULL);
	if (!h)
		return;
	subscriptions_pack(out, h);
	bytes_append_u8(out, h->step);
	pack_blob(out, h->pending.data ? bytes_front(&h->pending) : NULL, bytes_size(&h->pending));
}

void notify_client_unpack(struct unpack *in, struct client *c)
{
	const uint8_t *pending;
	const char *name;
	size_t size;
	struct notify_client *h;
	uint8_t step;

	if (!unpack_bool(in) || in->bad)
		return;
	in->bad |= !c->session;
	while (!in->bad && (name = unpack_text(in)) != NULL) {
		bool from_server = unpack_bool(in), from_listener = unpack_bool(in);

		in->bad = in->bad || !*name || !notify_client_restore(c, name, from_server, from_listener);
	}
	step = unpack_u8(in);
	h = in->bad ? NULL : c->session->notify_client;
	in->bad |= !h || step > NOTIFY_LEAVES;
	if (in->bad)
		return;
	h->step = step;
	pending = unpack_blob(in, &size);
	if (in->bad)
		return;
	bytes_append(&h->pending, pending, size);
	in->bad |= h->pending.failed;
}
