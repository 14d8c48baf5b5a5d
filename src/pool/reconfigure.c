/*
 * RELOAD in room pool: applies a new snapshot that is complete and checked.
 *
 * First every database and user gets its entry in the new snapshot; then connections that do not fit any more are closed. When
 * the host, port, name, user, password or start-up parameters of a database change, its servers close: idle servers now, others
 * when they are released. Other servers stay, so a RELOAD without changes keeps every connection. Clients stay, unless their
 * database was removed or its forced user changed: then their pool has the wrong user.
 *
 * A database that was removed from the file drops its clients even if "*" matches its name: when a client reconnects, it gets a
 * database from "*" without the pause, the failed logins and the recorded server parameters of the removed database. A database
 * that was created from "*" follows changes of "*".
 *
 * Invariant: after the RELOAD, only removed databases refer to the old snapshot, and they hold a reference to it.
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

/* Discards what was learned from the pool's servers. */
static void pool_unlearn(struct pool *pool)
{
	pool_login_forgiven(pool);
	pool->logins_succeeded = 0;
	pool->generation++;
}

/* The sweep frees the database later. Until then "*" or another RELOAD can reuse its name; it must then start without the old state. */
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

/* The pool's servers connect elsewhere from now on. */
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

/* With a forced user, min_pool_size is kept filled without any client, so the pool is created here. */
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
	/* after both users and databases have changed: a mixture of old and new settings must not change the mode of a pool */
	pools_renew_allowances(pools);
	databases_appear(pools, now);
	conf_drop(&old);
	pools_mark_all(pools);
}
