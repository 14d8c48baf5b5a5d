/*
 * The choice of a host for a client with a role (pool/role.h).
 *
 * A client stays with the host that it has, and with the standby that it had, as long as they suit. Otherwise the client gets the better of two random
 * hosts by use and weight, or as load_balance_hosts says. Use is the number of clients with a server or in the queue, of the same database and user.
 *
 * A host that becomes suitable, for example after a restart with cold caches, gets a tenth of its share of these choices in the first second, two tenths
 * in the second, and so on. Clients of other hosts are not moved at once; for a minute, one in SETTLE_ONE_IN of their transactions chooses again.
 * Server connections stay where they are, and leave by server_idle_timeout.
 *
 * Only failed connects and checks, and max_lag, make a host unsuitable: a client waits for a server of a full pool.
 */
#include "pool/freshness.h"
#include "pool/inside.h"
#include "pool/role.h"

#define SLOW_START 10			/* seconds */
#define SETTLE (60 * USEC)
#define SETTLE_ONE_IN 16

/* How busy the pool at the host is. */
static int use_of(const struct pool *home, const struct host *host)
{
	const struct pool *pool = pool_find_at(home, host);

	return pool ? pool->server_count[SERVER_ACTIVE] + pool->client_count[CLIENT_WAITING] : 0;
}

/* Whether host `a` is less busy than `b` in relation to their weights. */
static bool is_better(const struct pool *home, const struct role_place *a, const struct role_place *b)
{
	return (int64_t)(use_of(home, a->host) + 1) * b->weight < (int64_t)(use_of(home, b->host) + 1) * a->weight;
}

static unsigned draw(struct pools *pools, unsigned below)
{
	/* xorshift64: no attacker gains from knowing the next host */
	pools->random = pools->random ? pools->random : UINT64_C(88172645463325252);
	pools->random ^= pools->random << 13;
	pools->random ^= pools->random >> 7;
	pools->random ^= pools->random << 17;
	return (unsigned)(pools->random % below);
}

/* Whether the host suits the client by its role, and a standby also by its freshness. A primary that is only the last resort does not. */
static bool place_suits(const struct roles *roles, const struct role_place *place, const struct pool_client *client)
{
	return (place->suits >> client->target & 1) && (place->host == roles->primary || place->covers >= pool_client_needs(client, place->host));
}

static bool suits(const struct pool *pool, const struct pool_client *client)
{
	return (pool->suits >> client->target & 1) && (pool->covers == INT64_MAX || pool->covers >= pool_client_needs(client, pool->host));
}

/* Returns the place after `skip` places that suit the client, or NULL. */
static struct role_place *nth_suitable(const struct roles *roles, const struct pool_client *client, unsigned skip)
{
	for (unsigned i = 0; i < roles->count; i++) {
		if (place_suits(roles, &roles->places[i], client) && skip-- == 0)
			return &roles->places[i];
	}
	return NULL;
}

/* Returns the number of the place for a client, below `count`, which is the number of places that suit it, and at least 2. */
static unsigned draw_place(struct roles *roles, const struct pool_client *client, unsigned count)
{
	struct pool *home = client->pool->home;
	unsigned best, other;

	switch (home->database->conf->load_balance_hosts) {
	case BALANCE_ROUND_ROBIN:
		return roles->next++ % count;
	case BALANCE_DISABLE:
		return 0;
	case BALANCE_LEAST:
		best = 0;
		for (unsigned i = 1; i < count; i++)
			best = is_better(home, nth_suitable(roles, client, i), nth_suitable(roles, client, best)) ? i : best;
		return best;
	default:
		best = draw(home->pools, count);
		other = (best + 1 + draw(home->pools, count - 1)) % count;
		return is_better(home, nth_suitable(roles, client, other), nth_suitable(roles, client, best)) ? other : best;
	}
}

/* Returns the host for the client, or NULL. */
static struct host *choose(const struct pool_client *client, usec_t now)
{
	struct pools *pools = client->pool->pools;
	struct roles *roles = client->pool->database->roles;
	struct role_place *place;
	unsigned count = 0, nth = 0;

	while ((place = nth_suitable(roles, client, count)) != NULL) {
		/* it has read from this standby */
		if (place->host->life == client->read_life && place->host != roles->primary && client->pool->host != place->host)
			return place->host;
		count++;
	}
	if (count == 0)
		return client->target == TARGET_PREFER_STANDBY ? roles->primary : NULL;
	if (count > 1)
		nth = draw_place(roles, client, count);
	place = nth_suitable(roles, client, nth);
	/* the first choice of many clients falls on a host with little use, which has just come back */
	if (count > 1 && roles->database->conf->load_balance_hosts != BALANCE_DISABLE && draw(pools, SLOW_START) > (now - place->back_at) / USEC)
		place = nth_suitable(roles, client, (nth + 1) % count);
	return place->host;
}

/* A standby has come back not long ago: one of many transactions of the clients of other standbys chooses again. */
static bool is_to_settle(const struct pool *pool, const struct pool_client *client, usec_t now)
{
	const struct roles *roles = pool->database->roles;

	return roles && pool->host && pool->covers < INT64_MAX && now - roles->readers_at < SETTLE && client->state == CLIENT_IDLE &&
	       draw(pool->pools, SETTLE_ONE_IN) == 0;
}

struct pool *pool_for_client(const struct pool_client *client, usec_t now)
{
	struct pool *pool = client->pool, *found = NULL;
	struct host *host;

	if (client->listens || (suits(pool, client) && !client->is_held && !is_to_settle(pool, client, now)))
		return pool;
	if (client->target == TARGET_ANY)
		return pool->home;
	host = pool->database->roles && !client->is_held ? choose(client, now) : NULL;
	if (host == pool->host && host)
		return pool;
	if (host)
		found = pool_at_host(pool, host, now);
	return found ? found : pool_at_host(pool, pool->pools->nowhere, now);
}

bool pool_client_route(struct pool_client *client, usec_t now)
{
	struct pool *pool = pool_for_client(client, now);

	if (pool && pool != client->pool)
		pool_client_move(client, pool, now);
	return pool != NULL;
}
