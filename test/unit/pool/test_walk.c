/*
 * A seeded random walk: clients connect, query, release, disconnect and cancel; servers log in, fail and crash; an operator pauses and reloads; the
 * clock advances. Every invariant is checked after each step, and no budget is exceeded. Then faults stop, and every waiting client must be
 * served or refused. Most walks are over several worlds with one struct shared, which take their turns in any order: no client may wait while a
 * server of its pool is idle in another world.
 */
#include "base/log.h"
#include "fake.h"

#define STEPS 6000
#define SEEDS 12

static const char *const configurations[] = {
	"[pgbouncer]\npool_mode = transaction\ndefault_pool_size = 3\nreserve_pool_size = 1\nreserve_pool_timeout = 1\n"
	"max_db_connections = 5\nmax_user_connections = 4\nmax_host_connections = 6\nserver_lifetime = 20\nserver_idle_timeout = 15\n"
	"query_wait_timeout = 60\nserver_login_retry = 3\nserver_check_delay = 2\npool_idle_timeout = 5\nautodb_idle_timeout = 6\n"
	"[databases]\napp = host=127.0.0.2,127.0.0.1\nforced = host=127.0.0.1 user=ann min_pool_size=1\n* = host=127.0.0.1\n",
	"[pgbouncer]\npool_mode = session\ndefault_pool_size = 2\nmax_db_connections = 4\nserver_lifetime = 0\n"
	"query_wait_timeout = 30\nserver_login_retry = 0\nserver_check_delay = 0\nserver_round_robin = 1\n"
	"[databases]\napp = host=127.0.0.2\nforced = user=bob\n* = host=127.0.0.1\n"
	"[users]\nann = query_wait_timeout=5\n",
	"[pgbouncer]\npool_mode = statement\ndefault_pool_size = 0\nmax_user_connections = 3\nserver_check_query =\n"
	"query_wait_timeout = 30\nserver_login_retry = 2\nserver_lifetime = 7\nmin_pool_size = 2\nmax_host_connections = 2\n"
	"[databases]\napp = host=127.0.0.1\n",
};
#define CONFIGURATIONS 3

static const char *const database_names[] = { "app", "forced", "auto1", "auto2" };
static const char *const user_names[] = { "ann", "bob", "carl" };
static char params[3];
static uint64_t state;

static unsigned chance(unsigned most)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 11) % most;
}

static int64_t excess_allowed;

static int64_t over(const struct budget *budget, int64_t reserve)
{
	return budget->limit > 0 && budget->used > budget->limit + reserve ? budget->used - budget->limit - reserve : 0;
}

/* Returns by how much all budgets together are exceeded. */
static int64_t excess(void)
{
	int64_t sum = over(&fake.shared->lookup_servers, 0);

	for (int i = 0; i < fake.world_count; i++) {
		LIST_EACH(node, &fake.worlds[i]->all) {
			const struct pool *pool = LIST_OBJECT(node, struct pool, node);

			sum += over(pool->budget, pool->allowed.reserve);
		}
		for (const struct database *d = fake.worlds[i]->databases; d; d = d->hh.next)
			sum += over(d->servers, 0);
		for (const struct user *u = fake.worlds[i]->users; u; u = u->hh.next)
			sum += over(u->servers, 0);
		for (const struct host *h = fake.worlds[i]->hosts; h; h = h->hh.next)
			sum += over(h->servers, 0);
	}
	return sum;
}

static struct fake_client *some_client(unsigned wanted_states)
{
	for (int i = 0; i < 40 && fake.client_count > 0; i++) {
		int back = (int)chance(120);
		struct fake_client *client = back < fake.client_count ? c(fake.client_count - back) : NULL;

		if (client && (wanted_states & 1u << client->pooled.state))
			return client;
	}
	return NULL;
}

static struct fake_server *some_server(unsigned wanted_states)
{
	for (int i = 0; i < 40 && fake.server_count > 0; i++) {
		int back = (int)chance(60);
		struct fake_server *server = back < fake.server_count ? s(fake.server_count - back) : NULL;

		if (server && (wanted_states & 1u << server->pooled.state))
			return server;
	}
	return NULL;
}

/* An event of this client, or of this server, is one of its world. */
static struct fake_client *in_world_of_client(struct fake_client *client)
{
	if (client)
		fake.pools = client->pools;
	return client;
}

static struct fake_server *in_world_of_server(struct fake_server *server)
{
	if (server)
		fake.pools = server->pooled.pool->pools;
	return server;
}

