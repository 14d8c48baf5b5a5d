/*
 * Addresses that clients come from, and the sites that they belong to.
 *
 * Every client that can reach the port can open connections and not log in. Therefore connections and logins in progress are counted for
 * each address; displace.c decides which login ends when there are too many of them.
 *
 * Invariant: the counts of an address are the sums over its clients; the address is freed with its last client, and a site with its last
 * address. A site is on the list for its login_count, and an address with logins is on the list of its site.
 */
#include "auth/client_address.h"

#include "auth/login_state.h"
#include "base/assert.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- addresses ---- */

static bool is_link_local(const uint8_t ip[16])
{
	return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

/* The first 64 bits of an IPv6 address belong to a network of one host or site: not of ::1, nor of link-local addresses (fe80::/10). */
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
	return (uint32_t)key->bytes[0] << 24 | (uint32_t)key->bytes[1] << 16 | (uint32_t)key->bytes[2] << 8 | key->bytes[3];
}

#define SITE_OF_NETWORK 6		/* a /48 network */
#define SITE_OF_LINK 8			/* any host of the link may have any number of these */
#define SITE_OF_UIDS 2			/* 65,536 of them */

size_t address_site(const struct address_key *key)
{
	if (key->family == AF_INET6 && has_network(key->bytes))
		return SITE_OF_NETWORK;
	if (key->family == AF_INET6 && is_link_local(key->bytes))
		return SITE_OF_LINK;
	return key->family == AF_UNIX && uid_of(key) > UINT16_MAX ? SITE_OF_UIDS : 0;
}

const char *client_address_text(const struct address_key *key, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (key->family != AF_UNIX) {
		inet_ntop(key->family, key->bytes, ip, sizeof(ip));
		snprintf(buf, size, "%s%s", ip, key->family == AF_INET6 && has_network(key->bytes) ? "/64" : "");
		return buf;
	}
	snprintf(buf, size, "unix:%u", (unsigned)uid_of(key));
	return buf;
}

/* Trusted: root and the user of pgweir, which can end it anyway. Any other user of the system is an unauthenticated client, like one of the
   network. */
static bool is_trusted(const struct address_key *key)
{
	return key->family == AF_UNIX && (uid_of(key) == 0 || uid_of(key) == (uint32_t)geteuid());
}

/* ---- counting ---- */

struct client_addresses *client_addresses_new(void)
{
	struct client_addresses *all = mem_try(sizeof(*all));

	if (!all)
		return NULL;
	list_init(&all->waited_for);
	for (int i = 0; i < CLIENT_ADDRESS_CROWDS; i++)
		list_init(&all->crowds[i]);
	return all;
}

/* Looked up rather than pointed to: a pointer would be 16 bytes of every idle client. */
static struct client_address *find(const struct client *c, struct address_key *key)
{
	struct client_address *o;

	address_key_of(key, &c->peer.remote);
	HASH_FIND(hh, c->peer.world->addresses->by_key, key, sizeof(*key), o);
	return o;
}

void client_addresses_each(const struct client_addresses *all, void (*give)(void *context, const struct client_address *one), void *context)
{
	for (const struct client_address *o = all->by_key; o; o = o->hh.next)
		give(context, o);
}

bool client_addresses_has(const struct client_addresses *all, const struct address_key *key)
{
	const struct client_address *o;

	HASH_FIND(hh, all->by_key, key, sizeof(*key), o);
	return o != NULL;
}

struct client_address *client_address_of(const struct client *c)
{
	struct address_key key;

	return c->is_counted ? find(c, &key) : NULL;
}

/* With one address more. NULL: no memory. */
static struct client_site *site_get(struct client_addresses *all, const struct address_key *of)
{
	struct address_key key = *of;
	struct client_site *site;

	if (address_site(of) > 0)
		memset(key.bytes + address_site(of), 0, sizeof(key.bytes) - address_site(of));
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

static void site_drop(struct client_addresses *all, struct client_site *site)
{
	if (--site->addresses > 0)
		return;
	HASH_DEL(all->sites, site);
	mem_free(site);
}

static struct client_address *client_address_new(struct client_addresses *all, const struct address_key *key)
{
	struct client_address *o = mem_try(sizeof(*o));

