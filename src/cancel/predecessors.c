/*
 * Predecessors: processes that were replaced and still serve the clients that could not be handed
 * over.
 *
 * A predecessor does not listen, and ends with its last client. Cancel requests for its clients
 * arrive at the listening process, which does not know their keys. That process keeps the handover
 * channel to each predecessor, and sends a request with an unknown key to all of them, together
 * with the canceller's connection. The predecessor that knows the key cancels, the others close
 * their copy of the connection, and the canceller sees the end of its connection when all
 * predecessors have closed it. When the listening process is replaced, it passes the channels on.
 *
 * A canceller's TLS connection cannot be passed on: it ends here, and the request is sent without
 * it.
 *
 * pgweir does not wait for a slow predecessor. If a request does not fit into the channel, it is
 * dropped, logged and counted. It is not sent later, because its client could execute another query
 * by then.
 */
#include "cancel/predecessors.h"

#include "base/bytes.h"
#include "base/log.h"
#include "cancel/cancel.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <unistd.h>

/* A process that this process has replaced. */
struct predecessor {
	struct list node;
	struct records *channel;
	struct event readable;
};

/* The process that has replaced this process. */
struct successor {
	struct world *world;
	struct records *channel;
	struct event readable;
};

/* ---- predecessors ---- */

static void predecessor_free(struct predecessor *e)
{
	list_remove(&e->node);
	event_del(&e->readable);
	records_free(&e->channel);
	mem_free(e);
}

/* A predecessor sends nothing: a readable channel means that it has ended. */
static void on_predecessor(evutil_socket_t fd, short what, void *arg)
{
	struct predecessor *e = arg;
	struct record r;

	(void)fd, (void)what;
	switch (records_next(e->channel, &r, 0)) {
	case RECORDS_AGAIN:
		return;
	case RECORDS_OK:
		if (r.fd >= 0)
			close(r.fd);
		return;
	case RECORDS_END:
	case RECORDS_BROKEN:
		break;
	}
	log_info("a process that was replaced has ended");
	predecessor_free(e);
}

bool predecessors_add(struct world *w, struct records **channel)
{
	struct predecessor *e = mem_try(sizeof(*e));

	if (!e) {
		records_free(channel);
		return false;
	}
	e->channel = *channel;
	*channel = NULL;
	list_init(&e->node);
	list_append(&w->cancels->predecessors, &e->node);
	event_assign(&e->readable, w->base, e->channel->fd, EV_READ | EV_PERSIST, on_predecessor,
		     e);
	if (event_add(&e->readable, NULL) == 0)
		return true;
	predecessor_free(e);
	return false;
}

bool predecessors_send(const struct cancels *all, struct records *to, uint8_t type, int patience)
{
	LIST_EACH(node, &all->predecessors)
		if (!records_send(to, type, NULL,
				  LIST_OBJECT(node, struct predecessor, node)->channel->fd,
				  patience))
			return false;
	return true;
}

bool predecessors_forward(struct client *canceller, const struct pg_startup *request)
{
	struct cancels *all = canceller->peer.world->cancels;
	int fd = canceller->peer.stream.ssl ? -1 : canceller->peer.stream.fd;
	struct bytes out = BYTES_EMPTY;
	bool reached_all = true;

	if (list_is_empty(&all->predecessors))
		return false;
	bytes_append_u32(&out, request->cancel_pid);
	pack_blob(&out, request->cancel_key, request->cancel_key_size);
	LIST_EACH_SAFE(node, &all->predecessors) {
		struct predecessor *e = LIST_OBJECT(node, struct predecessor, node);

		if (records_send(e->channel, PREDECESSOR_CANCEL, &out, fd, 0))
			continue;
		reached_all = false;
		log_warning("a cancel request does not reach a process that was replaced: %s",
			    e->channel->error);
		if (e->channel->is_cut)
			predecessor_free(e);
	}
	bytes_wipe(&out);
	if (reached_all)
		client_hand_over(canceller);
	else
		client_end(canceller, REASON_CANCEL_LOST, NULL);
	return true;
}

/* ---- the successor ---- */

void predecessors_free(struct world *w)
{
	struct successor *s = w->successor;

	while (w->cancels && !list_is_empty(&w->cancels->predecessors))
		predecessor_free(
			LIST_OBJECT(w->cancels->predecessors.next, struct predecessor, node));
	if (!s)
		return;
	w->successor = NULL;
	if (s->channel) {
		event_del(&s->readable);
		records_free(&s->channel);
	}
	mem_free(s);
}

static void take_request(struct world *w, const struct record *r)
{
	struct unpack in = unpack_of(r->body, r->size);
	struct pg_startup request = { .kind = STARTUP_CANCEL };
	struct client *canceller;
	int nobody[2];
	int fd = r->fd;

	request.cancel_pid = unpack_u32(&in);
	request.cancel_key = unpack_blob(&in, &request.cancel_key_size);
	/* the TLS connection of the canceller was not sent: a closed socket takes its place */
	if (fd < 0 &&
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, nobody) == 0) {
		fd = nobody[0];
		close(nobody[1]);
	}
	canceller = fd >= 0 ? client_adopt(w, fd) : NULL;
	if (!canceller)
		return;
	peer_number(&canceller->peer);
	client_login_begins(canceller, w->now);
	if (unpack_is_done(&in))
		cancel_request(canceller, &request);
	else
		client_end(canceller, REASON_CANCEL_UNKNOWN, NULL);
}

static void on_successor(evutil_socket_t fd, short what, void *arg)
{
	struct successor *s = arg;
	struct record r;

	(void)fd, (void)what;
	world_wake(s->world);
	for (;;) {
		switch (records_next(s->channel, &r, 0)) {
		case RECORDS_AGAIN:
			return;
		case RECORDS_OK:
			take_request(s->world, &r);
			continue;
		case RECORDS_END:
		case RECORDS_BROKEN:
			/* no more requests will arrive; the clients are served until they leave */
			event_del(&s->readable);
			records_free(&s->channel);
			return;
		}
	}
}

bool predecessors_follow(struct world *w, struct records **channel)
{
	struct successor *s = mem_must(sizeof(*s));

	w->successor = s;
	s->world = w;
	s->channel = *channel;
	*channel = NULL;
	event_assign(&s->readable, w->base, s->channel->fd, EV_READ | EV_PERSIST, on_successor, s);
	if (event_add(&s->readable, NULL) == 0)
		return true;
	records_free(&s->channel);
	return false;
}
