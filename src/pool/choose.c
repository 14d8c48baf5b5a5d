/*
 * The choice of a host for a client with a role (pool/role.h).
 *
 * A client stays with the host that it has, and a reader with the host that it has read from, as
 * long as they suit. Otherwise the client gets the better of two random hosts by use and weight, or
 * as load_balance_hosts says. Use is the number of clients with a server or in the queue, of the
 * same database and user.
 *
 * A host that becomes suitable, for example after a restart with cold caches, gets a tenth of its
 * share of these choices in the first second, two tenths in the second, and so on; the rest goes to
 * hosts that have been suitable for longer. Clients of other hosts are not moved at once; for a
 * minute, one in SETTLE_ONE_IN of their transactions chooses again. Server connections stay where
 * they are, and leave by server_idle_timeout.
 *
 * After a read from the primary a client must not see older data: it needs a standby with the data
 * of this read. Standbys are always a little behind, so a client without pauses would read from the
 * primary for ever. Therefore one in SETTLE_ONE_IN of its transactions waits for a standby with
 * little lag (client->settles), for SETTLE_WAIT at most. A move from one standby to another one
 * waits in the same way. Example: all standbys restart, and the clients read from the primary; a
 * minute later most of them read from standbys again.
 *
 * Only failed connects and checks, and max_lag, make a host unsuitable: a client waits for a server
 * of a full pool. A host that refuses the logins of the pool (password, pg_hba.conf, missing
 * database, no connection left) is not chosen for server_login_retry, unless no other host suits:
 * then the client gets the error.
 *
 * When a host becomes silent or is closed, roles_recall_reads() takes back the reads that wait for
 * the first byte of their answer, and sends them to another host.
 */
#include "base/log.h"
#include "pool/closed.h"
#include "pool/freshness.h"
#include "pool/inside.h"
#include "pool/role.h"

#define SLOW_START 10			/* seconds */
#define SETTLE (60 * USEC)
#define SETTLE_ONE_IN 16
#define SETTLE_WAIT (USEC / 4)
#define LAG_LITTLE (USEC / 10)

/* How busy the pool at the host is. */
static int use_of(const struct pool *parent, const struct host *host)
{
	const struct pool *pool = pool_find_at(parent, host);

	return pool ? pool->server_count[SERVER_ACTIVE] + pool->client_count[CLIENT_WAITING] : 0;
}

/* Whether host `a` is less busy than `b` in relation to their weights. */
static bool is_better(const struct pool *parent, const struct role_place *a,
		      const struct role_place *b)
{
	return (int64_t)(use_of(parent, a->host) + 1) * b->weight <
	       (int64_t)(use_of(parent, b->host) + 1) * a->weight;
}

static unsigned choose_draw(struct pools *pools, unsigned below)
{
	/* xorshift64: no attacker gains from knowing the next host */
	pools->random = pools->random ? pools->random : UINT64_C(88172645463325252);
	pools->random ^= pools->random << 13;
	pools->random ^= pools->random >> 7;
	pools->random ^= pools->random << 17;
	return (unsigned)(pools->random % below);
}

/* The hosts of the right role among which a client chooses. */
enum choice {
	/* the primary, and standbys that are fresh enough for the client */
	CHOICE_FRESH,
	CHOICE_FRESH_STANDBY,		/* only these standbys */
	CHOICE_SOON			/* standbys with little lag as well */
};

/* Notes which hosts refuse the logins of the client's pools. */
static void note_refusals(struct roles *roles, const struct pool_client *client, usec_t now)
{
	for (unsigned i = 0; i < roles->count; i++) {
		const struct pool *pool = pool_find_at(client->pool->parent, roles->places[i].host);

		roles->places[i].refuses = pool && pool_refuses(pool, client, now);
	}
}

static bool place_suits(const struct roles *roles, const struct role_place *place,
			const struct pool_client *client, enum choice choice)
{
	if (!(place->targets >> client->target & 1) || place->refuses)
		return false;
	if (place->host == roles->primary)
		return choice != CHOICE_FRESH_STANDBY;
	/* the host that a settling reader comes from */
	if (choice == CHOICE_FRESH_STANDBY &&
		    place->host->incarnation == client->read_incarnation &&
	    client->read_at > client->wrote_at)
		return false;
	return (choice == CHOICE_SOON && place->fresh_to > 0 && place->host->lag <= LAG_LITTLE) ||
	       place->fresh_to >= pool_client_needs(client, place->host);
}

static bool is_reader(const struct pool_client *client)
{
	return client->target == TARGET_READ || client->target == TARGET_PREFER_STANDBY;
}

/* Whether the client stays with the host that it has. A client whose last transaction was a write
   is in the pool of the primary; it has not chosen this host for its reads, so it chooses now. */
static bool suits(const struct pool *pool, const struct pool_client *client)
{
	if (!(pool->targets >> client->target & 1))
		return false;
	if (pool->fresh_to == INT64_MAX)
		return client->target != TARGET_READ ||
		       client->read_incarnation == pool->host->incarnation;
	return pool->fresh_to >= pool_client_needs(client, pool->host);
}

