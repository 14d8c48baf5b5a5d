#ifndef FAKE_H
#define FAKE_H

/*
 * A fake session room for the tests of the pool room. Opening, testing and closing act on structs only and finish at once. A diary lists the
 * requested actions, for example "drop s1 EVICTED, dial c2". Clients are c1, c2, ... and servers s1, s2, ... in order of creation. The clock advances
 * only when a test advances it.
 * Several worlds with one struct shared run one after the other: fake.pools is the current world.
 */
#include "base/assert.h"
#include "pool/host.h"
#include "pool/pool.h"
#include "unit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#define FAKE_MOST 20000
#define FAKE_WORLDS 5

struct fake_client {
	struct pool_client pooled;
	struct pools *pools;		/* of its world */
	int id;
	enum close_reason why;		/* the client was refused, or dropped with its server */
	bool is_cancel;
};
struct fake_server {
	struct pool_server pooled;
	int id;
	enum close_reason why;
	struct fake_client *canceller;
};

static struct {
	struct shared *shared;
	struct pools *pools, *worlds[FAKE_WORLDS];
	int world_count, moves;
	usec_t now;
	struct fake_client *clients[FAKE_MOST];
	struct fake_server *servers[FAKE_MOST];
	int client_count, server_count;
	char diary[4096];
	bool dial_fails;		/* a dial fails immediately */
	enum login_failure failure;	/* fake_login_fails() reports this kind of failure */
	bool dial_does_nothing;		/* a dial cannot allocate its server */
	int hosts_asked, pools_ended;
} fake;

static inline struct fake_client *fake_client_of(struct pool_client *c) { return LIST_OBJECT(c, struct fake_client, pooled); }
static inline struct fake_server *fake_server_of(struct pool_server *s) { return LIST_OBJECT(s, struct fake_server, pooled); }
/* Clients and servers are indexed by their number in the diary. */
static inline struct fake_client *c(int id) { return fake.clients[id]; }
static inline struct fake_server *s(int id) { return fake.servers[id]; }

__attribute__((format(printf, 1, 2))) static inline void fake_note(const char *format, ...)
{
	size_t used = strlen(fake.diary);
	va_list args;

	if (sizeof(fake.diary) - used < 100)
		return;
	if (used > 0)
		used += (size_t)snprintf(fake.diary + used, sizeof(fake.diary) - used, ", ");
	va_start(args, format);
	vsnprintf(fake.diary + used, sizeof(fake.diary) - used, format, args);
	va_end(args);
}

/* Returns the diary entries since the previous call. */
static inline const char *fake_diary(void)
{
	static char read[sizeof(fake.diary)];

	strcpy(read, fake.diary);
	fake.diary[0] = '\0';
	return read;
}

static inline void fake_client_dies(struct fake_client *client, enum close_reason why)
{
	client->why = why;
	pool_client_become(client->pools, &client->pooled, CLIENT_DEAD, fake.now);
}

static inline void fake_server_dies(struct fake_server *server, enum close_reason why)
{
	struct pool_client *client = server->pooled.link;

	server->why = why;
	if (server->canceller) {
		fake_client_dies(server->canceller, why);
		server->canceller = NULL;
	}
	if (client) {
		pool_unlink(&server->pooled, SERVER_DEAD, true, fake.now);
		fake_client_dies(fake_client_of(client), why);
	} else {
		pool_server_become(&server->pooled, SERVER_DEAD, fake.now);
	}
}

static inline void fake_lend(struct pool_server *server, struct pool_client *client, usec_t waited)
{
	ASSERT(waited >= 0);
	fake_note("lend s%d c%d", fake_server_of(server)->id, fake_client_of(client)->id);
	ASSERT(server->link == client && client->link == server);
}

