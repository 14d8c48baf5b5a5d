/*
 * Addresses that clients come from, and which login ends when there are too many.
 *
 * Every client that can reach the port can open connections and not log in. Each takes a descriptor and a place of
 * max_client_conn until client_login_timeout is over. So logins in progress are bounded, and the bound must not be a
 * means to keep other clients out. The login that ends is therefore chosen by address: all states before authentication count alike,
 * whether the client is silent, or waits for a look-up, a verifier or the refusal of its login. If one address has more
 * logins in progress than the address of the newcomer, one of its logins ends. It is the one with the client that
 * has kept pgweir waiting for longest, if that is more than a second, and otherwise the youngest: those before it are nearer to their end.
 *
 * If no address has more than the newcomer's, the newcomer is refused, unless a client of an address with as many has been silent for
 * more than a second: a crowd that logs in from one address, as after a restart of an application, is served in order and does not throw itself out.
 *
 * Invariant: the counts of an address are those of the clients of its address; it is freed with the last of them. It is on
 * the list of its login_count.
 */
#include "auth/client_address.h"

#include "auth/login_state.h"
#include "auth/refusal.h"
#include "base/assert.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOKED_AT 16			/* candidates of one list, each of which can end */
#define SILENT_MOST USEC

/* ---- addresses ---- */

/* The first 64 bits of an IPv6 address belong to a network of one host or site: not of ::1, nor of link-local addresses (fe80::/10). */
static bool has_network(const uint8_t ip[16])
{
	static const uint8_t zeros[8];

	return memcmp(ip, zeros, sizeof(zeros)) != 0 && !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
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
		memcpy(key->bytes, &a->u.peer.uid, sizeof(a->u.peer.uid));
		return;
	}
}

const char *client_address_text(const struct address_key *key, char *buf, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "?";
	uint32_t uid;

	if (key->family != AF_UNIX) {
		inet_ntop(key->family, key->bytes, ip, sizeof(ip));
		snprintf(buf, size, "%s%s", ip, key->family == AF_INET6 && has_network(key->bytes) ? "/64" : "");
		return buf;
	}
	memcpy(&uid, key->bytes, sizeof(uid));
	snprintf(buf, size, "unix:%u", (unsigned)uid);
	return buf;
}

/* Trusted: root and the user of pgweir, which can end it anyway. Any other user of the system is an unauthenticated client, like one of the
   network. */
