/*
 * The invariants of the room as code: pools_check().
 *
 * Every count is recomputed from the lists, and every link is checked from both ends. Called at the
 * end of a turn, because within a turn a client that is ending may be ACTIVE without a server.
 */
#include "pool/host.h"
#include "pool/inside.h"
#include "pool/role.h"

#include "base/assert.h"

static void check_client(const struct pool *pool, const struct pool_client *client, int state)
{
	ASSERT(client->state == state && state != CLIENT_DEAD);
	ASSERT(client->pool == pool);
	ASSERT(client->counted == (client->login_user != NULL));
	if (client->link)
		ASSERT(client->link->link == client && client->link->pool == pool);
	else
		ASSERT(client->pins == 0);
	if (state == CLIENT_ACTIVE && !(pool && pool->database->is_console))
		ASSERT(client->link);
	if (state != CLIENT_ACTIVE && state != CLIENT_ACTIVE_CANCEL)
		ASSERT(!client->link);
}

static void invariants_check_server(const struct pool *pool, const struct pool_server *server,
				    int state)
{
	ASSERT(server->state == state && state != SERVER_DEAD);
	ASSERT(server->pool == pool);
	ASSERT(server->close_reason < REASONS);
	if (server->link)
		ASSERT(server->link->link == server);
	if (server->is_cancel) {
		ASSERT(state == SERVER_LOGIN || state == SERVER_ACTIVE_CANCEL);
		return;
	}
	ASSERT(state != SERVER_ACTIVE_CANCEL);
	ASSERT((server->link != NULL) == (state == SERVER_ACTIVE));
	ASSERT((server->opened != 0) == (state != SERVER_LOGIN));
}

static void check_pool(const struct pools *pools, const struct pool *pool, int *held)
{
	struct pool_allowance now = pool_allowance_of(pool);
	const struct list *used = &pool->servers[SERVER_USED], *idle = &pool->servers[SERVER_IDLE];
	int dedicated = 0, pinned = 0, internal_requests = 0, apart_logins = 0, live = 0;

	ASSERT(pool->pools == pools);
	*held += budget_is_awaited(&pool->wait_for_database) +
		 budget_is_awaited(&pool->wait_for_user) + budget_is_awaited(&pool->wait_for_host);
	ASSERT(pool->key.database == pool->database && pool->key.user == pool->user &&
	       pool->key.host == pool->host);
	ASSERT(pool->is_plain ==
		       (!pool->host && !pool->reads_sequences && !pool->database->roles) &&
	       (pool->parent == pool) == !pool->host);
	ASSERT(now.mode == pool->allowed.mode && now.link == pool->allowed.link &&
	       now.size == pool->allowed.size);
	ASSERT(now.reserve == pool->allowed.reserve &&
	       now.server_lifetime == pool->allowed.server_lifetime);
	ASSERT(pool->close_above == pool_close_above(pool) && pool->seats == 0);
	ASSERT(now.min_size == pool->allowed.min_size &&
	       now.max_pinned == pool->allowed.max_pinned);
	for (int state = 0; state < CLIENT_STATES; state++) {
		usec_t since = INT64_MIN;
		int count = 0;

		LIST_EACH(node, &pool->clients[state]) {
			const struct pool_client *client = client_at(node);

			check_client(pool, client, state);
			/* in WAITING only, because clients keep their time when they join a pool in
			   another state */
			if (state == CLIENT_WAITING)
				ASSERT(client->since >= since);
			since = client->since;
			dedicated += client->dedicated != 0;
			pinned += client->pins != 0;
			internal_requests += client->is_internal;
			count++;
		}
		ASSERT(count == pool->client_count[state]);
	}
	for (int state = 0; state < SERVER_STATES; state++) {
		usec_t since = INT64_MAX;
		int count = 0;

		LIST_EACH(node, &pool->servers[state]) {
			const struct pool_server *server = server_at(node);

			invariants_check_server(pool, server, state);
			if (state == SERVER_IDLE || state == SERVER_USED)
				ASSERT(server->since <= since);
			since = server->since;
			apart_logins += state == SERVER_LOGIN && server_is_apart(server);
			live += !server_is_apart(server);
			dedicated += server->dedicated != 0;
			count++;
		}
		ASSERT(count == pool->server_count[state]);
	}
	if (used->next != used && idle->prev != idle)
		ASSERT(pool->dedicated > 0 ||
		       server_at(used->next)->since <= server_at(idle->prev)->since);
	ASSERT(pinned == pool->pinned && internal_requests == pool->internal_requests);
	ASSERT(apart_logins == pool->apart_logins && live == pool->live &&
	       dedicated == pool->dedicated);
	ASSERT(pool_is_empty(pool) == (pool->idle_since != 0));
}