static inline struct fake_server *fake_server_new(struct pool *pool, const struct pool_client *whom, bool is_cancel)
{
	struct fake_server *server = calloc(1, sizeof(*server));

	server->id = ++fake.server_count;
	fake.servers[server->id] = server;
	server->pooled.startup = whom ? whom->startup : NULL;
	server->pooled.dedicated = whom && !is_cancel ? whom->dedicated : 0;
	pool_server_init(&server->pooled, pool, is_cancel, fake.now);
	for (unsigned i = 0; !is_cancel && !server->pooled.host && pool_places(pool) && i < pool->place_count; i++)
		pool_server_take_host(&server->pooled, pool->places[i].host);
	return server;
}

static inline void fake_dial(struct pool *pool, struct pool_client *whom)
{
	if (whom)
		fake_note("dial c%d", fake_client_of(whom)->id);
	else
		fake_note("dial");
	if (fake.dial_does_nothing)
		return;
	if (fake.dial_fails) {
		pool_login_failed(pool, fake.failure, fake.now);
		fake_server_dies(fake_server_new(pool, whom, false), REASON_CONNECT_FAILED);
		return;
	}
	fake_server_new(pool, whom, false);
}

static inline void fake_take_reserve(struct pool *pool, struct pool_client *client)
{
	(void)pool;
	(void)client;
}

static inline void fake_test(struct pool_server *server)
{
	ASSERT(server->state == SERVER_TESTED);
	fake_note("test s%d", fake_server_of(server)->id);
}

static inline void fake_drop(struct pool_server *server, enum close_reason why)
{
	fake_note("drop s%d %s", fake_server_of(server)->id, close_reason_rows[why].name);
	fake_server_dies(fake_server_of(server), why);
}

static inline void fake_refuse(struct pool_client *client, enum close_reason why)
{
	ASSERT(!client->link);
	fake_note("refuse c%d %s", fake_client_of(client)->id, close_reason_rows[why].name);
	fake_client_dies(fake_client_of(client), why);
}

static inline void fake_notify(struct pool_client *client, usec_t waited)
{
	fake_note("notify c%d %lld", fake_client_of(client)->id, (long long)(waited / USEC));
}

static inline void fake_dial_cancel(struct pool *pool, struct pool_client *canceller)
{
	fake_note("cancel c%d", fake_client_of(canceller)->id);
	fake_server_new(pool, canceller, true)->canceller = fake_client_of(canceller);
	pool_client_become(pool->pools, canceller, CLIENT_ACTIVE_CANCEL, fake.now);
}

static inline bool fake_yield(struct pool *pool)
{
	(void)pool;
	return false;
}

static inline void fake_pool_end(struct pool *pool)
{
	(void)pool;
	fake.pools_ended++;
}

static inline void fake_client_ignored(struct pool_client *client)
{
	(void)client;
}

static inline bool fake_recall(struct pool_server *server)
{
	(void)server;
	return false;
}

static inline bool fake_move(struct pool_server *server, struct pool *to)
{
	bool has_moved = pool_server_move(server, to, fake.now);

	fake.moves += has_moved;
	fake_note("move s%d", fake_server_of(server)->id);
	/* the parameters are known: every client that waited for them continues */
	LIST_EACH_SAFE(node, &to->clients[CLIENT_WAITING_LOGIN])
		pool_client_become(to->pools, LIST_OBJECT(node, struct pool_client, node), CLIENT_IDLE, fake.now);
	return has_moved;
}

static inline void fake_ask_hosts(struct pools *pools)
{
	(void)pools;
	fake.hosts_asked++;
}

static const struct pool_ops fake_ops = {
	.lend = fake_lend, .dial = fake_dial, .take_reserve = fake_take_reserve, .test = fake_test, .drop = fake_drop, .refuse = fake_refuse,
	.notify = fake_notify, .dial_cancel = fake_dial_cancel, .pool_end = fake_pool_end, .yield = fake_yield,
	.moved = fake_client_ignored, .judge = fake_client_ignored, .recall = fake_recall, .ask_hosts = fake_ask_hosts,
	.move = fake_move,
};

