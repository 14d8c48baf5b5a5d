/*
 * The list of hosts of a database with roles, and the pools at these hosts.
 *
 * The list comes from the configuration, or from Patroni (role_source.c). role.c decides which
 * clients each place of the list suits (place->targets); pool_set_targets() copies this to the pool
 * at the host, where the scheduler reads it.
 *
 * Invariant: a host has at most one place in a list. A place has a reference to its host, and is
 * counted in host->role_users.
 */
#include "pool/role.h"

#include "base/mem.h"
#include "pool/closed.h"
#include "pool/inside.h"

void role_places_free(struct role_place *places, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		role_place_set_rival(&places[i], false);
		places[i].host->role_users--;
		host_drop(places[i].host);
	}
	mem_free(places);
}

struct role_place *role_place_of(const struct roles *roles, const struct host *host)
{
	for (unsigned i = 0; i < roles->count; i++) {
		if (roles->places[i].host == host)
			return &roles->places[i];
	}
	return NULL;
}

bool roles_list(const struct database *database, const struct host *host)
{
	return database->roles && role_place_of(database->roles, host) != NULL;
}

void roles_set_places(struct roles *roles, struct role_place *places, unsigned count)
{
	bool has_primary = false;

	for (unsigned i = 0; i < count; i++) {
		const struct role_place *old = role_place_of(roles, places[i].host);

		has_primary |= places[i].host == roles->primary;
		if (!old)
			continue;
		places[i].targets = old->targets;
		places[i].incarnation = old->incarnation;
		places[i].fresh_to = old->fresh_to;
		places[i].following = old->following;
		places[i].server_id = old->server_id;
		places[i].moves = old->moves;
		places[i].from = old->from;
		places[i].unproven_since = old->unproven_since;
		places[i].back_at = old->back_at;
		role_place_set_rival(&places[i], old->is_rival);
	}
	role_places_free(roles->places, roles->count);
	roles->places = places;
	roles->count = count;
	if (!has_primary)
		roles->primary = NULL;
}

/* Takes over a reference to the host. A host that is listed twice has one place. */
static void role_add_place(struct role_place *places, unsigned *count, struct host *host,
			   unsigned weight)
{
	for (unsigned i = 0; i < *count; i++) {
		if (places[i].host == host) {
			host_drop(host);
			return;
		}
	}
	host->role_users++;
	places[(*count)++] = (struct role_place){ .host = host, .weight = weight };
}

struct role_place *role_places_of(const struct database *database, unsigned *count)
{
	const struct conf_database *conf = database->conf;
	struct role_place *places;
	unsigned most = 1;

	*count = 0;
	for (unsigned i = 0; i < conf->host_count; i++) {
		struct host *host = host_of(database->pools, &conf->hosts[i]);

		most += host && host->member_count > 1 ? host->member_count : 1;
		if (host)
			host_drop(host);
	}
	places = mem_try(most * sizeof(*places));
	/* Patroni tells the hosts */
	if (conf_patroni_of(database->pools->conf, conf) && !conf->host)
		return places;
	for (unsigned i = 0; places && i < conf->host_count; i++) {
		struct host *host = host_of(database->pools, &conf->hosts[i]);

		if (!host) {
			role_places_free(places, *count);
			return NULL;
		}
		for (unsigned j = 0; j < host->member_count; j++) {
			host->members[j]->users++;
			role_add_place(places, count, host->members[j], conf->hosts[i].weight);
		}
		if (host->member_count == 0)
			role_add_place(places, count, host, conf->hosts[i].weight);
		else
			host_drop(host);
	}
	return places;
}

/* ---- the pools at the hosts ---- */

bool pool_set_targets(struct pool *pool)
{
	const struct roles *roles = pool->database->roles;
	const struct role_place *place = pool->host && roles ? role_place_of(roles, pool->host)
							     : NULL;
	uint8_t suits = place ? place->targets : 0;
	usec_t covers = !place || !(place->targets & TARGET_BIT(TARGET_STANDBY)) ? INT64_MAX
									  : place->fresh_to;
	bool has_changed;

	/* without members of Patroni there is no host to connect to */
	if (!pool->host && !(roles && roles->has_members && roles->count == 0) &&
	    !hosts_are_closed(pool->database))
		suits = TARGET_BIT(TARGET_ANY);
	has_changed = suits != pool->targets || covers != pool->fresh_to;
	pool->targets = suits;
	pool->fresh_to = covers;
	pool->fixed_targets = covers < INT64_MAX || pool->reads_sequences
			      ? 0
			      : suits & (uint8_t) ~(TARGET_BIT(TARGET_READ) |
						    TARGET_BIT(TARGET_PREFER_STANDBY));
	return has_changed;
}

struct pool *pool_at_host(struct pool *pool, struct host *host, usec_t now)
{
	struct pool *made = pool_get_at(pool->parent, host, now);

	if (made)
		pool_set_targets(made);
	return made;
}

struct pool *pool_at_key(struct pool *pool, const char *key, usec_t now)
{
	struct host *host = *key ? host_hold(pool->pools, key) : NULL;
	struct pool *made = host || !*key
				    ? pool_at_host(pool, host ? host : pool->pools->no_host, now)
				    : NULL;

	if (host)
		host_drop(host);
	return made;
}
