/*
 * The invariants of room pool as code: every count is recomputed from the lists, and every link is checked from both ends.
 *
 * Called at the end of a turn: within a turn, a client that is ending may be ACTIVE without a server.
 */
#include "pool/inside.h"

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

static void check_server(const struct pool *pool, const struct pool_server *server, int state)
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

static void check_clients(const struct pool *pool, int *dedicated)
{
	int pinned = 0;

	for (int state = 0; state < CLIENT_STATES; state++) {
		usec_t since = INT64_MIN;
		int count = 0;

		LIST_EACH(node, &pool->clients[state]) {
			const struct pool_client *client = client_at(node);

			check_client(pool, client, state);
			/* A client that joined in the state it has keeps the time it had. */
			if (state == CLIENT_WAITING)
				ASSERT(client->since >= since);
			since = client->since;
			*dedicated += client->dedicated != 0;
			pinned += client->pins != 0;
			count++;
		}
		ASSERT(count == pool->client_count[state]);
	}
	ASSERT(pinned == pool->pinned);
}

static void check_servers(const struct pool *pool, int *dedicated, int *for_internal)
{
	int cancel_logins = 0, live = 0;
	const struct list *used = &pool->servers[SERVER_USED], *idle = &pool->servers[SERVER_IDLE];

	for (int state = 0; state < SERVER_STATES; state++) {
		usec_t since = INT64_MAX;
		int count = 0;

		LIST_EACH(node, &pool->servers[state]) {
			const struct pool_server *server = server_at(node);

			check_server(pool, server, state);
			if (state == SERVER_IDLE || state == SERVER_USED)
				ASSERT(server->since <= since);
			since = server->since;
			cancel_logins += state == SERVER_LOGIN && server->is_cancel;
			live += !server->is_cancel;
			*dedicated += server->dedicated != 0;
			*for_internal += server->for_internal;
			count++;
		}
		ASSERT(count == pool->server_count[state]);
	}
	ASSERT(cancel_logins == pool->cancel_logins);
	ASSERT(live == pool->live);
	if (used->next != used && idle->prev != idle)
		ASSERT(pool->dedicated > 0 || server_at(used->next)->since <= server_at(idle->prev)->since);
}

static void check_allowance(const struct pool *pool)
{
	struct pool_allowance now = pool_allowance_of(pool);

	ASSERT(now.mode == pool->allowed.mode && now.link == pool->allowed.link && now.size == pool->allowed.size);
	ASSERT(now.reserve == pool->allowed.reserve && now.server_lifetime == pool->allowed.server_lifetime);
}

static int internal_requests(const struct pool *pool)
{
	int count = 0;

	for (int state = 0; state < CLIENT_STATES; state++) {
		LIST_EACH(node, &pool->clients[state])
			count += client_at(node)->is_internal;
	}
	return count;
}

static void check_pool(const struct pools *pools, const struct pool *pool, int *for_internal)
{
	int dedicated = 0;

	ASSERT(pool->pools == pools);
	ASSERT(pool->key.database == pool->database && pool->key.user == pool->user);
	check_allowance(pool);
	check_clients(pool, &dedicated);
	check_servers(pool, &dedicated, for_internal);
	ASSERT(dedicated == pool->dedicated);
	ASSERT(internal_requests(pool) == pool->internal_requests);
	ASSERT(pool_is_empty(pool) == (pool->idle_since != 0));
}

static void check_database(const struct database *database)
{
	int servers = 0, clients = 0;

	LIST_EACH(node, &database->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		ASSERT(pool->database == database);
		servers += pool_live(pool);
		for (int state = 0; state < CLIENT_STATES; state++) {
			LIST_EACH(client, &pool->clients[state])
				clients += client_at(client)->counted;
		}
	}
	ASSERT(servers == database->servers);
	ASSERT(clients == database->clients);
	ASSERT(database->is_console || !database->removed || servers == 0);
}

/* Clients of a user can be in pools of other users (forced users), so they are summed over all pools. */
static int check_user(const struct user *user)
{
	int servers = 0, pools = 0;

	LIST_EACH(node, &user->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_user);

		ASSERT(pool->user == user);
		servers += pool_live(pool);
		pools++;
	}
	ASSERT(servers == user->servers);
	ASSERT(pools == user->pools);
	ASSERT(user->clients >= 0);
	return user->clients;
}

static bool is_client_of_pooler(int state)
{
	return state != CLIENT_WAITING_CANCEL && state != CLIENT_ACTIVE_CANCEL;
}

void pools_check(const struct pools *pools)
{
	int clients = 0, counted = 0, of_users = 0, pool_count = 0, for_internal = 0;

	for (int state = 0; state < CLIENT_STATES; state++) {
		int count = 0;

		LIST_EACH(node, &pools->unauthenticated[state]) {
			check_client(NULL, client_at(node), state);
			count++;
		}
		ASSERT(count == pools->unauthenticated_count[state]);
		clients += is_client_of_pooler(state) ? count : 0;
	}
	LIST_EACH(node, &pools->all) {
		check_pool(pools, pool_at(node), &for_internal);
		for (int state = 0; state < CLIENT_STATES; state++)
			clients += is_client_of_pooler(state) ? pool_at(node)->client_count[state] : 0;
		clients -= pool_at(node)->internal_requests;
		pool_count++;
	}
	ASSERT(clients == pools->clients);
	ASSERT(for_internal == pools->internal_servers);
	ASSERT(pool_count == (int)HASH_COUNT(pools->by_key));
	for (const struct database *database = pools->databases; database; database = database->hh.next) {
		check_database(database);
		counted += database->clients;
	}
	for (const struct user *user = pools->users; user; user = user->hh.next)
		of_users += check_user(user);
	ASSERT(counted == of_users);
}