static inline struct conf *fake_conf(const char *ini)
{
	struct conf_problems problems = { NULL, 0, 0 };
	char path[] = "/tmp/pgweir-test-XXXXXX";
	int fd = mkstemp(path);
	struct conf *conf;

	ASSERT(fd >= 0 && write(fd, ini, strlen(ini)) == (ssize_t)strlen(ini));
	close(fd);
	conf = conf_load(path, &problems);
	for (size_t i = 0; i < problems.count; i++) {
		if (!problems.items[i].is_warning)
			fprintf(stderr, "%d: %s\n", problems.items[i].line, problems.items[i].text);
	}
	conf_problems_free(&problems);
	unlink(path);
	ASSERT(conf);
	return conf;
}

/* Makes this world the current one. */
static inline void fake_world(int world) { fake.pools = fake.worlds[world]; }

/* Loads this configuration at second 1000, for `count` worlds. */
static inline void fake_start_worlds(const char *ini, int count)
{
	struct conf *conf = fake_conf(ini);

	memset(&fake, 0, sizeof(fake));
	fake.now = 1000 * USEC;
	fake.shared = shared_new();
	for (fake.world_count = 0; fake.world_count < count; fake.world_count++)
		fake.worlds[fake.world_count] = pools_new(&fake_ops, fake.shared, conf, fake.now);
	fake_world(0);
	conf_drop(&conf);
}

static inline void fake_start(const char *ini) { fake_start_worlds(ini, 1); }

static inline void fake_reload(const char *ini)
{
	struct conf *conf = fake_conf(ini);

	for (int i = 0; i < fake.world_count; i++)
		pools_reconfigure(fake.worlds[i], conf, fake.now);
	conf_drop(&conf);
	pools_check(fake.pools);
}

/* Frees dead clients and servers, as the session room does every turn. */
static inline void fake_reap(void)
{
	for (int i = 1; i <= fake.client_count; i++) {
		if (fake.clients[i] && fake.clients[i]->pooled.state == CLIENT_DEAD) {
			free(fake.clients[i]);
			fake.clients[i] = NULL;
		}
	}
	for (int i = 1; i <= fake.server_count; i++) {
		if (fake.servers[i] && fake.servers[i]->pooled.state == SERVER_DEAD) {
			free(fake.servers[i]);
			fake.servers[i] = NULL;
		}
	}
}

static inline void fake_end(void)
{
	for (int i = 1; i <= fake.server_count; i++) {
		if (fake.servers[i] && fake.servers[i]->pooled.state != SERVER_DEAD)
			fake_server_dies(fake.servers[i], REASON_NONE);
	}
	for (int i = 1; i <= fake.client_count; i++) {
		if (fake.clients[i] && fake.clients[i]->pooled.state != CLIENT_DEAD)
			fake_client_dies(fake.clients[i], REASON_NONE);
	}
	for (int i = 0; i < fake.world_count; i++) {
		pools_check(fake.worlds[i]);
		CHECK_INT(fake.worlds[i]->clients, 0);
	}
	fake_reap();
	for (int i = 0; i < fake.world_count; i++)
		pools_free(&fake.worlds[i]);
	shared_free(&fake.shared);
}

static inline struct pool *fake_pool(const char *database, const char *user)
{
	return pool_get(database_get(fake.pools, database, true, fake.now), user_get(fake.pools, user), false, fake.now);
}

static inline struct fake_client *fake_client_new(void)
{
	struct fake_client *client = calloc(1, sizeof(*client));

	client->id = ++fake.client_count;
	fake.clients[client->id] = client;
	client->pools = fake.pools;
	pool_client_init(fake.pools, &client->pooled, fake.now);
	return client;
}

/* Adds a client that has logged in or, with `state`, is about to log in. */
static inline struct fake_client *fake_join_as(const char *database, const char *user, enum client_state state)
{
	struct fake_client *client = fake_client_new();

	pool_client_join(&client->pooled, fake_pool(database, user), user_get(fake.pools, user));
	if (state == CLIENT_WAITING_LOGIN)
		pool_client_become(fake.pools, &client->pooled, CLIENT_AUTH, fake.now);
	pool_client_become(fake.pools, &client->pooled, state, fake.now);
	return client;
}

static inline struct fake_client *fake_join(const char *database, const char *user)
{
	return fake_join_as(database, user, CLIENT_IDLE);
}

