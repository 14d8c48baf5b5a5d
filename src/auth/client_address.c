/*
 * Addresses of clients: the logins in progress at each, and which login ends when there are too
 * many. Failed logins: see refusal.c.
 *
 * Every client that can reach the port can open connections and not log in. Such a client takes a
 * descriptor and a place of max_client_conn until client_login_timeout is over. Therefore the
 * number of logins in progress is limited, and the limit must not lock out other clients: if it is
 * exceeded, a login of the address with the most logins ends. All steps before the authentication
 * count alike.
 *
 * A site, mostly a /48 network of IPv6, has up to 65,536 addresses in this sense: with one login at
 * each of them it would have no more than any other address. Therefore sites are compared first,
 * and addresses only within one site. An IPv4 address is a site of its own.
 *
 * If no site has more logins than the new client's site, the new client is refused, unless a client
 * of a site with as many logins has been silent for more than a second. Therefore clients that
 * arrive at one address at the same time, for example after a restart of an application, are served
 * in order.
 *
 * Invariant: the counts of an address are the sums over its clients; an address is freed with its
 * last client, a site with its last address. A site is in the list for its login_count, and an
 * address with logins is in the list of its site.
 */
#include "auth/auth_inside.h"

#include "auth/login_state.h"
#include "base/assert.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SITE_OF_NETWORK 6		/* bytes of the prefix of a site: a /48 network */
/* any host of a link may have any number of link-local addresses */
#define SITE_OF_LINK 8
#define SITE_OF_UIDS 2			/* 65,536 of them */
#define EXAMINED_MOST 16		/* candidates to end that are examined in each list */
#define SILENT_MOST USEC

/* ---- addresses ---- */

static bool is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* Whether the first 64 bits of an IPv6 address are the network of one host or site: not of ::1, nor
   of link-local addresses (fe80::/10). */
static bool has_network(const uint8_t ip[16])
{
	static const uint8_t zeros[8];

	return memcmp(ip, zeros, sizeof(zeros)) != 0 && !is_link_local(ip);
}

void address_key_of(struct address_key *key, const struct brief_address *a)
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	memset(key, 0, sizeof(*key));
	key->family = a->family;
	switch (a->family) {
	case AF_INET:
		memcpy(key->bytes, a->u.ip, 4);
		return;
	case AF_INET6:
		if (memcmp(a->u.ip, mapped, sizeof(mapped)) == 0) {
			key->family = AF_INET;
			memcpy(key->bytes, a->u.ip + sizeof(mapped), 4);
			return;
		}
		memcpy(key->bytes, a->u.ip, has_network(a->u.ip) ? 8 : sizeof(key->bytes));
		return;
	case AF_UNIX:
		/* the highest byte first */
		for (int i = 0; i < 4; i++)
			key->bytes[i] = (uint8_t)(a->u.peer.uid >> 8 * (3 - i));
		return;
	}
}

static uint32_t uid_of(const struct address_key *key)
{
	return (uint32_t)key->bytes[0] << 24 | (uint32_t)key->bytes[1] << 16 |
	       (uint32_t)key->bytes[2] << 8 | key->bytes[3];
}

/* Returns the number of bytes that identify the address's site; 0: the address is a site of its
   own. */
static size_t site_prefix(const struct address_key *key)
{
	if (key->family == AF_INET6 && has_network(key->bytes))
		return SITE_OF_NETWORK;
	if (key->family == AF_INET6 && is_link_local(key->bytes))
		return SITE_OF_LINK;
	return key->family == AF_UNIX && uid_of(key) > UINT16_MAX ? SITE_OF_UIDS : 0;
}

/* "10.0.0.7", "2001:db8::/64", "unix:1000". Returns buf. */
static const char *address_text(const struct address_key *key, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (key->family != AF_UNIX) {
		inet_ntop(key->family, key->bytes, ip, sizeof(ip));
		snprintf(buf, size, "%s%s", ip,
			 key->family == AF_INET6 && has_network(key->bytes) ? "/64" : "");
		return buf;
	}
	snprintf(buf, size, "unix:%u", (unsigned)uid_of(key));
	return buf;
}

struct verify_source brief_address_source(const struct brief_address *remote)
{
	struct verify_source source = { .group = 0 };
	struct address_key key;
	size_t prefix;

	_Static_assert(sizeof(source.bytes) == sizeof(key),
		       "an address does not fit into a source");
	address_key_of(&key, remote);
	memcpy(source.bytes, &key, sizeof(key));
	prefix = site_prefix(&key);
	if (prefix > 0)
		source.group = (uint8_t)(offsetof(struct address_key, bytes) + prefix);
	return source;
}

