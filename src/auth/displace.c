/*
 * Which login ends when there are too many.
 *
 * A client that does not log in takes a descriptor and a place of max_client_conn until client_login_timeout is over. So logins in progress are
 * bounded, and the bound must not be a means to keep other clients out. The login that ends is therefore chosen by address: all states before
 * authentication count alike, whether the client is silent, or waits for a look-up, a verifier or the refusal of its login. If one address has more
 * logins in progress than the address of the newcomer, one of its logins ends. It is the one with the client that
 * has kept pgweir waiting for longest, if that is more than a second, and otherwise the youngest: those before it are nearer to their end.
 *
 * A site mostly has a /48 network of IPv6, with 65,536 addresses in this sense: with one login at each of them it would have no more than
 * any other address. So sites are compared first, and addresses only with those of their own site. An IPv4 address is a site of its own.
 *
 * If no site has more than the newcomer's, the newcomer is refused, unless a client of one with as many has been silent for
 * more than a second: a crowd that logs in from one address, as after a restart of an application, is served in order and does not throw itself out.
 */
#include "auth/displace.h"

#include "auth/client_address.h"
#include "auth/login_state.h"
#include "auth/refusal.h"

#define LOOKED_AT 16			/* candidates of one list, each of which can end */
#define SILENT_MOST USEC

/* Its client is the one that is waited for, and has been for long. */
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

/* By how many logins the first one's site has more; of one site: its address. */
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

/* A login of this site that is to end for the newcomer's sake, at an address with most of them. One that floods has begun a login lately, so
   it is among the first. NULL: there is none. */
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

/* Of those with clients that have been silent for longest, one of the site with most logins, and there of such an address; NULL: none. One that
   has fewer beside it than the newcomer stays: else an address with many could end slow logins of others one by one. */
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