/* Adds an internal request that is queued in the user's own pool or already has its server. */
static inline struct fake_client *fake_internal_request(const char *database, const char *user)
{
	struct fake_client *client = calloc(1, sizeof(*client));
	struct database *asked = database_get(fake.pools, database, true, fake.now);

	client->id = ++fake.client_count;
	fake.clients[client->id] = client;
	client->pools = fake.pools;
	client->pooled.is_internal = true;
	pool_client_init(fake.pools, &client->pooled, fake.now);
	pool_client_join(&client->pooled, pool_get(asked, user_get(fake.pools, user), true, fake.now), NULL);
	pool_client_become(fake.pools, &client->pooled, CLIENT_IDLE, fake.now);
	pool_want(&client->pooled, fake.now);
	return client;
}

/* Adds a cancel request for a client of the pool. */
static inline struct fake_client *fake_cancel(const char *database, const char *user)
{
	struct fake_client *client = fake_client_new();

	client->is_cancel = true;
	pool_client_join(&client->pooled, fake_pool(database, user), NULL);
	pool_client_become(fake.pools, &client->pooled, CLIENT_WAITING_CANCEL, fake.now);
	return client;
}

/* The client sends a query. Returns true if the client already has a server. */
static inline bool fake_want(struct fake_client *client)
{
	return pool_want(&client->pooled, fake.now) != NULL;
}

static inline const char *fake_schedule(void)
{
	pools_schedule(fake.pools, fake.now);
	pools_check(fake.pools);
	return fake_diary();
}

static inline struct fake_client *fake_ask(const char *database, const char *user)
{
	struct fake_client *client = fake_join(database, user);

	fake_want(client);
	return client;
}

static inline void fake_login(struct fake_server *server)
{
	if (server->pooled.is_cancel) {
		pool_server_become(&server->pooled, SERVER_ACTIVE_CANCEL, fake.now);
		return;
	}
	pool_login_succeeded(server->pooled.pool);
	pool_server_become(&server->pooled, SERVER_IDLE, fake.now);
}

static inline void fake_login_fails(struct fake_server *server)
{
	if (!server->pooled.is_cancel)
		pool_login_failed(server->pooled.pool, fake.failure, fake.now);
	fake_server_dies(server, REASON_CONNECT_FAILED);
}

/* Ends the transaction (or session). Returns the reason for which the server was closed, or REASON_NONE. */
static inline enum close_reason fake_release(struct fake_server *server)
{
	enum close_reason why = pool_server_is_spent(&server->pooled, fake.now);

	server->why = why;
	pool_unlink(&server->pooled, why == REASON_NONE ? SERVER_IDLE : SERVER_DEAD, false, fake.now);
	return why;
}

/* Ends the client, and its server too if the server is in the middle of a transaction. */
static inline void fake_leave(struct fake_client *client)
{
	if (client->pooled.link)
		fake_server_dies(fake_server_of(client->pooled.link), REASON_CLIENT_EOF);
	else
		fake_client_dies(client, REASON_CLIENT_EOF);
}

static inline void fake_pass(double seconds)
{
	fake.now += (usec_t)(seconds * (double)USEC);
}

/* Advances the clock, then runs maintenance and the scheduler as a turn does. */
static inline const char *fake_later(double seconds)
{
	fake_pass(seconds);
	pools_maintain(fake.pools, fake.now);
	return fake_schedule();
}

/* Makes a pool with `count` idle servers and as many idle clients. */
static inline void fake_fill(const char *database, const char *user, int count)
{
	int first = fake.server_count;

	for (int i = 0; i < count; i++)
		fake_ask(database, user);
	for (int i = 1; i <= count; i++) {
		fake_schedule();
		if (fake.server_count < first + i)
			break;
		fake_login(s(first + i));
		fake_schedule();
	}
	for (int i = first + 1; i <= fake.server_count; i++) {
		if (s(i)->pooled.state == SERVER_ACTIVE)
			fake_release(s(i));
	}
	fake_schedule();
}

#endif
