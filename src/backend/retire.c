/*
 * Server connections that lead where none would be opened any more: their TLS settings are others now, or
 * the name that they were dialled by has other addresses.
 *
 * No client is cut off for it. A connection in use is marked, and closed when its client gives it back; one
 * that no client uses ends at once. One that is being opened was told the earlier settings or addresses. Other settings
 * end it at once: it might yet send a password in the old way, and a waiting client would wait for it in vain. Other addresses only
 * mark it, and dial_tick ends it when it takes longer than a second: where each answer differs, one dial's question would end
 * all the others, and theirs that one. A pool that is content dials no server, so the names that its connections were dialled by are
 * watched.
 */
#include "backend/retire.h"

#include "backend/server_login.h"
#include "base/log.h"

#include <string.h>

static bool is_unused(const struct server *s, bool opening_too)
{
	return s->pooled.state == SERVER_IDLE || s->pooled.state == SERVER_USED || (opening_too && s->pooled.state == SERVER_LOGIN);
}

static void end_unused(struct list *servers, bool opening_too)
{
	LIST_EACH_SAFE(node, servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (s->pooled.close_reason == REASON_OBSOLETE && is_unused(s, opening_too))
			server_end(s, REASON_OBSOLETE, NULL);
	}
}

void retire_unused(struct world *w)
{
	end_unused(&w->servers, true);
}

static bool may_retire(const struct server *s, bool unix_too)
{
	return !s->pooled.is_cancel && (unix_too || s->peer.remote.family != AF_UNIX);
}

void retire_all(struct world *w, bool unix_too)
{
	LIST_EACH(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (may_retire(s, unix_too))
			s->pooled.close_reason = REASON_OBSOLETE;
	}
	retire_unused(w);
}

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_on_host_of(const struct conf_database *one, const struct conf_database *other)
{
	return one->port == other->port && is_same_text(one->host, other->host);
}

static void retire_host(struct world *w, const struct conf_database *conf)
{
	int count = 0;

	LIST_EACH(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);

		if (s->pooled.is_cancel || s->pooled.close_reason != REASON_NONE || !is_on_host_of(s->pooled.pool->database->conf, conf))
			continue;
		s->pooled.close_reason = REASON_OBSOLETE;
		count++;
	}
	log_info("ALTER ROLE or ALTER DATABASE: %d server connections are obsolete", count);
	end_unused(&w->servers, false);
}

void retire_sessions(struct server *s)
{
	struct world *w = s->peer.world;
	struct database *d = s->pooled.pool->database;

	d->sessions_changed = true;
	w->sessions_changed = true;
	retire_due(w);
}

void retire_due(struct world *w)
{
	if (!w->sessions_changed || (w->sessions_retired != 0 && w->now - w->sessions_retired < RETIRE_PAUSE))
		return;
	w->sessions_changed = false;
	w->sessions_retired = w->now;
	for (struct database *d = w->pools->databases; d; d = d->hh.next) {
		if (!d->sessions_changed)
			continue;
		d->sessions_changed = false;
		retire_host(w, d->conf);
	}
}

void retire_database(struct server *from, const uint8_t *text, size_t size)
{
	struct world *w = from->peer.world;
	char name[SQL_NAME_SIZE];

	if (!statement_sql_ends_database(text, size, name))
		return;
	LIST_EACH_SAFE(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const struct database *d = s->pooled.pool->database;

		if (s == from || s->pooled.is_cancel || !is_on_host_of(d->conf, from->pooled.pool->database->conf) ||
		    strcmp(d->conf->dbname ? d->conf->dbname : d->name, name) != 0)
			continue;
		if (s->pooled.close_reason == REASON_NONE)
			s->pooled.close_reason = REASON_OBSOLETE;
		if (is_unused(s, true))
			server_end(s, REASON_OBSOLETE, NULL);
	}
}

static const char *name_of(const struct server *s)
{
	return s->dial ? s->dial->host : s->host;
}

static bool is_among(const struct address *a, const struct dns_answer *answer)
{
	for (int i = 0; i < answer->count; i++)
		if (address_is_same_host(a, &answer->addresses[i]))
			return true;
	return false;
}

/* It waits for this very answer: the address that it has, if any, is that of the host before in its list. */
static bool is_asking(const struct server *s)
{
	return s->dial && s->dial->step == DIAL_NAME;
}

void retire_moved(void *context, const char *name, const struct dns_answer *now)
{
	struct world *w = context;
	int count = 0;

	world_wake(w);
	LIST_EACH(node, &w->servers) {
		struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const char *dialled = name_of(s);

		if (!may_retire(s, false) || s->peer.remote.family == 0 || !dialled || strcmp(dialled, name) != 0 || is_asking(s) ||
		    is_among(s->address, now))
			continue;
		s->pooled.close_reason = REASON_OBSOLETE;
		count++;
	}
	if (count == 0)
		return;
	log_info("DNS: addresses of \"%s\" have changed, %d server connections are obsolete", name, count);
	end_unused(&w->servers, false);
}

void retire_watch(struct world *w)
{
	const char *last = "";
	struct address literal;

	if (w->now - w->names_watched < USEC)
		return;
	w->names_watched = w->now;
	LIST_EACH(node, &w->servers) {
		const struct server *s = LIST_OBJECT(node, struct server, peer.node);
		const char *name = s->pooled.close_reason == REASON_NONE && may_retire(s, false) ? s->host : NULL;

		/* mostly one server after the other has the same */
		if (!name || strcmp(name, last) == 0)
			continue;
		last = name;
		if (!address_from_ip(&literal, name, 0))
			dns_watch(w->dns, name);
	}
}