/* Returns the place after `skip` places that suit the client, or NULL. */
static struct role_place *nth_suitable(const struct roles *roles, const struct pool_client *client,
				       enum choice choice, unsigned skip)
{
	for (unsigned i = 0; i < roles->count; i++) {
		if (place_suits(roles, &roles->places[i], client, choice) && skip-- == 0)
			return &roles->places[i];
	}
	return NULL;
}

/* Returns the number of the place for a client, below `count`, which is the number of places that
   suit it, and at least 2. */
static unsigned draw_place(struct roles *roles, const struct pool_client *client,
			   enum choice choice, unsigned count)
{
	struct pool *parent = client->pool->parent;
	unsigned best, other;

	switch (parent->database->conf->load_balance_hosts) {
	case BALANCE_ROUND_ROBIN:
		return roles->next++ % count;
	case BALANCE_DISABLE:
		return 0;
	case BALANCE_LEAST:
		best = 0;
		for (unsigned i = 1; i < count; i++) {
			if (is_better(parent, nth_suitable(roles, client, choice, i),
				      nth_suitable(roles, client, choice, best)))
				best = i;
		}
		return best;
	default:
		best = choose_draw(parent->pools, count);
		other = (best + 1 + choose_draw(parent->pools, count - 1)) % count;
		return is_better(parent, nth_suitable(roles, client, choice, other),
				 nth_suitable(roles, client, choice, best))
			       ? other
			       : best;
	}
}

/* The slow start: of the places that have been suitable for longer than the nth of `count` places,
   returns a random one, or the nth place itself if there is none. */
static struct role_place *older_place(const struct roles *roles, const struct pool_client *client,
				      enum choice choice, unsigned nth, unsigned count)
{
	struct role_place *place = nth_suitable(roles, client, choice, nth);
	unsigned first = choose_draw(client->pool->pools, count - 1);

	for (unsigned i = 0; i < count - 1; i++) {
		struct role_place *other = nth_suitable(
			roles, client, choice, (nth + 1 + (first + i) % (count - 1)) % count);

		if (other->back_at < place->back_at)
			return other;
	}
	return place;
}

/* Returns the place for the client, or NULL. */
static struct role_place *choose(struct roles *roles, const struct pool_client *client,
				 enum choice choice, usec_t now)
{
	struct pools *pools = client->pool->pools;
	struct role_place *place;
	unsigned count = 0, nth = 0;

	while ((place = nth_suitable(roles, client, choice, count)) != NULL) {
		/* the host of its last read */
		if (place->host->incarnation == client->read_incarnation &&
		    client->pool->host != place->host &&
		    (is_reader(client) || place->host != roles->primary))
			return place;
		count++;
	}
	if (count == 0)
		return NULL;
	if (count > 1)
		nth = draw_place(roles, client, choice, count);
	place = nth_suitable(roles, client, choice, nth);
	/* the first choice of many clients falls on a host with little use, which has just come
	   back */
	if (count > 1 && roles->database->conf->load_balance_hosts != BALANCE_DISABLE &&
	    choose_draw(pools, SLOW_START) > (now - place->back_at) / USEC)
		return older_place(roles, client, choice, nth, count);
	return place;
}

/* Whether the client chooses again for this transaction, although its host may suit. */
static bool is_to_settle(const struct pool *pool, const struct pool_client *client, usec_t now)
{
	const struct roles *roles = pool->database->roles;
	bool is_standby = pool->fresh_to < INT64_MAX;

	if (!roles || !pool->host || pool->host == pool->pools->no_host ||
	    !(is_standby || is_reader(client)) || client->state != CLIENT_IDLE)
		return false;
	/* the client did not choose the primary */
	if (!is_standby &&
	    (client->target == TARGET_PREFER_STANDBY ||
	     client->read_incarnation != pool->host->incarnation))
		return choose_draw(pool->pools, SETTLE_ONE_IN) == 0;
	return now - roles->readers_at < SETTLE && choose_draw(pool->pools, SETTLE_ONE_IN) == 0;
}

/* For SHOW HOSTS: the standbys of the right role that are not fresh enough for this read. */
static void count_stale(struct roles *roles, const struct pool_client *client)
{
	for (unsigned i = 0; i < roles->count; i++) {
		const struct role_place *place = &roles->places[i];

		if (place->targets >> client->target & 1 && place->host != roles->primary &&
		    !place_suits(roles, place, client, CHOICE_FRESH))
			place->host->stale_reads += !place->refuses;
	}
}

/* Returns the host for the client, or NULL. */
static struct host *choose_host(struct pool_client *client, bool settles, usec_t now)
{
	struct roles *roles = client->pool->database->roles;
	enum choice choice = settles && is_reader(client) ? CHOICE_SOON : CHOICE_FRESH;
	struct role_place *place = NULL;

