/*
 * Hosts of a list, in the order in which a dial tries them.
 *
 * With load_balance_hosts=round-robin each dial begins with the next host, so that connections spread; with
 * disable each begins with the host that worked last, and another one's turn comes when that one fails. In
 * both, a host that was found not to work less than server_login_retry ago is tried after all others: one
 * that is dead costs a dial its time only once in a while, but is found when it is back, or when nothing
 * else works either. So are the addresses of a name, as far as a short memory goes.
 *
 * All pools share the result of connecting to a host (struct host). The result of a login belongs to the pool, because it may concern
 * one user or database: a role with too many connections must not mark a host as down for others.
 *
 * Invariant: a dial tries every host once. Places in the list are checked against the list each time,
 * because a RELOAD may shorten it while a dial is under way.
 */
#include "backend/hosts.h"

#include "backend/dial.h"
#include "base/mem.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define DEAD_MOST 16

struct host_place {
	struct host *host;		/* held */
	usec_t failed_at;		/* a login of this pool failed there then; 0: it works, or was not tried */
};

struct dead_address {
	struct brief_address address;
	usec_t since;
};

/* ---- hosts that pools share ---- */

#define PORT_MOST 16		/* digits of a port, and the colon before them */

struct host *host_hold(struct host **table, const char *name, int port)
{
	size_t size = strlen(name) + PORT_MOST, length;
	struct host *made = mem_try(sizeof(*made) + size), *host;

	if (!made)
		return NULL;
	length = (size_t)snprintf(made->key, size, "%s:%d", name, port);
	HASH_FIND(hh, *table, made->key, length, host);
	if (host) {
		mem_free(made);
	} else {
		host = made;
		host->table = table;
		HASH_ADD_KEYPTR(hh, *table, host->key, length, host);
		if (!HASH_HAS(hh, host)) {
			mem_free(host);
			return NULL;
		}
	}
	host->users++;
	return host;
}

void host_drop(struct host **place)
{
	struct host *host = *place;

	*place = NULL;
	if (!host || --host->users > 0)
		return;
	HASH_DELETE(hh, *host->table, host);
	mem_free(host);
}

/* ---- the list of a pool ---- */

static const char *name_of(const struct server *s, const struct conf_host *host)
{
	const char *sockets = s->peer.world->conf->settings.unix_socket_dir;

	return host->name ? host->name : sockets ? sockets : "/tmp";
}

static struct hosts *hosts_of(const struct server *s)
{
	struct server_info *info = s->pooled.pool->server_cache;

	/* of a pool that has been given another list meanwhile nothing is learned */
	return info && s->dial->generation == s->pooled.pool->generation ? &info->hosts : NULL;
}

void hosts_clear(struct hosts *hosts)
{
	for (unsigned i = 0; i < hosts->count; i++)
		host_drop(&hosts->places[i].host);
	mem_free(hosts->places);
	mem_free(hosts->dead);
	*hosts = (struct hosts){ .count = 0 };
}

/* Sets the places of the list, unless they are set. */
static bool make_places(struct hosts *hosts, const struct server *s)
{
	const struct conf_database *conf = s->pooled.pool->database->conf;

	if (hosts->count == conf->host_count)
		return true;
	hosts_clear(hosts);
	hosts->places = mem_try(conf->host_count * sizeof(*hosts->places));
	for (; hosts->places && hosts->count < conf->host_count; hosts->count++) {
		const struct conf_host *host = &conf->hosts[hosts->count];

		hosts->places[hosts->count].host = host_hold(&s->pooled.pool->pools->hosts, name_of(s, host), host->port);
		if (!hosts->places[hosts->count].host)
			break;
	}
	if (hosts->count == conf->host_count)
		return true;
	hosts_clear(hosts);
	return false;
}

/* Puts the host in the order's present place into dial->host. False: the list has become shorter. */
static bool take(struct server *s)
{
	const struct conf_database *conf = s->pooled.pool->database->conf;
	struct dial *d = s->dial;
	unsigned at = d->order[d->order_at];

	if (at >= conf->host_count)
		return false;
	text_copy(d->host, sizeof(d->host), name_of(s, &conf->hosts[at]));
	d->port = conf->hosts[at].port;
	d->is_reached = false;
	return true;
}

/* Whether a failure was less than server_login_retry ago. */
static bool is_recent(const struct server *s, usec_t failed_at)
{
	const struct world *w = s->peer.world;

	return failed_at > 0 && w->now - failed_at < w->conf->settings.server_login_retry;
}

static bool does_not_work(const struct server *s, const struct host_place *place)
{
	return is_recent(s, place->failed_at) || is_recent(s, place->host->unreachable_since);
}

