/*
 * Process ids in notifications ("NotificationResponse" in the documentation of the protocol).
 *
 * PostgreSQL names the server process that has run NOTIFY. A client knows another number: the one in its BackendKeyData. So that it
 * can tell its own notifications from others, the number in a notification is that of the client which the server process works for, or has
 * worked for last. The notification may take longer than the server needs to go to the next client. So a server whose client may have sent one
 * (server->notifies) waits, behind its transaction and before it is lent to another client, until each listener has answered a query that was sent
 * after that transaction. A notification that comes to the server of a client itself, which is pinned or in session mode, can still come later.
 *
 * The number in BackendKeyData is half of a client's cancel key. So only the client itself is told that number; the others are told another one in
 * its place, which is the same for all of them until an online restart, and from which the first cannot be found. Numbers of server processes
 * are no secret (pg_stat_activity), and with session_link = login a client has one of these.
 *
 * Servers are found by process id, and told apart by their address: two clusters may have processes of one number.
 */
#include "state/notifier.h"

#include "base/hash.h"
#include "state/notify_client.h"
#include "state/notify_server.h"
#include "state/task.h"

bool notifier_is_same_place(const struct server *a, const struct server *b)
{
	return a->address && b->address && a->peer.remote.port == b->peer.remote.port && address_is_same_host(a->address, b->address);
}

/* The server of that process in the cluster that `beside` leads to; NULL: none. */
static const struct server *find(const struct server *beside, uint32_t pid)
{
	const struct server *s;

	if (pid == beside->backend_pid)
		return beside;
	HASH_FIND(by_backend_pid, beside->peer.world->by_backend_pid, &pid, sizeof(pid), s);
	for (; s; s = HASH_NEXT_IN_BUCKET(by_backend_pid, s))
		if (s->backend_pid == pid && notifier_is_same_place(s, beside))
			return s;
	return NULL;
}

uint32_t notifier_told(const struct server *to, uint32_t pid)
{
	const struct server *from = find(to, pid);
	const struct client *c = from && from->pooled.link && !from->pooled.link->is_internal ? client_of(from->pooled.link) : NULL;

	/* a client in its login has executed nothing */
	if (c && c->has_cancel_key)
		return c->cancel_pid;
	return from && from->told_pid != 0 ? from->told_pid : pid;
}

void notifier_leaves(struct server *s)
{
	s->notified = ++s->peer.world->notified;
}

/* Asks the listeners that have not received all notifications of the server's clients yet. */
static bool ask_listeners(const struct server *s)
{
	bool have_heard = true;

	LIST_EACH_SAFE(node, &s->peer.world->listeners) {
		struct notify_server *l = LIST_OBJECT(node, struct notify_server, of_world);

		if (notify_server_has_heard(l, s))
			continue;
		have_heard = false;
		l->is_to_answer = true;
		notify_server_work(l);
	}
	return have_heard;
}

void notifier_wait(struct server *s)
{
	s->peer.world->notifiers_due = true;
	server_task_to(s, &task_hear);
}

void notifier_go_on(struct world *w)
{
	w->notifiers_due = w->notifiers_wait = false;
	LIST_EACH_SAFE(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (s->task != &task_hear || s->pooled.link)
			continue;
		if (!ask_listeners(s)) {
			w->notifiers_wait = true;
			continue;
		}
		s->notifies = false;
		server_task_to(s, NULL);
		server_release(s);
	}
}

uint32_t notifier_public(uint32_t told)
{
	const uint32_t text[] = { 0x6e746679, told };

	return told <= SERVER_PID_MOST ? told : (hash_of(text, sizeof(text)) & INT32_MAX) | (SERVER_PID_MOST + 1);
}

uint32_t notifier_for(const struct client *c, uint32_t told, uint32_t public)
{
	if (told == c->cancel_pid)
		return told;
	return public == c->cancel_pid ? public ^ 1 : public;
}
