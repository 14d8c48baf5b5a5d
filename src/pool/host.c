/*
 * Hosts, and which pool may open a server at a host under max_host_connections.
 *
 * Without a budget the servers of a host are only counted. With a budget a pool without room waits
 * on shared->waiting_for_hosts. Room goes to the pool with the fewest servers, among equals to the
 * pool that waits longest (host_awaited_by()). This pool also takes servers from others. A pool
 * with at least two servers more gives one at once. A pool with one server more gives it after
 * TURN for each of its servers, counted from its youngest server, so that pools take turns and a
 * server is not closed for each transaction. An idle server is closed at once, a busy one when its
 * client releases it; after TURN an idle server is closed for any pool. A pool with clients in its
 * queue keeps its idle servers.
 *
 * A list of hosts has room if any of its hosts has room; hosts that have failed are considered only
 * if all have failed.
 *
 * With "*" clients choose the names of databases, and a pool for an invented name has no server, so
 * it would come first each time. Therefore the pools of databases of "*" that no server has
 * admitted yet (trials) act as one pool in this order, and have at most a quarter of the budget
 * together. A trial is given an idle server of another pool only if the server was idle for TURN,
 * and a busy one only while no trial has a server, in turns. Example: a budget of 20, a pool with
 * 20 busy servers, and clients of 100 invented names: one server at a time is opened for these.
 *
 * Invariant: host->servers counts the servers with this host (pools_check), and exceeds its limit
 * only after a RELOAD or handover. host->trials counts the servers with is_trial among them, which
 * is set when the server gets the host, and cleared when a server admits the database. Only
 * server_counts_at() and server_tried() take from these budgets and give back.
 */
#include "pool/host.h"

#include "base/inline.h"
#include "base/mem.h"
#include "base/text.h"
#include "pool/closed.h"
#include "pool/inside.h"
#include "pool/role.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * How long a pool keeps a server before another pool may claim it. A short turn costs many logins,
 * a long one makes pools wait. Example: 50 busy databases share a budget of 20. Each server changes
 * its pool twice a second, so there are 40 logins a second, and each login costs the server a
 * process and about 3 ms. A pool waits for 0.75 seconds.
 */
#define TURN (USEC / 2)
#define TRIALS_SHARE 4		/* trials have at most the budget divided by this */
#define PORT_MOST 16		/* digits of a port, and the colon before them */
#define HOST_ADDRESS 64		/* bytes of an address as text */
#define HOLDERS_NAMED 3		/* pools that a text names */
/* a failure says nothing about the host after this time without an attempt */
#define FAILURE_OLD (600 * USEC)

/* ---- hosts and places ---- */

void host_set_limits(struct host *host)
{
	int64_t limit = host->pools->conf->settings.max_host_connections,
		trials = limit / TRIALS_SHARE;

	budget_set_limit(host->servers, limit);
	budget_set_limit(host->trials, limit > 0 && trials == 0 ? 1 : trials);
}

/* Frees a host that is in no table. */
static void host_discard(struct host *host)
{
	budget_drop(host->pools->shared, &host->servers);
	budget_drop(host->pools->shared, &host->trials);
	mem_free(host);
}

struct host *host_hold(struct pools *pools, const char *key)
{
	size_t length = strlen(key);
	struct host *host;

	HASH_FIND(hh, pools->hosts, key, length, host);
	if (!host) {
		host = mem_try(sizeof(*host) + length + 1);
		if (!host)
			return NULL;
		memcpy(host->key, key, length + 1);
		host->pools = pools;
		host->incarnation = ++pools->incarnations;
		host->port = atoi(strrchr(key, ':') + 1);
		host->servers = budget_hold(pools->shared, BUDGET_HOST, NULL, NULL, key);
		host->trials = budget_hold(pools->shared, BUDGET_TRIALS, NULL, NULL, key);
		if (host->servers && host->trials)
			HASH_ADD_KEYPTR(hh, pools->hosts, host->key, length, host);
		if (!HASH_HAS(hh, host)) {
			host_discard(host);
			return NULL;
		}
		host_set_limits(host);
		host_admit(host);
	}
	host->users++;
	return host;
}

