/*
 * Patroni's word about the hosts of a database: its members, the holder of the leader lock, and tags. A database without hosts in the configuration
 * has the members as its hosts.
 *
 * Invariant: roles->leader is one of the places.
 */
#include "pool/role.h"

#include "base/mem.h"
#include "base/text.h"
#include "pool/inside.h"

#include <stdio.h>
#include <string.h>

/* Whether the places are these members, in any order. */
static bool are_members(const struct roles *roles, const struct role_member *members, unsigned count)
{
	if (roles->count != count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		bool is_here = false;

		for (unsigned j = 0; j < roles->count; j++)
			is_here |= strcmp(roles->places[j].host->key, members[i].key) == 0;
		if (!is_here)
			return false;
	}
	return true;
}

/* Pools without a host have all hosts of the list: their next servers are opened at the new members. */
static void renew_homes(const struct roles *roles)
{
	LIST_EACH(node, &roles->database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		if (pool->host)
			continue;
		pool_places_clear(pool);
		pool->generation++;
		pool_mark(pool);
	}
}

/* Makes the members the places. Hosts in both keep their state. Without memory the old places stay. */
static void set_places(struct roles *roles, const struct role_member *members, unsigned count)
{
	struct role_place *places = mem_try((count + 1) * sizeof(*places));
	unsigned made = 0;
	bool has_primary = false;

	for (; places && made < count; made++) {
		struct host *host = host_hold(roles->database->pools, members[made].key);

		if (!host) {
			role_places_free(places, made);
			return;
		}
		host->role_users++;
		has_primary |= host == roles->primary;
		places[made] = (struct role_place){ .host = host, .weight = 1 };
	}
	if (!places)
		return;
	role_places_free(roles->places, roles->count);
	roles->places = places;
	roles->count = count;
	if (!has_primary)
		roles->primary = NULL;
	renew_homes(roles);
}

void roles_note_members(struct roles *roles, const struct role_member *members, unsigned count, int leader, const char *why, usec_t at, usec_t now)
{
	struct host *was = roles->leader;

	if (roles->has_members && !are_members(roles, members, count))
		set_places(roles, members, count);
	roles->leader = NULL;
	text_copy(roles->source_why, HOST_WHY, why);
	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];

		for (unsigned j = 0; j < count; j++) {
			if (strcmp(members[j].key, place->host->key) != 0)
				continue;
			if ((int)j == leader)
				roles->leader = place->host;
			if (place->has_no_readers != members[j].has_no_readers)
				roles_set_due(roles);
			place->has_no_readers = members[j].has_no_readers;
		}
	}
	if (leader >= 0 && !roles->leader)
		snprintf(roles->source_why, HOST_WHY, "Patroni's leader %.80s is not in the list of hosts", members[leader].key);
	roles->source_at = at;
	/* the time of the answer alone changes nothing while there is a primary */
	if (roles->leader != was || !roles->primary)
		roles_set_due(roles);
	(void)now;
}

void roles_note_silence(struct roles *roles, const char *why)
{
	text_copy(roles->source_why, HOST_WHY, why);
}
