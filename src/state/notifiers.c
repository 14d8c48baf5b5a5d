/*
 * Servers whose clients have sent notifications: which process ID other clients see, and when the
 * server may be lent again.
 *
 * PostgreSQL names the server process that executed NOTIFY. A client knows another number: the
 * process ID of its BackendKeyData. A notification therefore gets the number of the client that the
 * server process works for, or has worked for last. A notification may arrive after the server is
 * assigned to its next client. A server whose client may have sent a notification
 * (server->notifies) therefore waits after the link (task_hear) until each listener has answered a
 * query of a later time (notify.c). At the client's own server, when it is pinned or in session
 * mode, a notification can still arrive later.
 *
 * Servers are found by process ID and address: two clusters may have processes with the same ID.
 */
#include "state/notifiers.h"

#include "base/hash.h"
#include "state/notify.h"
#include "state/server_session.h"

static bool is_same_cluster(const struct server *a, const struct server *b)
{
	return a->address && b->address && a->peer.remote.port == b->peer.remote.port &&
	       address_is_same_host(a->address, b->address);
}

/* Returns the server connection of process `pid` in the cluster of `beside`, or NULL. */
static const struct server *find_process(const struct server *beside, uint32_t pid)
{
	const struct server *s;

	if (pid == beside->backend_pid)
		return beside;
	HASH_FIND(by_backend_pid, beside->peer.world->peers.by_backend_pid, &pid, sizeof(pid), s);
	for (; s; s = HASH_NEXT_IN_BUCKET(by_backend_pid, s))
		if (s->backend_pid == pid && is_same_cluster(s, beside))
			return s;
	return NULL;
}

uint32_t notify_sender(const struct server *to, uint32_t pid)
{
	const struct server *from = find_process(to, pid);
	const struct client *c = from && from->pooled.link && !from->pooled.link->is_internal
					 ? client_of(from->pooled.link)
					 : NULL;

	/* a client in its login has executed nothing */
	if (c && c->cancel_key.is_valid)
		return c->cancel_key.pid;
	return from && from->last_client_pid != 0 ? from->last_client_pid : pid;
}

void notifiers_continue(struct world *w)
{
	w->notify.is_wait_due = w->notify.servers_wait = false;
	LIST_EACH_SAFE(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		bool is_waiting = false;

		if (s->task != &task_hear || s->pooled.link)
			continue;
		LIST_EACH_SAFE(of_world, &w->notify.listeners) {
			struct notify_server *l = LIST_OBJECT(of_world, struct notify_server,
							      of_world);

			/* the server waits no longer if the listener has received the
			   notifications, or has no clients left that want them */
			if (l->heard >= s->notified || list_is_empty(&l->clients) ||
			    !is_same_cluster(l->server, s))
				continue;
			is_waiting = true;
			l->is_to_answer = true;
			notify_server_work(l);
		}
		if (is_waiting) {
			w->notify.servers_wait = true;
			continue;
		}
		s->notifies = false;
		server_task_to(s, NULL);
		server_release(s);
	}
}