void host_drop(struct host *host)
{
	if (--host->users > 0)
		return;
	HASH_DELETE(hh, host->pools->hosts, host);
	host_set_members(host, NULL, 0);
	mem_free(host->name);
	mem_free(host->marks);
	host_discard(host);
}

static bool host_is_member(const struct host *name, const struct host *host)
{
	for (unsigned i = 0; i < name->member_count; i++) {
		if (name->members[i] == host)
			return true;
	}
	return false;
}

static void members_drop(struct host **members, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		host_drop(members[i]);
	mem_free(members);
}

bool host_set_members(struct host *name, const char *const *addresses, unsigned count)
{
	struct host **members = count > 1 ? mem_try(count * sizeof(*members)) : NULL,
		    **old = name->members;
	unsigned made = 0, same = 0, old_count = name->member_count;
	char key[HOST_ADDRESS + PORT_MOST];

	for (; members && made < count; made++) {
		snprintf(key, sizeof(key), "%s:%d", addresses[made], name->port);
		members[made] = host_hold(name->pools, key);
		if (!members[made])
			break;
		if (!members[made]->name) {
			members[made]->name = mem_copy_string(name->key);
			if (members[made]->name)
				*strrchr(members[made]->name, ':') = '\0';
		}
		same += host_is_member(name, members[made]);
	}
	if ((count > 1 && (!members || made < count)) || (same == count && old_count == count) ||
	    (count <= 1 && old_count == 0)) {
		members_drop(members, made);
		return false;
	}
	name->members = members;
	name->member_count = made;
	members_drop(old, old_count);
	return true;
}

void pool_places_clear(struct pool *pool)
{
	for (unsigned i = 0; i < pool->place_count; i++)
		host_drop(pool->places[i].host);
	mem_free(pool->places);
	pool->places = NULL;
	pool->place_count = 0;
}

struct host *host_of(struct pools *pools, const struct conf_host *conf)
{
	const char *name = host_name(pools, conf);
	size_t size = strlen(name) + PORT_MOST;
	char *key = mem_try(size);
	struct host *host;

	if (!key)
		return NULL;
	snprintf(key, size, "%s:%d", name, conf->port);
	host = host_hold(pools, key);
	mem_free(key);
	return host;
}

struct host_place *pool_places(struct pool *pool)
{
	const struct conf_database *conf = pool->database->conf;
	const struct roles *roles = pool->database->roles;
	bool has_members = roles && roles->has_members;
	/* no server is opened where clients wait for a host */
	unsigned count = pool->host == pool->pools->no_host ? 0
			 : pool->host			    ? 1
			 : has_members			    ? roles->count
							    : conf->host_count;

	if (pool->places && pool->place_count == count)
		return pool->places;
	pool_places_clear(pool);
	pool->places = mem_try(count * sizeof(*pool->places));
	for (; pool->places && pool->place_count < count; pool->place_count++) {
		const char *key = pool->host	? pool->host->key
				  : has_members ? roles->places[pool->place_count].host->key
						: NULL;
		struct host *host = key ? host_hold(pool->pools, key)
					: host_of(pool->pools, &conf->hosts[pool->place_count]);

		if (!host) {
			pool_places_clear(pool);
			break;
		}
		pool->places[pool->place_count].host = host;
	}
	return pool->places;
}

bool host_place_has_failed(const struct pools *pools, const struct host_place *place, usec_t now)
{
	usec_t retry = pools->conf->settings.server_login_retry, login = place->failed_at,
	       connect = place->host->unreachable_since;

	return (login > 0 && now - login < retry) || (connect > 0 && now - connect < retry);
}