	if (!o)
		return NULL;
	o->key = *key;
	o->is_bounded = !is_trusted(key);
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
		list_append(&all->crowds[site->login_count < CLIENT_ADDRESS_CROWDS ? site->login_count : CLIENT_ADDRESS_CROWDS - 1], &site->node);
}

bool client_address_enter(struct client *c)
{
	struct client_addresses *all = c->peer.world->addresses;
	struct address_key key;
	struct client_address *o = find(c, &key);

	if (!o && !(o = client_address_new(all, &key)))
		return false;
	o->clients++;
	o->administrators += c->is_admin;
	c->is_counted = true;
	if (!c->login)
		return true;
	c->login->address = o;
	list_append(&o->logins, &c->login->address_node);
	count_login(all, o, +1);
	c->login->step_since = c->peer.world->now;
	client_address_login_stepped(c);
	return true;
}

void client_address_login_stepped(struct client *c)
{
	struct login *l = c->login;

	list_remove(&l->waited_for_node);
	if (l->address && l->address->is_bounded && login_step_waits_for_client(l->step))
		list_append(&c->peer.world->addresses->waited_for, &l->waited_for_node);
}

bool client_address_has_login(const struct client *c)
{
	return c->login && c->login->address;
}

void client_address_login_over(struct client *c)
{
	if (!client_address_has_login(c))
		return;
	list_remove(&c->login->address_node);
	list_remove(&c->login->waited_for_node);
	count_login(c->peer.world->addresses, c->login->address, -1);
	c->login->address = NULL;
}

void client_address_leave(struct client *c)
{
	struct client_address *o = client_address_of(c);

	if (!o)
		return;
	client_address_login_over(c);
	c->is_counted = false;
	o->administrators -= c->is_admin;
	if (--o->clients > 0)
		return;
	HASH_DEL(c->peer.world->addresses->by_key, o);
	site_drop(c->peer.world->addresses, o->site);
	mem_free(o);
}

static int length(const struct list *head)
{
	int count = 0;

	LIST_EACH(node, head)
		count++;
	return count;
}

/* Returns how many clients of it are waited for. */
static int check_address(const struct client_address *o)
{
	int waited_for = 0;

	ASSERT(o->clients >= o->login_count && o->login_count >= o->refused && o->refused >= 0);
	ASSERT(o->login_count == length(&o->logins));
	ASSERT(o->administrators >= 0 && o->administrators <= o->clients);
	ASSERT(list_is_empty(&o->node) == (o->login_count == 0 || !o->is_bounded));
	LIST_EACH(node, &o->logins)
		waited_for += o->is_bounded && login_step_waits_for_client(LIST_OBJECT(node, const struct login, address_node)->step);
	return waited_for;
}

static void check_sites(const struct client_addresses *all)
{
	int addresses = 0, listed = 0;

	for (const struct client_site *site = all->sites; site; site = site->hh.next) {
		int logins = 0;

		LIST_EACH(node, &site->crowded) {
			const struct client_address *o = LIST_OBJECT(node, const struct client_address, node);

			ASSERT(o->site == site && o->login_count > 0);
			logins += o->login_count;
		}
		ASSERT(logins == site->login_count && list_is_empty(&site->node) == (logins == 0));
		addresses += site->addresses;
		listed += logins > 0;
	}
	for (int i = 0; i < CLIENT_ADDRESS_CROWDS; i++) {
		LIST_EACH(node, &all->crowds[i]) {
			ASSERT(LIST_OBJECT(node, struct client_site, node)->login_count >= i);
			listed--;
		}
	}
	ASSERT(listed == 0 && addresses == (int)HASH_COUNT(all->by_key));
}

void client_addresses_check(const struct world *w)
{
	const struct client_addresses *all = w->addresses;
	int clients = 0, logins = 0, waited_for = 0;

	LIST_EACH(node, &w->clients)
		clients += LIST_OBJECT(node, struct client, peer.node)->is_counted;
	for (const struct client_address *o = all->by_key; o; o = o->hh.next) {
		waited_for += check_address(o);
		clients -= o->clients;
		logins += o->is_bounded ? o->login_count : 0;
	}
	check_sites(all);
	ASSERT(clients == 0 && logins == all->login_count && waited_for == length(&all->waited_for));
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

	if (o && !c->is_admin)
		o->administrators++;
	c->is_admin = true;
}

bool client_address_is_crowded(const struct world *w)
{
	const struct settings *set = &w->conf->settings;

	return w->addresses->login_count > (set->max_login_clients > 0 ? set->max_login_clients : set->max_client_conn);
}