static void come(void)
{
	const char *name = database_names[chance(4)], *user = user_names[chance(3)];
	struct database *database = database_get(fake.pools, name, true, fake.now);
	struct fake_client *client;

	if (!database || fake.shared->clients.used > 40 || fake.client_count + 2 > FAKE_MOST)
		return;
	if (chance(10) == 0) {
		fake_cancel(name, user);
		return;
	}
	if (chance(10) == 0) {
		fake_internal_request(name, user);
		return;
	}
	client = fake_join_as(name, user, chance(4) ? CLIENT_IDLE : CLIENT_WAITING_LOGIN);
	client->pooled.startup = (const struct params *)(const void *)&params[chance(3)];
}

static void log_in(void)
{
	struct fake_server *server = in_world_of_server(some_server(1u << SERVER_LOGIN));

	if (!server)
		return;
	if (chance(5) == 0) {
		fake.failure = (enum login_failure)chance(4);
		fake_login_fails(server);
		return;
	}
	fake_login(server);
	/* The parameters are known: every client that waited for them continues. */
	for (int i = 1; i <= fake.client_count; i++) {
		if (c(i) && c(i)->pooled.state == CLIENT_WAITING_LOGIN && c(i)->pooled.pool == server->pooled.pool)
			pool_client_become(fake.pools, &c(i)->pooled, CLIENT_IDLE, fake.now);
	}
}

static void give_back(void)
{
	static const enum server_state after[8] = {
		SERVER_IDLE, SERVER_IDLE, SERVER_IDLE, SERVER_IDLE, SERVER_IDLE, SERVER_TESTED, SERVER_LOOKUP, SERVER_BEING_CANCELED
	};
	struct fake_server *server = in_world_of_server(some_server(1u << SERVER_ACTIVE));
	enum close_reason why;

	if (!server)
		return;
	why = pool_server_is_spent(&server->pooled, fake.now);
	if (why != REASON_NONE)
		pool_unlink(&server->pooled, SERVER_DEAD, false, fake.now);
	else
		pool_unlink(&server->pooled, after[chance(8)], false, fake.now);
}

static void finish(void)
{
	struct fake_server *server = in_world_of_server(some_server(1u << SERVER_TESTED | 1u << SERVER_LOOKUP |
								     1u << SERVER_BEING_CANCELED | 1u << SERVER_ACTIVE_CANCEL));

	if (!server)
		return;
	if (server->pooled.is_cancel || chance(8) == 0)
		fake_server_dies(server, REASON_TEST_FAILED);
	else
		pool_server_become(&server->pooled, SERVER_IDLE, fake.now);
}

static void pause_app(bool on)
{
	struct database *app = database_find(fake.pools, "app");

	if (app)
		pools_pause(fake.pools, app, on);
	if (!on)
		pools_pause(fake.pools, NULL, false);
}

/* A command of the console acts on each world. */
static void operate(void)
{
	unsigned what = chance(10), all = chance(4);

	for (int i = 0; i < fake.world_count; i++) {
		fake_world(i);
		switch (what) {
		case 1:
			pools_kill(fake.pools, all ? database_find(fake.pools, "app") : NULL);
			break;
		case 2:
			pools_reconnect(fake.pools, NULL);
			break;
		case 3:
			break;
		default:
			pause_app(what == 0);
		}
	}
	if (what == 3) {
		fake_reload(configurations[chance(CONFIGURATIONS)]);
		excess_allowed = excess();
	}
}

static void stir(void)
{
	struct fake_client *client;
	struct fake_server *server;

	switch (chance(16)) {
	case 0: case 1: case 2:
		come();
		break;
	case 3: case 4: case 5: case 6:
		if ((client = in_world_of_client(some_client(1u << CLIENT_IDLE))))
			fake_want(client);
		break;
	case 7: case 8: case 9:
		give_back();
		break;
	case 10: case 11:
		log_in();
		break;
	case 12:
		finish();
		break;
	case 13:
		if ((client = in_world_of_client(some_client(~0u & ~(1u << CLIENT_DEAD | 1u << CLIENT_ACTIVE_CANCEL)))))
			fake_leave(client);
		break;
	case 14:
		if (chance(4) == 0 && (server = in_world_of_server(some_server(~0u & ~(1u << SERVER_DEAD)))))
			fake_server_dies(server, REASON_SERVER_CRASHED);
		break;
	default:
		if (chance(12) == 0)
			operate();
	}
}

/* Each step of any world keeps within the limits. A RELOAD may lower them, and then the excess only falls. */
static void check_limits(void)
{
	CHECK(excess() <= excess_allowed);
	excess_allowed = excess();
}

static void turn(void)
{
	pools_schedule(fake.pools, fake.now);
	check_limits();
	if (chance(3) == 0)
		pools_maintain(fake.pools, fake.now);
	check_limits();
	pools_check(fake.pools);
	fake_reap();
	fake_diary();
	fake.now += chance(20) ? (usec_t)chance(50000) : (usec_t)chance(3000000);
}