bool host_note_attempt(struct host *host, const struct host_attempt *a, usec_t now)
{
	struct host_failure *f = &host->failure;
	bool is_same, is_of_other = f->why == REASON_SERVER_TLS && f->database != a->database &&
				    f->tls != a->tls;
	char text[HOST_WHY];

	if (a->why == REASON_NONE) {
		if (!is_of_other)
			*f = (struct host_failure){ .why = REASON_NONE };
		return false;
	}
	text_copy(text, sizeof(text), a->text);
	is_same = host_is_failing(host, now) && f->why == a->why && f->kind == a->kind &&
		  !is_of_other && strcmp(f->text, text) == 0;
	if (!host_is_failing(host, now))
		*f = (struct host_failure){ .since = now };
	host->failures += host->role_users == 0;
	f->why = a->why;
	f->kind = a->kind;
	f->at = now;
	f->count++;
	f->database = a->database;
	f->tls = a->tls;
	memcpy(f->text, text, sizeof(f->text));
	return is_same;
}

bool host_is_failing(const struct host *host, usec_t now)
{
	const struct settings *set = &host->pools->conf->settings;
	usec_t retried = set->server_login_retry + set->server_connect_timeout;

	return host->failure.why != REASON_NONE &&
	       now - host->failure.at < FAILURE_OLD + retried;
}

const char *host_failure_word(const struct host_failure *failure)
{
	if (failure->kind == FAILURE_FULL)
		return "full";
	if (failure->kind == FAILURE_BUSY)
		return "starting";
	if (failure->why == REASON_DNS_FAILED)
		return "no address";
	return failure->why == REASON_SERVER_TLS ? "no TLS" : "down";
}

/* The server is not a trial any more. */
static void server_tried(struct pool_server *server)
{
	if (server->is_trial)
		budget_give(server->host->trials);
	server->is_trial = false;
}

/* The server is at this host now, or at none; `is_taken`: its place there is taken already. */
static void server_counts_at(struct pool_server *server, struct host *host, bool is_taken)
{
	bool counts = !server->is_watcher;

	if (host)
		host->users++;
	if (host && counts && !is_taken)
		budget_add(host->servers);
	if (server->host) {
		server_tried(server);
		if (counts)
			budget_give(server->host->servers);
		host_drop(server->host);
	}
	server->host = host;
	server->is_trial = host && counts && pool_is_trial(server->pool);
	if (server->is_trial)
		budget_add(host->trials);
}

void pool_server_set_host(struct pool_server *server, struct host *host)
{
	server_counts_at(server, host, false);
}

bool pool_server_take_host(struct pool_server *server, struct host *host)
{
	bool is_taken = budget_take(host->servers);

	if (is_taken)
		server_counts_at(server, host, true);
	return is_taken;
}

void database_admitted(struct database *database)
{
	LIST_EACH(node, &database->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		for (int state = 0; state < SERVER_STATES; state++) {
			LIST_EACH(at, &pool->servers[state])
				server_tried(server_at(at));
		}
	}
	database->served = true;
}

bool pool_server_restore_host(struct pool_server *server, const char *key)
{
	struct host *host = key ? host_hold(server->pool->pools, key) : NULL;

	pool_server_set_host(server, host);
	if (host)
		host_drop(host);
	return host || !key;
}

/* ---- the order of the pools ---- */

/* Returns the number of servers that the pool's clients share: all but the listener and the servers
   of replication clients. */
static int64_t share_of(const struct pool *pool)
{
	int64_t count = pool->budget->used - pool->server_count[SERVER_LISTENING];

	for (int state = 0; pool->dedicated > 0 && state < SERVER_STATES; state++) {
		LIST_EACH(node, &pool->servers[state])
			count -= server_at(node)->dedicated != 0;
	}
	return count;
}

/* Returns the rank of the pool at the host, where the lowest rank gets the next room: the number of
   servers of the pool, or of all trials. */
static int64_t rank_of(const struct pool *pool, const struct host *host)
{
	return pool_is_trial(pool) ? host->trials->used : share_of(pool);
}