static void check_host(const struct host *host)
{
	int servers = 0, places = host->watcher != NULL;

	LIST_EACH(node, &host->pools->all) {
		const struct pool *pool = pool_at(node);

		for (unsigned i = 0; i < pool->place_count; i++)
			places += pool->places[i].host == host;
		places += pool->host == host;
		for (int state = 0; state < SERVER_STATES; state++) {
			LIST_EACH(server, &pool->servers[state]) {
				servers += server_at(server)->host == host &&
					   !server_at(server)->is_watcher;
				places += server_at(server)->host == host &&
					  server_at(server)->is_watcher;
				ASSERT(!server_at(server)->is_cancel || !server_at(server)->host);
			}
		}
	}
	for (const struct database *database = host->pools->databases; database;
	     database = database->hh.next) {
		const struct roles *roles = database->roles;

		for (unsigned i = 0; roles && i < roles->count; i++)
			places += roles->places[i].host == host;
		places += roles && roles->last == host;
	}
	for (const struct host *name = host->pools->hosts; name; name = name->hh.next) {
		for (unsigned i = 0; i < name->member_count; i++)
			places += name->members[i] == host;
	}
	places += host->held + host->is_disabled + host->is_looked_up;
	ASSERT(servers + places == host->users);
}

void pools_check(const struct pools *pools)
{
	int clients = 0, pool_count = 0, held = pools->hosts_exceeded;

	for (int state = 0; state < CLIENT_STATES; state++) {
		int count = 0;

		LIST_EACH(node, &pools->unauthenticated[state]) {
			check_client(NULL, client_at(node), state);
			count++;
		}
		ASSERT(count == pools->unauthenticated_count[state]);
		clients += !client_is_canceller((unsigned)state) ? count : 0;
	}
	LIST_EACH(node, &pools->all) {
		check_pool(pools, pool_at(node), &held);
		for (int state = 0; state < CLIENT_STATES; state++)
			clients += !client_is_canceller((unsigned)state)
					   ? pool_at(node)->client_count[state]
					   : 0;
		clients -= pool_at(node)->internal_requests;
		pool_count++;
	}
	ASSERT(clients == pools->clients);
	ASSERT(held <= pools->bell.shortages);
	ASSERT(pool_count == (int)HASH_COUNT(pools->by_key));
	for (const struct host *host = pools->hosts; host; host = host->hh.next)
		check_host(host);
	for (const struct database *database = pools->databases; database;
	     database = database->hh.next) {
		int servers = 0;

		LIST_EACH(node, &database->members) {
			const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

			ASSERT(pool->database == database);
			servers += pool->live;
		}
		ASSERT(database->is_console || !database->removed || servers == 0);
	}
	for (const struct user *user = pools->users; user; user = user->hh.next) {
		int members = 0;

		LIST_EACH(node, &user->members) {
			ASSERT(LIST_OBJECT(node, struct pool, of_user)->user == user);
			members++;
		}
		ASSERT(members == user->pools);
	}
	seats_check(pools->shared);
}