/* After two turns of each world in which nothing happens, no server is idle that a client of another world could use. */
static void check_idle(void)
{
	for (int i = 0; i < 2 * fake.world_count; i++) {
		fake_world(i % fake.world_count);
		pools_schedule(fake.pools, fake.now);
		check_limits();
	}
	fake_reap();
	fake_diary();
	for (int i = 0; i < fake.world_count; i++) {
		LIST_EACH(node, &fake.worlds[i]->all) {
			const struct pool *pool = LIST_OBJECT(node, struct pool, node);

			LIST_EACH(wait, &pool->budget->waiting) {
				const struct pool *other = LIST_OBJECT(wait, struct budget_wait, node)->owner;

				CHECK(other->pools == pool->pools || pool->server_count[SERVER_IDLE] == 0 ||
				      pool->client_count[CLIENT_WAITING] > 0 || pool->database->paused ||
				      pool->allowed.mode == MODE_SESSION);
			}
		}
	}
}

static int waiting(void)
{
	int count = 0;

	for (int i = 0; i < fake.world_count; i++) LIST_EACH(node, &fake.worlds[i]->all) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, node);

		count += pool->client_count[CLIENT_WAITING] + pool->client_count[CLIENT_WAITING_LOGIN] +
			 pool->client_count[CLIENT_WAITING_CANCEL];
	}
	return count;
}

/* No new client queues, every login succeeds, every lent server is released. */
static void settle(void)
{
	for (int i = 0; i < fake.world_count; i++) {
		fake_world(i);
		pause_app(false);
	}
	for (int round = 0; round < 400 && waiting() > 0; round++) {
		for (int i = 1; i <= fake.server_count; i++) {
			if (!in_world_of_server(s(i)))
				continue;
			switch (s(i)->pooled.state) {
			case SERVER_LOGIN:
				fake_login(s(i));
				for (int j = 1; j <= fake.client_count; j++) {
					if (c(j) && c(j)->pooled.state == CLIENT_WAITING_LOGIN &&
					    c(j)->pooled.pool == s(i)->pooled.pool)
						pool_client_become(fake.pools, &c(j)->pooled, CLIENT_IDLE, fake.now);
				}
				break;
			case SERVER_ACTIVE:
				fake_release(s(i));
				break;
			case SERVER_TESTED:
			case SERVER_LOOKUP:
			case SERVER_BEING_CANCELED:
				pool_server_become(&s(i)->pooled, SERVER_IDLE, fake.now);
				break;
			case SERVER_ACTIVE_CANCEL:
				fake_server_dies(s(i), REASON_CANCEL_DONE);
				break;
			default:
				break;
			}
		}
		for (int i = 0; i < fake.world_count; i++) {
			fake_world(i);
			pools_schedule(fake.pools, fake.now);
			pools_maintain(fake.pools, fake.now);
			pools_check(fake.pools);
		}
		fake_reap();
		fake_diary();
		/* four seconds in all: longer than server_login_retry; query_wait_timeout does not apply */
		fake.now += 10000;
	}
	CHECK_INT(waiting(), 0);
}

static void walk(uint64_t seed, int worlds)
{
	state = seed * 0x9e3779b97f4a7c15u;
	fake_start_worlds(configurations[seed % CONFIGURATIONS], worlds);
	excess_allowed = 0;
	for (int step = 0; step < STEPS && unit_faults == 0; step++) {
		fake_world((int)chance((unsigned)worlds));
		stir();
		fake_world((int)chance((unsigned)worlds));
		if (chance(2) == 0)
			turn();
		if (worlds > 1 && chance(200) == 0)
			check_idle();
	}
	settle();
	if (unit_faults > 0)
		fprintf(stderr, "seed %llu, %d worlds\n", (unsigned long long)seed, worlds);
	fake_end();
}

TEST(random_walk_keeps_invariants_and_serves_every_client)
{
	log_configure(&(struct log_config){ .quiet = true });
	for (uint64_t seed = 1; seed <= SEEDS && unit_faults == 0; seed++)
		walk(seed, 1);
	log_close();
}

TEST(worlds_that_share_budgets_exceed_none_and_serve_every_client)
{
	int moves = 0;

	log_configure(&(struct log_config){ .quiet = true });
	for (uint64_t seed = 1; seed <= SEEDS && unit_faults == 0; seed++) {
		walk(seed, 2 + (int)(seed % (FAKE_WORLDS - 1)));
		moves += fake.moves;
	}
	CHECK(moves > 100);
	log_close();
}

UNIT_MAIN
