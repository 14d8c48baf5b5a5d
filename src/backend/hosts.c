/*
 * The hosts of a database, in the order in which a dial tries them.
 *
 * With load_balance_hosts=round-robin each dial begins with the next host, so that connections are distributed; with disable each dial begins with
 * the host that worked last, and with the next host after a failure. In both cases a host that has failed within server_login_retry is tried after
 * all others: it delays few dials, but is used again when it works, or when no other host works. Addresses of a name are treated in the same way;
 * the last DEAD_MOST failed addresses are remembered.
 *
 * All pools share the result of connecting to a host (struct host). The result of a login belongs to the pool, because it may concern one user or
 * database: a user with too many connections must not mark a host as down for others.
 *
 * Invariant: a dial tries every host once. Places in the list are compared with the list each time, because a RELOAD may shorten it during a dial.
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
	usec_t failed_at;		/* time of the last failed login of this pool; 0: it works, or was not tried */
};

struct dead_address {
	struct brief_address address;
	usec_t since;
};

/* ---- hosts that pools share ---- */

#define PORT_MOST 16		/* digits of a port, and the colon before them */

/* Returns the host with this name and port, and adds a reference. NULL: no memory. */
static struct host *host_hold(struct host **table, const char *name, int port)
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

/* ---- the list of a pool ---- */

static const char *name_of(const struct server *s, const struct conf_host *host)
{
	const char *sockets = s->peer.world->conf->settings.unix_socket_dir;

	return host->name ? host->name : sockets ? sockets : "/tmp";
}

static struct hosts *hosts_of(const struct server *s)
{
	struct server_info *info = s->pooled.pool->server_cache;

	/* a RELOAD may have given the pool another list */
	return info && s->dial->generation == s->pooled.pool->generation ? &info->hosts : NULL;
}

void hosts_clear(struct hosts *hosts)
{
	for (unsigned i = 0; i < hosts->count; i++) {
		struct host *host = hosts->places[i].host;

		if (--host->users > 0)
			continue;
		HASH_DELETE(hh, *host->table, host);
		mem_free(host);
	}
	mem_free(hosts->places);
	mem_free(hosts->dead);
	*hosts = (struct hosts){ .count = 0 };
}

/* Copies the host at the present place of the order to dial->host. False: the list has become shorter. */
static bool use_host(struct server *s)
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

bool hosts_begin(struct server *s)
{
	struct dial *d = s->dial;
	const struct conf_database *conf = s->pooled.pool->database->conf;
	unsigned count = conf->host_count, found = 0;
	struct hosts *hosts = hosts_of(s);

	d->order = mem_try(count * sizeof(*d->order));
	if (!hosts || !d->order)
		return false;
	/* the first dial of the pool makes the places */
	if (hosts->count != count) {
		hosts_clear(hosts);
		hosts->places = mem_try(count * sizeof(*hosts->places));
		for (; hosts->places && hosts->count < count; hosts->count++) {
			const struct conf_host *host = &conf->hosts[hosts->count];

			hosts->places[hosts->count].host = host_hold(&s->pooled.pool->pools->hosts, name_of(s, host), host->port);
			if (!hosts->places[hosts->count].host)
				break;
		}
		if (hosts->count != count) {
			hosts_clear(hosts);
			return false;
		}
	}
	for (int dead = 0; dead < 2; dead++) {
		for (unsigned i = 0; i < count; i++) {
			unsigned at = (hosts->next + i) % count;
			const struct host_place *place = &hosts->places[at];

			if ((is_recent(s, place->failed_at) || is_recent(s, place->host->unreachable_since)) == dead)
				d->order[found++] = at;
		}
	}
	d->order_count = count;
	if (conf->load_balance_hosts == BALANCE_ROUND_ROBIN)
		hosts->next = (d->order[0] + 1) % count;
	return use_host(s);
}

bool hosts_next(struct server *s)
{
	if (hosts_left(s) == 0 || s->dial->generation != s->pooled.pool->generation)
		return false;
	s->dial->order_at++;
	return use_host(s);
}

void hosts_note(struct server *s, enum host_note note)
{
	struct dial *d = s->dial;
	struct hosts *hosts = d->order ? hosts_of(s) : NULL;
	unsigned at = hosts ? d->order[d->order_at] : 0;
	bool works = note == HOST_WORKS;

	d->is_reached |= note == HOST_REACHED;
	if (!hosts || at >= hosts->count)
		return;
	if (note == HOST_REACHED) {
		hosts->places[at].host->unreachable_since = 0;
		return;
	}
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
		/* without memory the address is only tried again earlier; otherwise it replaces the oldest entry */
		if (!hosts->dead)
			hosts->dead = mem_try(DEAD_MOST * sizeof(*hosts->dead));
		dead = hosts->dead;
		for (int i = 1; dead && i < DEAD_MOST; i++)
			if (hosts->dead[i].since < dead->since)
				dead = &hosts->dead[i];
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

	/* each address is examined once; working addresses keep their order */
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