struct verify_source client_address_source(const struct client *c)
{
	return brief_address_source(&c->peer.remote);
}

/* ---- counting ---- */

struct client_addresses *client_addresses_new(void)
{
	struct client_addresses *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	list_init(&all->waited_for);
	list_init(&all->refused);
	for (int i = 0; i < CLIENT_ADDRESS_CROWDS; i++)
		list_init(&all->crowds[i]);
	return all;
}

void client_addresses_free(struct client_addresses **place)
{
	if (*place)
		mem_free((*place)->failures);
	mem_free(*place);
	*place = NULL;
}

/* A client has no pointer to its address, which would be 16 bytes of every idle client. */
struct client_address *client_address_of(const struct client *c)
{
	struct client_address *o = NULL;
	struct address_key key;

	address_key_of(&key, &c->peer.remote);
	if (c->login_facts.is_counted)
		HASH_FIND(hh, c->peer.world->logins.addresses->by_key, &key, sizeof(key), o);
	return o;
}

static void site_drop(struct client_addresses *all, struct client_site *site)
{
	if (--site->addresses > 0)
		return;
	HASH_DEL(all->sites, site);
	mem_free(site);
}

/* Returns the site of an address, with one address more. NULL: no memory. */
static struct client_site *site_get(struct client_addresses *all, const struct address_key *of)
{
	struct address_key key = *of;
	struct client_site *site;
	size_t prefix = site_prefix(of);

	if (prefix > 0)
		memset(key.bytes + prefix, 0, sizeof(key.bytes) - prefix);
	HASH_FIND(hh, all->sites, &key, sizeof(key), site);
	if (!site && !(site = mem_try(sizeof(*site))))
		return NULL;
	if (site->addresses++ > 0)
		return site;
	site->key = key;
	list_init(&site->crowded);
	list_init(&site->node);
	HASH_ADD(hh, all->sites, key, sizeof(site->key), site);
	if (HASH_HAS(hh, site))
		return site;
	mem_free(site);
	return NULL;
}

static struct client_address *client_address_new(struct client_addresses *all,
						 const struct address_key *key)
{
	struct client_address *o = mem_try(sizeof(*o));

	if (!o)
		return NULL;
	o->key = *key;
	/* root and the user of pgweir are trusted, because they can end the process; any other
	   local user is an unauthenticated client */
	o->is_bounded = key->family != AF_UNIX ||
			(uid_of(key) != 0 && uid_of(key) != (uint32_t)geteuid());
	o->site = site_get(all, key);
	list_init(&o->logins);
	list_init(&o->node);
	if (o->site)
		HASH_ADD(hh, all->by_key, key, sizeof(o->key), o);
	if (HASH_HAS(hh, o))
		return o;
	if (o->site)
		site_drop(all, o->site);
	mem_free(o);
	return NULL;
}

static void count_login(struct client_addresses *all, struct client_address *o, int change)
{
	struct client_site *site = o->site;

	o->login_count += change;
	if (!o->is_bounded)
		return;
	if (change > 0 || o->login_count == 0)
		list_remove(&o->node);
	if (change > 0)
		list_prepend(&site->crowded, &o->node);
	all->login_count += change;
	site->login_count += change;
	list_remove(&site->node);
	if (site->login_count > 0)
		list_append(&all->crowds[site->login_count < CLIENT_ADDRESS_CROWDS
						 ? site->login_count
						 : CLIENT_ADDRESS_CROWDS - 1],
			    &site->node);
}

void client_address_step(struct client *c)
{
	struct login *l = c->login;

	list_remove(&l->waited_for_node);
	if (l->address && l->address->is_bounded && login_waits_for_client(l))
		list_append(&c->peer.world->logins.addresses->waited_for, &l->waited_for_node);
}

bool client_address_enter(struct client *c)
{
	struct client_addresses *all = c->peer.world->logins.addresses;
	struct client_address *o;
	struct address_key key;

	c->login_facts.is_counted = true;
	o = client_address_of(c);
	address_key_of(&key, &c->peer.remote);
	if (!o && !(o = client_address_new(all, &key))) {
		c->login_facts.is_counted = false;
		return false;
	}
	o->clients++;
	o->administrators += c->console.is_admin;
	if (!c->login)
		return true;
	c->login->address = o;
	list_append(&o->logins, &c->login->address_node);
	count_login(all, o, +1);
	c->login->step_since = c->peer.world->now;
	client_address_step(c);
	return true;
}