bool hosts_begin(struct server *s)
{
	struct dial *d = s->dial;
	unsigned count = s->pooled.pool->database->conf->host_count, found = 0;
	struct hosts *hosts = hosts_of(s);

	d->order = mem_try(count * sizeof(*d->order));
	if (!hosts || !d->order || !make_places(hosts, s))
		return false;
	for (int dead = 0; dead < 2; dead++) {
		for (unsigned i = 0; i < count; i++) {
			unsigned at = (hosts->next + i) % count;

			if (does_not_work(s, &hosts->places[at]) == dead)
				d->order[found++] = at;
		}
	}
	d->order_count = count;
	if (s->pooled.pool->database->conf->load_balance_hosts == BALANCE_ROUND_ROBIN)
		hosts->next = (d->order[0] + 1) % count;
	return take(s);
}

unsigned hosts_left(const struct server *s)
{
	const struct dial *d = s->dial;

	return d->order_count > 0 ? d->order_count - 1 - d->order_at : 0;
}

bool hosts_next(struct server *s)
{
	if (hosts_left(s) == 0 || s->dial->generation != s->pooled.pool->generation)
		return false;
	s->dial->order_at++;
	return take(s);
}

void hosts_note_reached(struct server *s)
{
	struct dial *d = s->dial;
	struct hosts *hosts = d->order ? hosts_of(s) : NULL;

	d->is_reached = true;
	if (hosts && d->order[d->order_at] < hosts->count)
		hosts->places[d->order[d->order_at]].host->unreachable_since = 0;
}

void hosts_note(struct server *s, bool works)
{
	struct dial *d = s->dial;
	struct hosts *hosts = d->order ? hosts_of(s) : NULL;
	unsigned at = hosts ? d->order[d->order_at] : 0;

	if (!hosts || at >= hosts->count)
		return;
	hosts->places[at].failed_at = works ? 0 : s->peer.world->now;
	if (!d->is_reached)
		hosts->places[at].host->unreachable_since = works ? 0 : s->peer.world->now;
	if (s->pooled.pool->database->conf->load_balance_hosts == BALANCE_DISABLE) {
		if (works)
			hosts->next = at;
		else if (hosts->next == at)
			hosts->next = (at + 1) % hosts->count;
	}
}

static struct dead_address *find_dead(const struct hosts *hosts, const struct brief_address *address)
{
	for (int i = 0; hosts->dead && i < DEAD_MOST; i++) {
		const struct brief_address *dead = &hosts->dead[i].address;

		if (dead->family == address->family && dead->port == address->port &&
		    memcmp(dead->u.ip, address->u.ip, sizeof(dead->u.ip)) == 0)
			return &hosts->dead[i];
	}
	return NULL;
}

static struct dead_address *longest_dead(const struct hosts *hosts)
{
	struct dead_address *oldest = hosts->dead;

	for (int i = 1; i < DEAD_MOST; i++)
		if (hosts->dead[i].since < oldest->since)
			oldest = &hosts->dead[i];
	return oldest;
}

bool hosts_note_address(struct server *s, bool works)
{
	struct hosts *hosts = s->dial->order ? hosts_of(s) : NULL;
	struct dead_address *dead;
	bool was_dead;

	if (!hosts)
		return true;
	dead = find_dead(hosts, &s->peer.remote);
	was_dead = dead && dead->since > 0;
	if (!dead && !works) {
		/* without memory for it, it is only tried again earlier */
		if (!hosts->dead)
			hosts->dead = mem_try(DEAD_MOST * sizeof(*hosts->dead));
		dead = hosts->dead ? longest_dead(hosts) : NULL;
	}
	if (dead)
		*dead = (struct dead_address){ s->peer.remote, works ? 0 : s->peer.world->now };
	return was_dead == works;
}

void hosts_order_addresses(struct server *s)
{
	struct dial *d = s->dial;
	const struct hosts *hosts = d->order ? hosts_of(s) : NULL;
	int end = d->address_count;

	/* each is looked at once; those that stay keep their order */
	for (int i = 0; hosts && hosts->dead && i < end;) {
		struct address address = d->addresses[i];
		struct brief_address brief;
		const struct dead_address *dead;

		brief_address_of(&brief, &address, (uint16_t)d->port);
		dead = find_dead(hosts, &brief);
		if (!dead || !is_recent(s, dead->since)) {
			i++;
			continue;
		}
		memmove(&d->addresses[i], &d->addresses[i + 1], (size_t)(d->address_count - i - 1) * sizeof(address));
		d->addresses[d->address_count - 1] = address;
		end--;
	}
}
