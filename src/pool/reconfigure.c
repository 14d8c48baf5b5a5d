/*
 * A RELOAD as policy sees it: the new snapshot is complete and checked; here it comes into force.
 *
 * Every database and user is pointed at its place in the new snapshot first; then what does not fit any
 * more goes. Servers of a database that moved (host, port, name, user, password, start-up parameters) close:
 * idle ones now, others when they are released. Nothing else closes a server, so a RELOAD that changes
 * nothing keeps every connection, and one that goes to B and back to A opens servers for A again. Clients
 * stay, unless their database is gone, or its forced user changed: then their pool is not theirs any more.
 *
 * A database that is taken out of the file drops its clients even when "*" would cover its name: a client
 * that comes again gets the fallback's, with nothing left of the other: no pause, no failed login, nothing that its
 * servers had told. One that was made from "*" follows the changes of "*".
 *
 * Invariant: when this ends, nothing points into the old snapshot except databases that are removed and
 * hold it.
 */
#include "pool/inside.h"

#include <string.h>

static void database_follow(struct database *database, struct conf *conf, const struct conf_database *to)
{
	struct conf *old = database->conf_held;

	database->conf = to;
	database->conf_held = conf_hold(conf);
	conf_drop(&old);
	database_renew_allowances(database);
}

/* What was learned from its servers is void. */
static void pool_unlearn(struct pool *pool)
{
	pool_login_forgiven(pool);
	pool->logins_succeeded = 0;
	pool->generation++;
}

/* The database itself goes with the next sweep, and "*" or another RELOAD may take its name over before: as one that begins. */
static void database_remove(struct database *database, usec_t now)
{
	if (!database->stray)
		database_log_dropped(database);
	database->removed = true;
	database->paused = database->disabled = false;
	database->idle_since = now;
	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		pool_kill(pool, REASON_DATABASE_REMOVED);
		pool_unlearn(pool);
		if (pool->pools->ops->pool_end)
			pool->pools->ops->pool_end(pool);
	}
}

/* Servers of the pool connect elsewhere from now on. */
static void pool_move(struct pool *pool)
{
	pool_retire_all(pool, REASON_CONNECT_STRING, REASON_DATABASE_CHANGED);
	pool_unlearn(pool);
}

static bool is_misplaced(const struct pool_client *client)
{
	const struct pool *pool = client->pool;
	const char *forced = pool->database->conf->user;

	return client->login_user && strcmp(forced ? forced : client->login_user->name, pool->user->name) != 0;
}

static void refuse_misplaced(struct pool *pool, enum client_state state)
{
	LIST_EACH_SAFE(node, &pool->clients[state]) {
		struct pool_client *client = client_at(node);

		if (!is_misplaced(client))
			continue;
		if (client->link)
			pool->pools->ops->drop(client->link, REASON_DATABASE_CHANGED);
		else
			pool->pools->ops->refuse(client, REASON_DATABASE_CHANGED);
	}
}

void database_moves(struct database *database)
{
	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		pool_move(pool);
		for (int state = 0; state < CLIENT_STATES; state++)
			refuse_misplaced(pool, (enum client_state)state);
	}
}

static void database_change(struct database *database, struct conf *conf, const struct conf_database *to)
{
	bool moves = conf_database_connects_differently(database->conf, to);

	database_follow(database, conf, to);
	if (moves)
		database_moves(database);
}

static void databases_change(struct pools *pools, usec_t now)
{
	struct database *database, *next;

	HASH_ITER(hh, pools->databases, database, next) {
		const struct conf_database *to = conf_database_find(pools->conf, database->name);

		if (database->is_console) {
			database_follow(database, pools->conf, &pools->console);
			continue;
		}
		if (to)
			database->automatic = database->removed = false;
		else if (database->automatic && !database->removed)
			to = pools->conf->fallback;
		if (to)
			database_change(database, pools->conf, to);
		else if (!database->removed)
			database_remove(database, now);
	}
}

/* min_pool_size with a forced user is kept without any client. */
static void make_standing_pool(struct pools *pools, struct database *database, usec_t now)
{
	const struct conf_database *conf = database->conf;
	int64_t least = conf->min_pool_size != CONF_UNSET ? conf->min_pool_size : pools->conf->settings.min_pool_size;
	struct user *user = conf->user && least > 0 ? user_get(pools, conf->user) : NULL;

	if (user)
		pool_get(database, user, now);
}

static void databases_appear(struct pools *pools, usec_t now)
{
	for (size_t i = 0; i < pools->conf->database_count; i++) {
		const char *name = pools->conf->databases[i]->name;
		struct database *database = name_is_console(name) ? NULL : database_get(pools, name, now);

		if (database)
			make_standing_pool(pools, database, now);
	}
}

static void users_change(struct pools *pools)
{
	for (struct user *user = pools->users; user; user = user->hh.next)
		user->conf = conf_user_find(pools->conf, user->name);
	pools->waits_differ = false;
	for (size_t i = 0; i < pools->conf->user_count; i++) {
		user_get(pools, pools->conf->users[i]->name);
		pools->waits_differ |= pools->conf->users[i]->query_wait_timeout != CONF_UNSET ||
				       pools->conf->users[i]->query_timeout != CONF_UNSET;
	}
}

void pools_reconfigure(struct pools *pools, struct conf *conf, usec_t now)
{
	struct conf *old = pools->conf;

	pools->conf = conf_hold(conf);
	pools->console.port = (int)conf->settings.listen_port;
	users_change(pools);
	databases_change(pools, now);
	/* behind that: what holds in between, the settings of the one and the database of the other, is no pool's mode */
	pools_renew_allowances(pools);
	databases_appear(pools, now);
	conf_drop(&old);
	pools_mark_all(pools);
}