void client_address_login_over(struct client *c)
{
	struct login *l = c->login;

	if (!l)
		return;
	refusal_forget(c);
	if (!l->address)
		return;
	list_remove(&l->address_node);
	list_remove(&l->waited_for_node);
	count_login(c->peer.world->logins.addresses, l->address, -1);
	l->address = NULL;
}

void client_address_leave(struct client *c)
{
	struct client_address *o = client_address_of(c);

	if (!o)
		return;
	client_address_login_over(c);
	c->login_facts.is_counted = false;
	o->administrators -= c->console.is_admin;
	if (--o->clients > 0)
		return;
	HASH_DEL(c->peer.world->logins.addresses->by_key, o);
	site_drop(c->peer.world->logins.addresses, o->site);
	mem_free(o);
}

/* ---- limits ---- */

bool client_address_may_have(const struct client *c, bool names_console)
{
	int64_t most = c->peer.world->conf->settings.max_client_conn_per_ip;
	const struct client_address *o = most > 0 ? client_address_of(c) : NULL;

	if (!o || o->key.family == AF_UNIX)
		return true;
	return names_console ? o->clients - o->administrators <= most + 1 : o->clients <= most;
}

void client_address_set_administrator(struct client *c)
{
	struct client_address *o = client_address_of(c);

	if (o && !c->console.is_admin)
		o->administrators++;
	c->console.is_admin = true;
}

/* ---- SHOW ADDRESSES ---- */

void client_addresses_each_row(const struct world *w,
			       void (*give)(void *context, const struct address_row *row),
			       void *context)
{
	const struct client_addresses *all = w->logins.addresses;
	char text[CLIENT_ADDRESS_TEXT];
	const struct failure *f;
	int row = 0;

	for (const struct client_address *o = all->by_key; o; o = o->hh.next)
		give(context, &(struct address_row){ address_text(&o->key, text, sizeof(text)),
						     o->clients, o->login_count, o->refused,
						     refusal_failures(w, &o->key) });
	while ((f = refusal_next_row(w, &row)) != NULL) {
		const struct client_address *connected;

		HASH_FIND(hh, all->by_key, &f->key, sizeof(f->key), connected);
		if (!connected)
			give(context, &(struct address_row){
					      .text = address_text(&f->key, text, sizeof(text)),
					      .failures = f->count });
	}
}

void client_addresses_each_failure(const struct world *w,
				   void (*give)(void *context, const char *address,
						const struct failure *failure),
				   void *context)
{
	char text[CLIENT_ADDRESS_TEXT];
	const struct failure *f;
	int row = 0;

	while ((f = refusal_next_row(w, &row)) != NULL)
		give(context, address_text(&f->key, text, sizeof(text)), f);
}

/* ---- which login ends ---- */

/* The number of logins in progress at a client's site and at its address, its own included; none if
   the address is not bounded. */
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

/* Whether the login may end for the new client: it has not ended for another one in this turn. */
static bool may_displace(const struct client *c, const struct client *fresh)
{
	return c != fresh && !peer_is_stopped(&c->peer);
}

/* Whether the login waits for its client, and has waited for a long time. */
static bool is_silent(const struct client *c)
{
	return login_waits_for_client(c->login) &&
	       c->peer.world->now - c->login->step_since >= SILENT_MOST;
}

/* Chooses a login of this address: the oldest silent login, otherwise the youngest login, because
   older logins are closer to their end. NULL: all have ended. */
static struct client *choose_at_address(const struct client_address *o, const struct client *fresh)
{
	int seen = 0;

	LIST_EACH(node, &o->logins) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		if (may_displace(c, fresh) && is_silent(c))
			return c;
		if (++seen == EXAMINED_MOST)
			break;
	}
	for (struct list *node = o->logins.prev; node != &o->logins; node = node->prev) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		if (may_displace(c, fresh))
			return c;
	}
	return NULL;
}

/* Chooses a login of this site, at an address with the most of them; such an address has begun a
   login recently, so it is near the front of the list. NULL: the new client's site has as many
   logins. */
static struct client *choose_at_site(const struct client_site *site, const struct client *fresh)
{
	const struct crowd own = crowd_of(fresh);
	struct client *best = NULL;
	int most = 0, seen = 0;