/* Whether the pool is a trial, and trials have their share of the host. */
static bool is_trial_too_many(const struct pool *pool, const struct host *host)
{
	return pool_is_trial(pool) && !budget_has_room(host->trials);
}

static bool is_at(const struct pool *pool, const struct host *host)
{
	bool is_there = false;

	for (unsigned i = 0; i < pool->place_count; i++)
		is_there |= pool->places[i].host->servers == host->servers;
	return is_there;
}

/* Whether the pool waits for room at the host. */
static bool is_claimant(const struct pool *pool, const struct host *host)
{
	return is_at(pool, host) &&
	       pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN] > 0 &&
	       !pool_is_stopped(pool) && !is_trial_too_many(pool, host);
}

struct pool *host_awaited_by(const struct host *host)
{
	struct pool *first = NULL;

	LIST_EACH(node, &host->pools->shared->waiting_for_hosts) {
		struct pool *pool = LIST_OBJECT(node, struct pool, wait_for_host.node);

		if (is_claimant(pool, host) &&
		    (!first || rank_of(pool, host) < rank_of(first, host)))
			first = pool;
	}
	return first;
}

/* Returns whether at least `most` pools come before this one at the host. */
static bool is_behind(const struct pool *pool, const struct host *host, int64_t most)
{
	int64_t share = rank_of(pool, host);
	bool is_later = false;

	LIST_EACH(node, &host->pools->shared->waiting_for_hosts) {
		const struct pool *other = LIST_OBJECT(node, struct pool, wait_for_host.node);

		is_later |= other == pool;
		if (other != pool && is_claimant(other, host) &&
		    rank_of(other, host) < share + !is_later && --most <= 0)
			return true;
	}
	return most <= 0;
}

static bool has_failed(const struct pool *pool, const struct host_place *place, usec_t now)
{
	bool have_all = true;

	for (unsigned i = 0; i < pool->place_count; i++)
		have_all &= host_place_has_failed(pool->pools, &pool->places[i], now);
	return !have_all && host_place_has_failed(pool->pools, place, now);
}

bool pool_hosts_are_full(const struct pool *pool, usec_t now)
{
	/* without memory for the places the dial fails */
	if (pool->pools->conf->settings.max_host_connections == 0 || !pool->places)
		return false;
	for (unsigned i = 0; i < pool->place_count; i++) {
		const struct host *host = pool->places[i].host;

		if (!host_is_closed_to(host, pool->database) &&
		    !has_failed(pool, &pool->places[i], now) && !host_is_full(host) &&
		    !is_trial_too_many(pool, host) &&
		    !is_behind(pool, host, host->servers->limit - host->servers->used))
			return false;
	}
	return true;
}

void host_wake(const struct host *host, const struct pool_server *server)
{
	struct pool *first = host_awaited_by(host);

	if (first)
		pool_ring(first, server);
}

void pool_hosts_wake(const struct pool *pool)
{
	for (unsigned i = 0; i < pool->place_count; i++)
		if (!host_is_full(pool->places[i].host))
			host_wake(pool->places[i].host, NULL);
}

/* ---- making room ---- */

/* Whether the pool has had its turn with the number of servers that it has now. */
static bool has_had_turn(const struct pool *pool, usec_t now)
{
	usec_t turn = TURN * share_of(pool);

	for (int state = 0; state < SERVER_STATES; state++) {
		LIST_EACH(node, &pool->servers[state]) {
			const struct pool_server *server = server_at(node);

			if (!server_is_apart(server) && !server->dedicated &&
			    state != SERVER_LISTENING &&
			    (server->opened == 0 || now - server->opened < turn))
				return false;
		}
	}
	return true;
}

/* Whether `from` must give a server at the host to `to`, which comes first there. */
static bool owes(const struct pool *from, const struct pool *to, const struct host *host,
		 usec_t now)
{
	int64_t more = share_of(from) - rank_of(to, host);

	if (pool_is_trial(to))
		return more > 0 && host->trials->used == 0 && has_had_turn(from, now);
	return more > 1 || (more == 1 && has_had_turn(from, now));
}

