/*
 * Patroni's word about the hosts of a database: its members, the holder of the leader lock, and
 * tags. A database without hosts in the configuration has the members as its hosts.
 *
 * When Patroni does not name a host any more, and the host does not answer, it leaves the list.
 * While it answers it may stay: members vanish from Patroni's answers while the store of the
 * cluster is away, and then there is no leader; or a member has lost its Patroni, and serves its
 * clients. When a host is in no list any more, it is forgotten with the end of its last connection
 * (pools_sweep()). Therefore names that come and go, such as addresses of containers, do not
 * accumulate, and a list never has more than ROLE_MEMBERS_MOST hosts.
 *
 * Invariant: roles->leader is one of the places.
 */
#include "pool/role.h"

#include "base/mem.h"
#include "base/text.h"
#include "pool/inside.h"

#include <stdio.h>
#include <string.h>

static bool source_is_member(const char *key, const struct role_member *members, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (strcmp(members[i].key, key) == 0)
			return true;
	}
	return false;
}

/* Whether the host stays in the list. */
static bool stays(const struct host *host, const struct role_member *members, unsigned count,
		  bool has_leader)
{
	return (host->is_fresh && (!has_leader || host->servers->used > 0)) ||
	       source_is_member(host->key, members, count);
}

/* Whether set_places() would change nothing. */
static bool are_places(const struct roles *roles, const struct role_member *members, unsigned count,
		       bool has_leader)
{
	unsigned found = 0;

	for (unsigned i = 0; i < roles->count; i++) {
		const struct host *host = roles->places[i].host;

		if (!stays(host, members, count, has_leader))
			return false;
		found += source_is_member(host->key, members, count);
	}
	return found == count;
}

/* Pools without a host have all hosts of the list: their next servers are opened at the new
   members. */
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

/* Appends the host to the places unless they have it already. False: no memory. */
static bool source_add_place(struct roles *roles, struct role_place *places, unsigned *count,
			     const char *key)
{
	struct host *host;

	for (unsigned i = 0; i < *count; i++) {
		if (strcmp(places[i].host->key, key) == 0)
			return true;
	}
	host = host_hold(roles->database->pools, key);
	if (!host)
		return false;
	host->role_users++;
	places[(*count)++] = (struct role_place){ .host = host, .weight = 1 };
	return true;
}

/* Makes the members the places, with the hosts that stay. Hosts keep their state. Without memory
   the old places stay. */
static void set_places(struct roles *roles, const struct role_member *members, unsigned count,
		       bool has_leader)
{
	struct role_place *places = mem_try((count + roles->count + 1) * sizeof(*places));
	unsigned made = 0;
	bool has_memory = places != NULL;

	for (unsigned i = 0; has_memory && i < count; i++)
		has_memory = source_add_place(roles, places, &made, members[i].key);
	for (unsigned i = 0; has_memory && i < roles->count && made < ROLE_MEMBERS_MOST; i++) {
		if (stays(roles->places[i].host, members, count, has_leader))
			has_memory = source_add_place(roles, places, &made,
						      roles->places[i].host->key);
	}
	if (!has_memory) {
		if (places)
			role_places_free(places, made);
		return;
	}
	roles_set_places(roles, places, made);
	renew_homes(roles);
}

void roles_note_members(struct roles *roles, const struct role_member *members, unsigned count,
			int leader, const char *why, usec_t at)
{
	struct host *was = roles->leader;

	if (roles->has_members && !are_places(roles, members, count, leader >= 0))
		set_places(roles, members, count, leader >= 0);
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
		snprintf(roles->source_why, HOST_WHY,
			 "Patroni's leader %.80s is not in the list of hosts", members[leader].key);
	roles->source_at = at;
	/* while there is a primary, an answer that only has a later time changes nothing */
	if (roles->leader != was || !roles->primary)
		roles_set_due(roles);
}

void roles_note_silence(struct roles *roles, const char *why)
{
	text_copy(roles->source_why, HOST_WHY, why);
}