	if (!site || (site != own.site && site->login_count <= own.at_site))
		return NULL;
	LIST_EACH(node, &site->crowded) {
		const struct client_address *o = LIST_OBJECT(node, const struct client_address,
							     node);
		struct client *c = o->login_count > (site == own.site ? own.at_address : 0)
					   ? choose_at_address(o, fresh)
					   : NULL;

		if (c && o->login_count > most) {
			best = c;
			most = o->login_count;
		}
		seen += c != NULL;
		if (seen == EXAMINED_MOST)
			break;
	}
	return best;
}

/* Chooses among the logins that have been silent for longest: at the site with the most logins, and
   there at the address with the most. A login at a site with fewer logins than the new client's
   site is not chosen: an address with many logins could end the slow logins of other addresses.
   NULL: none. */
static struct client *choose_silent(const struct world *w, const struct client *fresh)
{
	struct crowd most = crowd_of(fresh);
	struct client *best = NULL;
	int seen = 0;

	LIST_EACH(node, &w->logins.addresses->waited_for) {
		struct client *c = LIST_OBJECT(node, struct login, waited_for_node)->client;
		const struct crowd its = crowd_of(c);
		int more;

		if (!is_silent(c) || seen == EXAMINED_MOST)
			break;
		if (!may_displace(c, fresh))
			continue;
		seen++;
		more = its.site == most.site ? its.at_address - most.at_address
					     : its.at_site - most.at_site;
		if (more < 0 || (best && more == 0))
			continue;
		best = c;
		most = its;
	}
	return best;
}

bool displace_login(struct client *fresh, enum close_reason why)
{
	const struct world *w = fresh->peer.world;
	const struct client_site *fullest = NULL;
	int seen = 0;
	struct client *c;

	if (refusals_hurry(fresh->peer.world->logins.addresses))
		return true;
	for (int i = CLIENT_ADDRESS_CROWDS - 1; i > 0 && !fullest; i--) {
		LIST_EACH(node, &w->logins.addresses->crowds[i]) {
			const struct client_site *site = LIST_OBJECT(node, struct client_site,
								     node);

			if (!fullest || site->login_count > fullest->login_count)
				fullest = site;
			if (++seen == EXAMINED_MOST)
				break;
		}
	}
	c = choose_at_site(fullest, fresh);
	if (!c)
		c = choose_at_site(crowd_of(fresh).site, fresh);
	if (!c)
		c = choose_silent(w, fresh);
	if (c)
		client_end(c, why, NULL);
	return c != NULL;
}

/* ---- the check of the world ---- */

static int length(const struct list *head)
{
	int count = 0;

	LIST_EACH(node, head)
		count++;
	return count;
}

void client_addresses_check(const struct world *w)
{
	const struct client_addresses *all = w->logins.addresses;
	int clients = 0, logins = 0, waited_for = 0, addresses = 0, listed = 0;

	LIST_EACH(node, &w->peers.clients)
		clients += LIST_OBJECT(node, struct client, peer.node)->login_facts.is_counted;
	for (const struct client_address *o = all->by_key; o; o = o->hh.next) {
		ASSERT(o->clients >= o->login_count && o->login_count >= o->refused &&
		       o->refused >= 0);
		ASSERT(o->login_count == length(&o->logins));
		ASSERT(o->administrators >= 0 && o->administrators <= o->clients);
		ASSERT(list_is_empty(&o->node) == (o->login_count == 0 || !o->is_bounded));
		LIST_EACH(node, &o->logins)
			waited_for += o->is_bounded &&
				      login_waits_for_client(LIST_OBJECT(node, const struct login,
									 address_node));
		clients -= o->clients;
		logins += o->is_bounded ? o->login_count : 0;
	}
	for (const struct client_site *site = all->sites; site; site = site->hh.next) {
		int of_site = 0;

		LIST_EACH(node, &site->crowded) {
			const struct client_address *o = LIST_OBJECT(
				node, const struct client_address, node);

			ASSERT(o->site == site && o->login_count > 0);
			of_site += o->login_count;
		}
		ASSERT(of_site == site->login_count &&
		       list_is_empty(&site->node) == (of_site == 0));
		addresses += site->addresses;
		listed += of_site > 0;
	}
	for (int i = 0; i < CLIENT_ADDRESS_CROWDS; i++) {
		LIST_EACH(node, &all->crowds[i]) {
			ASSERT(LIST_OBJECT(node, struct client_site, node)->login_count >= i);
			listed--;
		}
	}
	ASSERT(listed == 0 && addresses == (int)HASH_COUNT(all->by_key));
	ASSERT(clients == 0 && logins == all->login_count &&
	       waited_for == length(&all->waited_for));
}