static bool is_trusted(const struct address_key *key)
{
	uint32_t uid;

	memcpy(&uid, key->bytes, sizeof(uid));
	return key->family == AF_UNIX && (uid == 0 || uid == (uint32_t)geteuid());
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

static struct client_address *client_address_new(struct client_addresses *all, const struct address_key *key)
{
	struct client_address *o = mem_try(sizeof(*o));

	if (!o)
		return NULL;
	o->key = *key;
	o->is_bounded = !is_trusted(key);
	list_init(&o->logins);
	list_init(&o->node);
	HASH_ADD(hh, all->by_key, key, sizeof(o->key), o);
	if (HASH_HAS(hh, o))
		return o;
	mem_free(o);
	return NULL;
}

static void count_login(struct client_addresses *all, struct client_address *o, int change)
{
	o->login_count += change;
	if (!o->is_bounded)
		return;
	all->login_count += change;
	list_remove(&o->node);
	if (o->login_count > 0)
		list_append(&all->crowds[o->login_count < CLIENT_ADDRESS_CROWDS ? o->login_count : CLIENT_ADDRESS_CROWDS - 1], &o->node);
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
	mem_free(o);
}

static int length(const struct list *head)
{
	int count = 0;

	LIST_EACH(node, head)
		count++;
	return count;
}

void client_addresses_check(const struct world *w)
{
	const struct client_addresses *all = w->addresses;
	int clients = 0, logins = 0, listed = 0, waited_for = 0;

	LIST_EACH(node, &w->clients)
		clients += LIST_OBJECT(node, struct client, peer.node)->is_counted;
	for (const struct client_address *o = all->by_key; o; o = o->hh.next) {
		ASSERT(o->clients >= o->login_count && o->login_count >= o->refused && o->refused >= 0);
		ASSERT(o->login_count == length(&o->logins));
		ASSERT(o->administrators >= 0 && o->administrators <= o->clients);
		ASSERT(list_is_empty(&o->node) == (o->login_count == 0 || !o->is_bounded));
		clients -= o->clients;
		logins += o->is_bounded ? o->login_count : 0;
		listed += !list_is_empty(&o->node);
		LIST_EACH(node, &o->logins)
			waited_for += o->is_bounded && login_step_waits_for_client(LIST_OBJECT(node, const struct login, address_node)->step);
	}
	for (int i = 0; i < CLIENT_ADDRESS_CROWDS; i++) {
		LIST_EACH(node, &all->crowds[i]) {
			ASSERT(LIST_OBJECT(node, struct client_address, node)->login_count >= i);
			listed--;
		}
	}
	ASSERT(clients == 0 && listed == 0 && logins == all->login_count && waited_for == length(&all->waited_for));
}

/* ---- what is allowed ---- */

bool client_address_may_have(const struct client *c, bool names_console)
{
	int64_t most = c->peer.world->conf->settings.max_client_conn_per_ip;
	const struct client_address *o = most > 0 ? client_address_of(c) : NULL;

	if (!o || o->key.family == AF_UNIX)
		return true;
	return names_console ? o->clients - o->administrators <= most + 1 : o->clients <= most;
}

void client_address_is_administrator(struct client *c)
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

/* Its client is the one that is waited for, and has been for long. */
static bool is_silent(const struct client *c)
{
	return login_step_waits_for_client(c->login->step) && c->peer.world->now - c->login->step_since >= SILENT_MOST;
}

/* How many of its address are logging in, itself included; 0 without a bound. */
static int logins_beside(const struct client *c)
{
	const struct client_address *o = client_address_of(c);

	return o && o->is_bounded ? o->login_count : 0;
}

/* The address with most logins in progress; NULL: there is none. */
static struct client_address *fullest(const struct client_addresses *all)
{
	struct client_address *most = NULL;
	int seen = 0;

	for (int i = CLIENT_ADDRESS_CROWDS - 1; i > 0 && !most; i--) {
		LIST_EACH(node, &all->crowds[i]) {
			struct client_address *o = LIST_OBJECT(node, struct client_address, node);

			if (!most || o->login_count > most->login_count)
				most = o;
			if (++seen == LOOKED_AT)
				break;
		}
	}
	return most;
}

/* The login of this address that is to end for the newcomer's sake. */
static struct client *dispensable(const struct client_address *o, const struct client *newcomer)
{
	struct client *youngest = NULL;
	int seen = 0;

	LIST_EACH(node, &o->logins) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		if (c != newcomer && !peer_is_stopped(&c->peer) && is_silent(c))
			return c;
		if (++seen == LOOKED_AT)
			break;
	}
	for (struct list *node = o->logins.prev; node != &o->logins && !youngest; node = node->prev) {
		struct client *c = LIST_OBJECT(node, struct login, address_node)->client;

		youngest = c != newcomer && !peer_is_stopped(&c->peer) ? c : NULL;
	}
	return youngest;
}

/* Of those with clients that have been silent for longest, one of the address with most logins; NULL: none. One from an address with
   fewer logins than the newcomer's stays: else an address with many could end slow logins of others one by one. */
static struct client *silent_one(const struct world *w, const struct client *newcomer)
{
	struct client *best = NULL;
	int seen = 0;

	LIST_EACH(node, &w->addresses->waited_for) {
		struct client *c = LIST_OBJECT(node, struct login, waited_for_node)->client;

		if (!is_silent(c) || seen == LOOKED_AT)
			break;
		if (c == newcomer || peer_is_stopped(&c->peer))
			continue;
		seen++;
		if (logins_beside(c) >= logins_beside(newcomer) && (!best || logins_beside(c) > logins_beside(best)))
			best = c;
	}
	return best;
}

bool client_address_make_room(struct client *newcomer, int why)
{
	const struct world *w = newcomer->peer.world;
	const struct client_address *most = fullest(w->addresses);
	struct client *c = NULL;

	if (refusals_hurry(newcomer->peer.world->refusals))
		return true;
	if (most && most->login_count > logins_beside(newcomer))
		c = dispensable(most, newcomer);
	if (!c && !(c = silent_one(w, newcomer)))
		return false;
	client_end(c, (enum close_reason)why, NULL);
	return true;
}