bool host_owes(const struct pool_server *server, const struct pool *to, usec_t now)
{
	return server->pool->client_count[CLIENT_WAITING] == 0 &&
	       (now - server->since >= TURN || owes(server->pool, to, server->host, now));
}

/* Returns the server of the pool at the host that is idle longest, or NULL. */
static struct pool_server *idle_at(const struct pool *pool, const struct host *host)
{
	static const enum server_state states[] = { SERVER_USED, SERVER_IDLE };

	for (int i = 0; i < 2; i++) {
		const struct list *head = &pool->servers[states[i]];

		for (struct list *node = head->prev; node != head; node = node->prev)
			if (server_at(node)->host == host)
				return server_at(node);
	}
	return NULL;
}

struct pool_server *pool_hosts_evictable(const struct pool *pool, usec_t now)
{
	struct pool_server *longest = NULL;

	for (unsigned i = 0; i < pool->place_count; i++) {
		const struct host *host = pool->places[i].host;

		if (host->servers->used != host->servers->limit ||
		    has_failed(pool, &pool->places[i], now) ||
		    is_trial_too_many(pool, host) || is_behind(pool, host, 1))
			continue;
		LIST_EACH(node, &pool->pools->all) {
			const struct pool *other = pool_at(node);
			struct pool_server *server =
				other != pool && other->client_count[CLIENT_WAITING] == 0
					? idle_at(other, host)
					: NULL;

			if (server && (!longest || server->since < longest->since) &&
			    (now - server->since >= TURN || owes(other, pool, host, now)))
				longest = server;
		}
	}
	return longest;
}

int64_t pool_close_above(const struct pool *pool)
{
	/* with several worlds, `live` is only a part of the servers that count */
	if (pool->pools->are_hosts_scarce || pool->pools->shared->world_count > 1)
		return -1;
	return pool->allowed.size > 0 ? pool->allowed.size + pool->allowed.reserve : INT64_MAX;
}

void pools_renew_close_above(struct pools *pools)
{
	LIST_EACH(node, &pools->all)
		pool_at(node)->close_above = pool_close_above(pool_at(node));
}

void pools_set_scarce(struct pools *pools, bool are_scarce)
{
	pools->are_hosts_scarce = are_scarce;
	pools_renew_close_above(pools);
}

/* Not inlined, because pool_server_is_spent(), which is called for each transaction, would then
   save registers that only this rare case needs. */
NEVER_INLINE enum close_reason pool_server_is_claimed(const struct pool_server *server, usec_t now)
{
	const struct pool *first, *pool = server->pool;
	const struct host *host = server->host;

	if (pool->allowed.size > 0 &&
	    pool->budget->used > pool->allowed.size + pool->allowed.reserve)
		return REASON_TOO_MANY_SERVERS;
	if (!host || !host_is_full(host))
		return REASON_NONE;
	if (budget_is_exceeded(host->servers))
		return REASON_TOO_MANY_SERVERS;
	/* a new server serves a client before others claim it */
	first = server->lent ? host_awaited_by(host) : NULL;
	return first && owes(pool, first, host, now) ? REASON_EVICTED : REASON_NONE;
}

struct pool_server *pool_hosts_longest_in_use(const struct pool *pool)
{
	struct pool_server *longest = NULL;

	LIST_EACH(node, &pool->pools->all) {
		LIST_EACH(at, &pool_at(node)->servers[SERVER_ACTIVE]) {
			struct pool_server *server = server_at(at);

			if (server->host && is_at(pool, server->host) &&
			    (!longest || server->since < longest->since))
				longest = server;
		}
	}
	return longest;
}

/* ---- after a RELOAD or handover ---- */

/* Called in a tick. Closes idle servers of hosts that exceed the budget, the longest idle server
   first, and counts the hosts that still exceed the budget: their servers close when they are
   released. */
