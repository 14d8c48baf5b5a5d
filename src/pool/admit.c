/*
 * DISABLE HOST and ENABLE HOST, and what happens when a host is closed to a database or opened.
 *
 * A closed host gets no new transaction and no new connection of it. Idle connections and logins
 * end at once, busy connections when their clients release them. The connection that asks for the
 * role of the host stays. pgweir never opens a host by itself.
 *
 * Invariant: a disabled host has a reference of its own, so that it stays disabled while no
 * database lists it.
 */
#include "pool/admit.h"

#include "base/log.h"
#include "pool/closed.h"
#include "pool/drain.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <string.h>

/* ---- closed hosts ---- */

/* Ends the free connections of the pool to closed hosts, and marks the others. */
static void leave_closed(const struct pool *pool)
{
	for (int state = 0; state < SERVER_STATES; state++) {
		bool is_free = state == SERVER_IDLE || state == SERVER_USED ||
			       state == SERVER_LOGIN;

		LIST_EACH_SAFE(node, &pool->servers[state]) {
			struct pool_server *server = server_at(node);

			if (!server->host || server_is_apart(server) ||
			    !host_is_closed_to(server->host, pool->database))
				continue;
			if (is_free)
				pool->pools->ops->drop(server, REASON_HOST_CLOSED);
			else
				pool_server_close_later(server, REASON_HOST_CLOSED);
		}
	}
}

void hosts_admit_anew(struct pools *pools, usec_t now)
{
	pools->has_closed_hosts = false;
	for (struct host *host = pools->hosts; host; host = host->hh.next)
		host_admit(host);
	for (struct database *database = pools->databases; database; database = database->hh.next) {
		if (database->is_console)
			continue;
		/* clients leave the host before its connections */
		roles_admit(database, now);
		LIST_EACH(node, &database->members)
			leave_closed(LIST_OBJECT(node, struct pool, of_database));
	}
	pools_mark_all(pools);
}

/* ---- DISABLE HOST and ENABLE HOST ---- */

static void set_disabled(struct host *host, bool is_disabled)
{
	if (host->is_disabled == is_disabled)
		return;
	host->is_disabled = is_disabled;
	log_warning("host %s is %s", host->key,
		    is_disabled ? "disabled, until ENABLE HOST" : "enabled");
	if (is_disabled)
		host->users++;
	else
		host_drop(host);
}

bool host_restore_disabled(struct pools *pools, const char *key)
{
	struct host *host = strrchr(key, ':') ? host_hold(pools, key) : NULL;

	if (!host)
		return false;
	set_disabled(host, true);
	host_drop(host);
	return true;
}

/* Makes the hosts of the list exist. False: no memory. */
static bool disable_listed(struct pools *pools, const struct conf_database *conf, const char *name)
{
	bool has_memory = true;

	for (unsigned i = 0; i < conf->host_count; i++) {
		struct host *host = host_of(pools, &conf->hosts[i]);

		has_memory &= host != NULL;
		if (host && host_is_named(host, name))
			set_disabled(host, true);
		if (host)
			host_drop(host);
	}
	return has_memory;
}

/* Ends each DRAIN that concerns the host. */
static void stop_drains(struct pools *pools, const struct host *host)
{
	LIST_EACH_SAFE(node, &pools->drains) {
		const struct drain *drain = LIST_OBJECT(node, struct drain, node);

		if (drain->of == DRAIN_OF_HOST && host_is_named(host, drain->name))
			drain_stop(pools, DRAIN_OF_HOST, drain->name, false);
	}
}

bool hosts_disable(struct pools *pools, const char *name, bool is_disabled, usec_t now)
{
	bool has_memory = true;
	struct host *host, *next;

	for (const struct database *d = pools->databases; d && is_disabled; d = d->hh.next)
		has_memory &= d->is_console || disable_listed(pools, d->conf, name);
	if (pools->conf->fallback && is_disabled)
		has_memory &= disable_listed(pools, pools->conf->fallback, name);
	HASH_ITER(hh, pools->hosts, host, next) {
		if (!host_is_named(host, name) || (is_disabled && host->role_users == 0))
			continue;
		if (!is_disabled)
			stop_drains(pools, host);
		set_disabled(host, is_disabled);
	}
	hosts_admit_anew(pools, now);
	return has_memory;
}
