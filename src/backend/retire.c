/*
 * Obsolete server connections: a new connection would use other TLS settings, or another address of
 * the host name.
 *
 * No client loses its server. A server in use is marked and closes when it is released; an idle
 * server closes at once. A server in its login uses the earlier settings or addresses. After a
 * change of settings it closes at once, because it might send a password with the old settings.
 * After a change of addresses it is only marked, and dial_tick() closes it if the login takes
 * longer than one second: if each answer of the name server is different, each dial would end all
 * other dials. A pool without open logins looks up no names, so the names of connected servers are
 * watched.
 */
#include "backend/retire.h"

#include "backend/server_login.h"
#include "base/log.h"

#include <string.h>

static bool is_unused(const struct server *s, bool opening_too)
{
	return s->pooled.state == SERVER_IDLE || s->pooled.state == SERVER_USED ||
	       (opening_too && s->pooled.state == SERVER_LOGIN);
}

/* Closes the idle obsolete servers; with `opening_too` also the obsolete servers that are being
   opened. */
static void retire_unused(struct world *w, bool opening_too)
{
	LIST_EACH_SAFE(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (s->pooled.close_reason == REASON_OBSOLETE && is_unused(s, opening_too))
			server_end(s, REASON_OBSOLETE, NULL);
	}
}

void retire_servers(struct world *w, bool over_tcp, bool over_unix)
{
	LIST_EACH(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (!s->pooled.is_cancel &&
		    (s->peer.remote.family == AF_UNIX ? over_unix : over_tcp))
			pool_server_close_later(&s->pooled, REASON_OBSOLETE);
	}
	retire_unused(w, true);
}

static bool is_on_host_of(const struct conf_database *one, const struct conf_database *other)
{
	return strcmp(one->port, other->port) == 0 &&
	       (one->host == other->host ||
		(one->host && other->host && strcmp(one->host, other->host) == 0));
}

/* The defaults of sessions have changed: marks the servers of all hosts. */
static void retire_due(struct world *w)
{
	if (!w->retire.sessions_changed ||
	    (w->retire.sessions_retired != 0 && w->now - w->retire.sessions_retired < RETIRE_PAUSE))
		return;
	w->retire.sessions_changed = false;
	w->retire.sessions_retired = w->now;
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		int count = 0;

		if (!d->sessions_changed)
			continue;
		d->sessions_changed = false;
		LIST_EACH(node, &w->peers.servers) {
			struct server *s = LIST_OBJECT(node, struct server, peer.node);

			if (s->pooled.is_cancel || s->pooled.close_reason != REASON_NONE ||
			    !is_on_host_of(s->pooled.pool->database->conf, d->conf))
				continue;
			pool_server_close_later(&s->pooled, REASON_OBSOLETE);
			count++;
		}
		log_info("ALTER ROLE or ALTER DATABASE: %d server connections are obsolete", count);
		retire_unused(w, false);
	}
}

void retire_sessions(struct server *s)
{
	struct world *w = s->peer.world;
	struct database *d = s->pooled.pool->database;

	d->sessions_changed = true;
	w->retire.sessions_changed = true;
	retire_due(w);
}

void retire_database(struct server *from, const uint8_t *text, size_t size)
{
	struct world *w = from->peer.world;
	char name[SQL_NAME_SIZE];

	if (!statement_sql_ends_database(text, size, name))
		return;
	LIST_EACH_SAFE(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const struct database *d = s->pooled.pool->database;

		if (s == from || s->pooled.is_cancel ||
		    !is_on_host_of(d->conf, from->pooled.pool->database->conf) ||
		    strcmp(d->conf->dbname ? d->conf->dbname : d->name, name) != 0)
			continue;
		if (s->pooled.close_reason == REASON_NONE)
			pool_server_close_later(&s->pooled, REASON_OBSOLETE);
		if (is_unused(s, true))
			server_end(s, REASON_OBSOLETE, NULL);
	}
}

/* Whether a look-up of its name may find another address for the server. Not for Unix sockets, and
   not for cancel requests, which have the address of their target. */
static bool may_have_moved(const struct server *s)
{
	return !s->pooled.is_cancel && s->peer.remote.family != AF_UNIX;
}

void retire_moved(void *context, const char *name, const struct dns_answer *now)
{
	struct world *w = context;
	int count = 0;

	world_wake(w);
	LIST_EACH(node, &w->peers.servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const char *dialled = s->dial ? s->dial->host : s->host;
		bool is_among = false;

		/* while a dial waits for this answer, it still has the address of the previous host
		   of its list */
		if (!may_have_moved(s) || s->peer.remote.family == 0 || !dialled ||
		    strcmp(dialled, name) != 0 || (s->dial && s->dial->step == DIAL_NAME))
			continue;
		for (int i = 0; !is_among && i < now->count; i++)
			is_among = address_is_same_host(s->address, &now->addresses[i]);
		if (is_among)
			continue;
		pool_server_close_later(&s->pooled, REASON_OBSOLETE);
		count++;
	}
	if (count == 0)
		return;
	log_info("DNS: addresses of \"%s\" have changed, %d server connections are obsolete", name,
		 count);
	retire_unused(w, false);
}

void retire_tick(struct world *w)
{
	const char *last = "";
	struct address literal;

	retire_due(w);
	if (w->now - w->retire.names_watched < USEC)
		return;
	w->retire.names_watched = w->now;
	LIST_EACH(node, &w->peers.servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const char *name = s->pooled.close_reason == REASON_NONE && may_have_moved(s)
					   ? s->host
					   : NULL;

		/* servers beside each other usually have the same name */
		if (!name || strcmp(name, last) == 0)
			continue;
		last = name;
		if (!address_from_ip(&literal, name, 0))
			dns_watch(w->dns, name);
	}
}