void hosts_maintain(struct pools *pools)
{
	int exceeded = 0;

	for (struct host *host = pools->hosts, *next; host; host = next) {
		bool has_idle = true;

		/* the last server may free the host */
		next = host->hh.next;
		host->users++;
		while (budget_is_exceeded(host->servers) && has_idle) {
			struct pool_server *longest = NULL;

			LIST_EACH(node, &pools->all) {
				struct pool_server *server = idle_at(pool_at(node), host);

				if (server && (!longest || server->since < longest->since))
					longest = server;
			}
			has_idle = longest && server_drop(longest, REASON_TOO_MANY_SERVERS);
		}
		exceeded += budget_is_exceeded(host->servers);
		host_drop(host);
	}
	if (exceeded != pools->hosts_exceeded)
		shared_count_shortages(pools->shared, exceeded - pools->hosts_exceeded);
	pools->hosts_exceeded = exceeded;
	if (pools->are_hosts_scarce !=
	    (exceeded > 0 || !list_is_empty(&pools->shared->waiting_for_hosts)))
		pools_set_scarce(pools, !pools->are_hosts_scarce);
}

/* ---- in numbers and words ---- */

void hosts_count(const struct pools *pools)
{
	for (struct host *host = pools->hosts; host; host = host->hh.next)
		host->sharers = host->waiting = host->used = 0;
	LIST_EACH(node, &pools->all) {
		const struct pool *pool = pool_at(node);
		bool is_waiting = budget_is_awaited(&pool->wait_for_host);

		for (unsigned i = 0; i < pool->place_count && (is_waiting || pool->live > 0); i++) {
			pool->places[i].host->sharers++;
			pool->places[i].host->waiting += is_waiting;
		}
		LIST_EACH(at, &pool->servers[SERVER_ACTIVE]) {
			if (server_at(at)->host)
				server_at(at)->host->used++;
		}
	}
}

static int count_at(const struct pool *pool, const struct host *host)
{
	int count = 0;

	for (int state = 0; state < SERVER_STATES; state++) {
		LIST_EACH(node, &pool->servers[state])
			count += server_at(node)->host == host;
	}
	return count;
}

__attribute__((format(printf, 3, 4))) static void append(char *buf, size_t size, const char *format,
							 ...)
{
	size_t used = strlen(buf);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(buf + used, size - used, format, arguments);
	va_end(arguments);
}

/* Appends the pools with the most servers at the host. */
static void append_holders(char *buf, size_t size, const struct host *host)
{
	const struct pool *named[HOLDERS_NAMED] = { NULL };
	char database[PRINTABLE_NAME], user[PRINTABLE_NAME];

	for (int count = 0; count < HOLDERS_NAMED; count++) {
		int most = 0;

		LIST_EACH(node, &host->pools->all) {
			int here = count_at(pool_at(node), host);
			bool is_named = false;

			for (int i = 0; i < count; i++)
				is_named |= named[i] == pool_at(node);
			if (!is_named && here > most) {
				most = here;
				named[count] = pool_at(node);
			}
		}
		if (most > 0)
			append(buf, size, "%s%d of %s/%s", count == 0 ? ": " : ", ", most,
			       printable_name(named[count]->database->name, database,
					      sizeof(database)),
			       printable_name(named[count]->user->name, user, sizeof(user)));
	}
}

const char *pool_hosts_text(const struct pool *pool, char *buf, size_t size)
{
	*buf = '\0';
	for (unsigned i = 0; i < pool->place_count; i++) {
		const struct host *host = pool->places[i].host;

		if (!host_is_full(host))
			continue;
		append(buf, size,
		       "%sthe host %s has %lld of %lld server connections (max_host_connections)",
		       *buf ? "; " : "", host->key, (long long)host->servers->used,
		       (long long)host->servers->limit);
		append_holders(buf, size, host);
	}
	return buf;
}
