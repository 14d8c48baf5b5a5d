/*
 * Which hosts are closed to which databases, by DISABLE HOST (admit.c) and DRAIN HOST (drain.c).
 *
 * Files of the room ask this file before they use a host. It reads hosts, drains and the
 * configuration, and calls no other file of the room.
 *
 * Invariant: host->is_drained tells whether pools->drains has a drain with the name of the host,
 * and pools->has_closed_hosts whether a host may be disabled or drained.
 */
#include "pool/closed.h"

#include "pool/drain.h"
#include "pool/inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

bool host_is_named(const struct host *host, const char *name)
{
	size_t size = (size_t)(strrchr(host->key, ':') - host->key);

	return strcmp(host->key, name) == 0 ||
	       (strlen(name) == size && memcmp(host->key, name, size) == 0);
}

static bool is_listed_in(const struct pools *pools, const struct conf_database *conf,
			 const char *name)
{
	bool is_listed = false;

	for (unsigned i = 0; i < conf->host_count; i++) {
		const char *host = host_name(pools, &conf->hosts[i]);
		size_t size = strlen(host);

		is_listed |= strncmp(host, name, size) == 0 &&
			     (!name[size] ||
			      (name[size] == ':' && atoi(name + size + 1) == conf->hosts[i].port));
	}
	return is_listed;
}

bool host_is_listed(const struct pools *pools, const struct database *database, const char *name)
{
	if (database)
		return !database->is_console && is_listed_in(pools, database->conf, name);
	for (database = pools->databases; database; database = database->hh.next) {
		if (!database->is_console && is_listed_in(pools, database->conf, name))
			return true;
	}
	/* no entry lists the host if Patroni has named it, or if it was removed from the lists
	   while it was disabled */
	for (const struct host *host = pools->hosts; host; host = host->hh.next) {
		if ((host->role_users > 0 || host->is_disabled) && host_is_named(host, name))
			return true;
	}
	return pools->conf->fallback && is_listed_in(pools, pools->conf->fallback, name);
}

/* ---- closed hosts ---- */

static bool is_drained(const struct host *host)
{
	LIST_EACH(node, &host->pools->drains) {
		const struct drain *drain = LIST_OBJECT(node, struct drain, node);

		if (drain->of == DRAIN_OF_HOST && host_is_named(host, drain->name))
			return true;
	}
	return false;
}

void host_admit(struct host *host)
{
	host->is_drained = is_drained(host);
	host->pools->has_closed_hosts |= host->is_drained || host->is_disabled;
}

/* Whether the host at this place in the list is closed to the database. */
static bool is_closed(const struct database *database, const struct conf_host *conf)
{
	const char *name = host_name(database->pools, conf);
	size_t size = strlen(name);

	for (const struct host *host = database->pools->hosts; host; host = host->hh.next) {
		if (host->port == conf->port && strncmp(host->key, name, size) == 0 &&
		    strrchr(host->key, ':') == host->key + size)
			return host_is_closed_to(host, database);
	}
	return false;
}

bool hosts_are_closed(const struct database *database)
{
	const struct roles *roles = database->roles;
	bool are_closed = database->pools->has_closed_hosts && !database->is_console;
	unsigned count = roles ? roles->count : database->conf->host_count;

	for (unsigned i = 0; are_closed && i < count; i++)
		are_closed = roles ? host_is_closed_to(roles->places[i].host, database)
				   : is_closed(database, &database->conf->hosts[i]);
	return are_closed && count > 0;
}
