/*
 * Where clients come from, and whose login ends when there are too many.
 *
 * Whoever can reach the port can open connections and say nothing. Each takes a descriptor, and a place of max_client_conn, until
 * client_login_timeout is over; so strangers are bounded, and the bound must not be a means to keep others out. Who has to go
 * is therefore chosen by address: a login in progress takes milliseconds, and those that are at it longest are mostly those that will
 * never end. Of the longest ones, that of the address with most of them goes, if that are more than the newcomer's address has, or
 * if its client has been silent for long. When it has not, the newcomer is refused: a crowd that logs in from one address, as
 * after a restart of an application, is served in order, and does not throw itself out.
 *
 * Invariant: the counts of an origin are those of the clients of its address; it is freed with the last of them.
 */
#include "session/origin.h"

#include "base/assert.h"
#include "session/login.h"
#include "session/refusal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define LOOKED_AT 16			/* logins, of those that have lasted longest */
#define SILENT_MOST USEC

/* ---- addresses ---- */

void origin_key_of(struct origin_key *key, const struct brief_address *a)
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
		memcpy(key->bytes, a->u.ip, sizeof(key->bytes));
		return;
	case AF_UNIX:
		memcpy(key->bytes, &a->u.peer.uid, sizeof(a->u.peer.uid));
		return;
	}
}

const char *origin_text(const struct origin_key *key, char *buf, size_t size)
{
	uint32_t uid;

	if (key->family != AF_UNIX) {
		if (!inet_ntop(key->family, key->bytes, buf, (socklen_t)size))
			snprintf(buf, size, "?");
		return buf;
	}
	memcpy(&uid, key->bytes, sizeof(uid));
	snprintf(buf, size, "unix:%u", (unsigned)uid);
	return buf;
}

static bool is_bounded(const struct origin *o)
{
	return o && o->key.family != AF_UNIX;
}

/* ---- counting ---- */

/* Looked up rather than pointed to: a pointer would be 16 bytes of every idle client. */
static struct origin *find(const struct client *c, struct origin_key *key)
{
	struct origin *o;

	origin_key_of(key, &c->peer.remote);
	HASH_FIND(hh, c->peer.world->origins, key, sizeof(*key), o);
	return o;
}

struct origin *origin_of(const struct client *c)
{
	struct origin_key key;

	return c->is_counted ? find(c, &key) : NULL;
}

static struct origin *origin_new(struct world *w, const struct origin_key *key)
{
	struct origin *o = mem_try(sizeof(*o));

	if (!o)
		return NULL;
	o->key = *key;
	HASH_ADD(hh, w->origins, key, sizeof(o->key), o);
	if (HASH_HAS(hh, o))
		return o;
	mem_free(o);
	return NULL;
}

bool origin_enter(struct client *c)
{
	struct world *w = c->peer.world;
	struct origin_key key;
	struct origin *o = find(c, &key);

	if (!o && !(o = origin_new(w, &key)))
		return false;
	o->clients++;
	o->strangers++;
	w->strangers += is_bounded(o);
	c->is_counted = c->is_stranger = true;
	return true;
}

static void stranger_no_more(struct client *c, struct origin *o)
{
	if (!c->is_stranger)
		return;
	c->is_stranger = false;
	o->strangers--;
	c->peer.world->strangers -= is_bounded(o);
}

void origin_proven(struct client *c)
{
	if (c->is_stranger)
		stranger_no_more(c, origin_of(c));
}

void origin_leave(struct client *c)
{
	struct origin *o = origin_of(c);

	if (!o)
		return;
	stranger_no_more(c, o);
	c->is_counted = false;
	if (--o->clients > 0)
		return;
	HASH_DEL(c->peer.world->origins, o);
	mem_free(o);
}

void origins_check(const struct world *w)
{
	int clients = 0, strangers = 0, bounded = 0;

	LIST_EACH(node, &w->clients) {
		const struct client *c = LIST_OBJECT(node, struct client, peer.node);

		ASSERT(!c->is_stranger || c->is_counted);
		clients += c->is_counted;
		strangers += c->is_stranger;
		bounded += c->is_stranger && c->peer.remote.family != AF_UNIX;
	}
	for (const struct origin *o = w->origins; o; o = o->hh.next) {
		ASSERT(o->clients > 0 && o->strangers >= o->refused && o->refused >= 0);
		clients -= o->clients;
		strangers -= o->strangers;
	}
	ASSERT(clients == 0 && strangers == 0 && bounded == w->strangers);
}

/* ---- what is allowed ---- */

bool origin_may_have(const struct client *c)
{
	int64_t most = c->peer.world->conf->settings.max_client_conn_per_ip;
	const struct origin *o = most > 0 ? origin_of(c) : NULL;

	return !is_bounded(o) || o->clients <= most;
}

bool origin_is_crowded(const struct world *w)
{
	const struct settings *set = &w->conf->settings;

	return w->strangers > (set->max_login_clients > 0 ? set->max_login_clients : set->max_client_conn);
}

/* Its client is the one that is waited for. A look-up or a verifier has its own time. */
static bool is_silent(const struct client *c)
{
	switch (c->login->step) {
	case LOGIN_PACKET: case LOGIN_TLS: case LOGIN_PASSWORD: case LOGIN_SASL_FIRST: case LOGIN_SASL_FINAL:
		return true;
	case LOGIN_LOOKUP: case LOGIN_VERIFY: case LOGIN_REFUSED: case LOGIN_PROVEN:
		return false;
	}
	return false;
}

/* How many of its address are logging in, itself included; 0 for Unix sockets, which have no bound. */
static int strangers_beside(const struct client *c)
{
	const struct origin *o = origin_of(c);

	return is_bounded(o) ? o->strangers : 0;
}

/* The better candidate to go: `best` so far (NULL: none), or one of those that have been in this state longest. */
static struct client *weigh(const struct world *w, enum client_state state, const struct client *newcomer, struct client *best)
{
	int seen = 0;

	LIST_EACH(node, &w->pools->strangers[state]) {
		struct client *c = client_of(LIST_OBJECT(node, struct pool_client, node));

		if (seen++ == LOOKED_AT)
			break;
		if (c == newcomer || strangers_beside(c) == 0 || !is_silent(c))
			continue;
		if (!best || strangers_beside(c) > strangers_beside(best))
			best = c;
	}
	return best;
}

bool origin_make_room(struct client *newcomer, int why)
{
	const struct world *w = newcomer->peer.world;
	int own = strangers_beside(newcomer);
	struct client *c;

	if (refusals_hurry(newcomer->peer.world))
		return true;
	c = weigh(w, CLIENT_STARTUP, newcomer, NULL);
	c = weigh(w, CLIENT_AUTH, newcomer, c);
	if (!c || (strangers_beside(c) <= own && w->now - c->login_since < SILENT_MOST))
		return false;
	client_end(c, (enum goodbye)why, NULL);
	return true;
}
