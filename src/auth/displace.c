/*
 * Which login ends when there are too many.
 *
 * A client that does not log in takes a descriptor and a place of max_client_conn until client_login_timeout is over. Therefore the number
 * of logins in progress is bounded, and the bound must not serve to lock other clients out. The login that ends is therefore chosen by
 * address: all states before authentication count alike, whether the client is silent, or waits for a look-up, a verifier or the refusal of
 * its login. If one address has more logins in progress than the address of the newcomer, one of its logins ends. If the client of one of
 * them has sent nothing for more than a second, the login that has been silent for longest ends; otherwise the youngest ends, because the
 * older logins are closer to completion.
 *
 * A site mostly has a /48 network of IPv6, with 65,536 addresses in this sense: with one login at each of them it would have no more than
 * any other address. Therefore sites are compared first, and addresses only within one site. An IPv4 address is a site of its own.
 *
 * If no site has more logins than the newcomer's site, the newcomer is refused, unless a client of a site with as many logins has been
 * silent for more than a second. Therefore a crowd of clients at one address, for example after a restart of an application, is served in
 * order, and its logins do not end each other.
 */
#include "auth/displace.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/refusal.h"

#define LOOKED_AT 16			/* candidates that are examined in each list */
#define SILENT_MOST USEC

/* The login waits for its client, and has waited for a long time. */
static bool is_silent(const struct client *c)
{
	return login_step_waits_for_client(c->login->step) && c->peer.world->now - c->login->step_since >= SILENT_MOST;
}

/* How many logins are in progress at its site and at its address, its own included; none without a bound. */
struct crowd {
	const struct client_site *site;
	int at_site, at_address;
};

static struct crowd crowd_of(const struct client *c)
{
	const struct client_address *o = client_address_of(c);

	if (!o || !o->is_bounded)
		return (struct crowd){ .site = NULL };
	return (struct crowd){ o->site, o->site->login_count, o->login_count };
}

/* The number of logins that the site of `a` has more than the site of `b`; within one site, the same for their addresses. */
static int more_than(const struct crowd *a, const struct crowd *b)
{
	return a->site == b->site ? a->at_address - b->at_address : a->at_site - b->at_site;
}

/* The site with most logins in progress; NULL: there is none. */
static struct client_site *fullest(const struct client_addresses *all)
{
	struct client_site *most = NULL;
	int seen = 0;

	for (int i = CLIENT_ADDRESS_CROWDS - 1; i > 0 && !most; i--) {
		LIST_EACH(node, &all->crowds[i]) {
			struct client_site *site = LIST_OBJECT(node, struct client_site, node);

			if (!most || site->login_count > most->login_count)
				most = site;
			if (++seen == LOOKED_AT)
				break;
		}
	}
	return most;
}

/* A login that has not ended for another newcomer already. */
static bool may_displace(const struct client *c, const struct client *newcomer)
{
	return c != newcomer && !peer_is_stopped(&c->peer);
}

/* The login of this address that is to end for the newcomer's sake. NULL: none, all have ended. */
static struct client *dispensable(const struct client_address *o, const struct client *newcomer)
{
	struct client *youngest = NULL;
	int seen = 0;

	LIST_EACH(node, &o->logins) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		if (may_displace(c, newcomer) && is_silent(c))
			return c;
		if (++seen == LOOKED_AT)
			break;
	}
	for (struct list *node = o->logins.prev; node != &o->logins && !youngest; node = node->prev) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		youngest = may_displace(c, newcomer) ? c : NULL;
	}
	return youngest;
}

/* A login of this site that is to end for the newcomer's sake, at an address with most of them. A flooding address has begun a login
   recently, so it is near the front of the list. NULL: there is none. */
static struct client *dispensable_of_site(const struct client_site *site, const struct client *newcomer)
{
	const struct crowd own = crowd_of(newcomer);
	struct client *best = NULL;
	int most = 0, seen = 0;

	if (!site || (site != own.site && site->login_count <= own.at_site))
		return NULL;
	LIST_EACH(node, &site->crowded) {
		const struct client_address *o = LIST_OBJECT(node, const struct client_address, node);
		struct client *c = o->login_count > (site == own.site ? own.at_address : 0) ? dispensable(o, newcomer) : NULL;

		if (c && o->login_count > most) {
			best = c;
			most = o->login_count;
		}
		seen += c != NULL;
		if (seen == LOOKED_AT)
			break;
	}
	return best;
}

/* Chooses among the logins that have been silent for longest: one at the site with the most logins, and within that site at the address
   with the most logins. NULL: none. A login at a site with fewer logins than the newcomer's stays; otherwise an address with many logins could
   end the slow logins of other addresses. */
static struct client *silent_one(const struct world *w, const struct client *newcomer)
{
	const struct crowd own = crowd_of(newcomer);
	struct crowd most = { .site = NULL };
	struct client *best = NULL;
	int seen = 0;

	LIST_EACH(node, &w->addresses->waited_for) {
		struct client *c = LIST_OBJECT(node, struct login, waited_for_node)->client;
		const struct crowd its = crowd_of(c);

		if (!is_silent(c) || seen == LOOKED_AT)
			break;
		if (!may_displace(c, newcomer))
			continue;
		seen++;
		if (more_than(&its, &own) < 0 || (best && more_than(&its, &most) <= 0))
			continue;
		best = c;
		most = its;
	}
	return best;
}

bool displace_login(struct client *newcomer, enum close_reason why)
{
	const struct world *w = newcomer->peer.world;
	struct client *c;

	if (refusals_hurry(newcomer->peer.world->refusals))
		return true;
	c = dispensable_of_site(fullest(w->addresses), newcomer);
	if (!c)
		c = dispensable_of_site(crowd_of(newcomer).site, newcomer);
	if (!c && !(c = silent_one(w, newcomer)))
		return false;
	client_end(c, why, NULL);
	return true;
}