	if (roles->has_refusals)
		note_refusals(roles, client, now);
	if (client->settles) {
		place = choose(roles, client, CHOICE_FRESH_STANDBY, now);
		if (!place && roles->primary && now - client->since < SETTLE_WAIT)
			return NULL;
		client->settles = false;
	}
	if (!place)
		place = choose(roles, client, choice, now);
	if (is_reader(client))
		count_stale(roles, client);
	if (!place && is_reader(client) && roles->primary)
		return roles->primary;
	for (unsigned i = 0; i < roles->count && !place && roles->has_refusals; i++)
		roles->places[i].refuses = false;
	if (!place && roles->has_refusals)
		place = choose(roles, client, choice, now);
	if (!place)
		return NULL;
	if (!place_suits(roles, place, client, CHOICE_FRESH)) {
		client->settles = true;
		return NULL;
	}
	/* not if only the primary is fresh enough: then the client leaves the primary as soon as a
	   standby is */
	if (client->target == TARGET_READ && place->host == roles->primary &&
	    nth_suitable(roles, client, choice, 1))
		client->read_incarnation = place->host->incarnation;
	return place->host;
}

/*
 * The welcome of a client needs the parameters of any session. Without a primary, a client whose
 * reads go to standbys gets them from a standby, so that it can read; it waits with its first
 * write. (This is not for clients with a server before their welcome: they are in state WAITING.)
 */
static void aim_login(struct pool_client *client)
{
	const struct roles *roles = client->pool->database->roles;

	if (roles && client->pool->allowed.mode == MODE_TRANSACTION && !client->dedicated)
		pool_client_seek(client, !roles->primary);
}

struct pool *pool_for_client(struct pool_client *client, usec_t now)
{
	struct pool *pool = client->pool, *found = NULL;
	struct roles *roles = pool->database->roles;
	struct host *host;
	bool settles;

	if (client->listens)
		return pool;
	if (client->state < CLIENT_IDLE)
		aim_login(client);
	client->settles &= client->state == CLIENT_WAITING;
	settles = is_to_settle(pool, client, now);
	if (suits(pool, client) && !client->is_held && !settles)
		return pool;
	if (client->target == TARGET_ANY)
		return pool->parent;
	host = roles && !client->is_held ? choose_host(client, settles, now) : NULL;
	if (host == pool->host && host)
		return pool;
	if (host)
		found = pool_at_host(pool, host, now);
	else if (roles && is_reader(client))
		roles->is_waited_for = true;
	return found ? found : pool_at_host(pool, pool->pools->no_host, now);
}

bool pool_client_route(struct pool_client *client, usec_t now)
{
	struct pool *pool = pool_for_client(client, now);

	if (pool && pool != client->pool)
		pool_client_move(client, pool, now);
	return pool != NULL;
}

bool pool_client_reroute(struct pool_client *client, usec_t now)
{
	struct pool *pool = client->pool, *found;
	struct roles *roles = pool->database->roles;
	struct role_place *place;
	struct host *host;

	if (!pool->host || !roles || client->target == TARGET_ANY || client->listens ||
	    client->is_held)
		return false;
	note_refusals(roles, client, now);
	place = choose(roles, client, CHOICE_FRESH, now);
	host = place ? place->host : is_reader(client) ? roles->primary : NULL;
	found = host && host != pool->host ? pool_at_host(pool, host, now) : NULL;
	if (found)
		pool_client_move(client, found, now);
	return found != NULL;
}

/* ---- reads in flight ---- */

/* Whether another host than `host` would be chosen now for the client, which has a server at
   `host`. */
static bool other_host_suits(struct roles *roles, const struct pool_client *client,
			     const struct host *host, usec_t now)
{
	if (is_reader(client) && roles->primary && roles->primary != host &&
	    !host_is_closed_to(roles->primary, roles->database))
		return true;
	if (roles->has_refusals)
		note_refusals(roles, client, now);
	return nth_suitable(roles, client, CHOICE_FRESH, 0) != NULL;
}

/* Takes the reads of one pool back. Returns their number. */
static unsigned recall_reads_of(struct roles *roles, const struct pool *pool, usec_t now)
{
	unsigned count = 0;

	LIST_EACH_SAFE(node, &pool->servers[SERVER_ACTIVE]) {
		struct pool_server *server = server_at(node);
		const struct pool_client *client = server->link;

		if (client && !client->is_internal &&
		    other_host_suits(roles, client, pool->host, now))
			count += pool->pools->ops->recall(server);
	}
	return count;
}

/*
 * A hanging host keeps its connections open, so a read on it would last as long as the hang. The
 * host is not fresh after two periods without an answer, and then another host gets the read. The
 * evidence of each later decision repeats the attempt, for clients that no other host suited
 * before.
 */
void roles_recall_reads(struct roles *roles, usec_t now)
{
	for (unsigned i = 0; i < roles->count; i++) {
		struct host *host = roles->places[i].host;
		bool is_closed = host_is_closed_to(host, roles->database);
		unsigned count = 0;

		if (host->is_fresh && !is_closed)
			continue;
		LIST_EACH(node, &roles->database->members) {
			const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

			if (pool->host == host)
				count += recall_reads_of(roles, pool, now);
		}
		host->recalls += count;
		if (count > 0)
			log_info("host %s: %u reads are taken back, because %s", host->key, count,
				 is_closed ? "an administrator has closed the host"
					   : "the host is silent");
	}
}
