/*
 * Two primaries at once: a "split brain". role.c chooses at most one of them: with Patroni its
 * leader, even if another primary has a higher timeline. Clients that connect to the other one past
 * pgweir write data that will be lost. Therefore each further primary is reported: a WARNING when
 * it is found, the state `second primary` and the metric pgweir_hosts_second_primary while it
 * lasts, and a line when it is over.
 *
 * Two valid claims do not prove two primaries: in a switchover, the last answer of the former
 * primary is still valid when the new primary answers first. Both must repeat their claims after
 * both have been made (are_both()).
 *
 * A host may be in the lists of many databases. Each list has its own verdict
 * (role_place.is_rival), host->rivals counts them, and only the first and the last one are logged.
 */
#include "pool/role.h"

#include "base/log.h"
#include "pool/inside.h"

static bool claims_primary(const struct host *host)
{
	/* a claim that only a login has reported is not counted, because the host may turn out to
	   belong to another cluster */
	return host->is_fresh && host->evidence.claim == CLAIM_PRIMARY && !host->is_reported;
}

static bool are_both(const struct host *a, const struct host *b)
{
	usec_t since = a->changed_at > b->changed_at ? a->changed_at : b->changed_at;

	return a != b && claims_primary(a) && claims_primary(b) && a->evidence.at >= since &&
	       b->evidence.at >= since;
}

void role_place_set_rival(struct role_place *place, bool is_rival)
{
	place->host->rivals += is_rival - place->is_rival;
	place->is_rival = is_rival;
}

/* `first`: the host that the place is a second primary beside. */
static void change_rival(const struct roles *roles, struct role_place *place,
			 const struct host *first)
{
	const struct host *host = place->host;
	int before = host->rivals;
	char name[PRINTABLE_NAME];

	role_place_set_rival(place, !place->is_rival);
	printable_name(roles->database->name, name, sizeof(name));
	if (before == 0)
		log_warning("host %s: a second primary of database %s, with timeline %" PRIu32
			    "; %s is a primary, too, with timeline %" PRIu32 "%s",
			    host->key, name, host->evidence.timeline, first->key,
			    first->evidence.timeline,
			    first == roles->primary ? ", and gets the writes" : "");
	else if (host->rivals == 0)
		log_info("host %s: no second primary any more (%s)", host->key, host->why);
}

void roles_find_rivals(struct roles *roles)
{
	const struct host *first = roles->primary;

	for (unsigned i = 0; !first && i < roles->count; i++)
		first = claims_primary(roles->places[i].host) ? roles->places[i].host : NULL;
	for (unsigned i = 0; i < roles->count; i++) {
		struct role_place *place = &roles->places[i];

		if (place->is_rival != (first && are_both(first, place->host)))
			change_rival(roles, place, first);
	}
}
