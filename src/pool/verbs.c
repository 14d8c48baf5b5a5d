/*
 * The commands that concern many pools: PAUSE, RESUME, RECONNECT, KILL and SHUTDOWN of the console, and RELOAD.
 *
 * A command does at once everything that is possible and marks the rest: a paused pool closes servers when they are returned,
 * and a server with a close_reason is closed when it is released. A command never waits; its caller polls until nothing is
 * left.
 *
 * Invariant: ops->drop and ops->refuse remove the object from its list, or leave it there until the reap, and touch no other
 * object of the list.
 */
#include "pool/inside.h"

#include "conf/value.h"

#include <string.h>

/* Closes all servers in this state. In LOGIN, connections that carry cancel requests stay. */
static void pool_drop_all(struct pool *pool, enum server_state state, enum close_reason why)
{
	LIST_EACH_SAFE(node, &pool->servers[state]) {
		if (state != SERVER_LOGIN || !server_at(node)->is_cancel)
			pool->pools->ops->drop(server_at(node), why);
	}
}

/* Closes every client and server of the pool; a linked pair is closed together. */
static void pool_kill(struct pool *pool, enum close_reason why)
{
	for (int state = 0; state < SERVER_STATES; state++)
		pool_drop_all(pool, (enum server_state)state, why);
	LIST_EACH_SAFE(node, &pool->servers[SERVER_LOGIN])	/* the remaining connections carry cancel requests */
		pool->pools->ops->drop(server_at(node), why);
	for (int state = 0; state < CLIENT_STATES; state++) {
		LIST_EACH_SAFE(node, &pool->clients[state])
			pool->pools->ops->refuse(client_at(node), why);
	}
}

/* Closes unused servers at once with `idle_why`, and with `logins_too` servers that log in. Marks the others with `busy_why`: they
   close when they are released, and logins after one second. */
static void pool_retire(struct pool *pool, enum close_reason idle_why, enum close_reason busy_why, bool logins_too)
{
	static const enum server_state busy[] = {
		SERVER_LOGIN, SERVER_TESTED, SERVER_ACTIVE, SERVER_LOOKUP, SERVER_LISTENING, SERVER_BEING_CANCELED
	};

	pool_drop_all(pool, SERVER_USED, idle_why);
	pool_drop_all(pool, SERVER_IDLE, idle_why);
	/* room session ends logins that take longer than a second; if all logins ended at once, no client would be admitted
	   under repeated RECONNECT */
	for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++) {
		LIST_EACH(node, &pool->servers[busy[i]]) {
			if (!server_at(node)->is_cancel)
				server_at(node)->close_reason = (uint8_t)busy_why;
		}
	}
	if (logins_too)
		pool_drop_all(pool, SERVER_LOGIN, busy_why);
}

void pool_close_idle(struct pool *pool)
{
	pool_drop_all(pool, SERVER_USED, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_IDLE, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_LOGIN, REASON_PAUSE_MODE);
	pool_drop_all(pool, SERVER_LISTENING, REASON_PAUSE_MODE);
}

static bool is_meant(const struct pool *pool, const struct database *database)
{
	return database ? pool->database == database : !pool->database->is_console;
}

static void set_paused(struct pools *pools, struct database *database, bool on)
{
	if (database) {
		database->paused = on;
	} else {
		pools->paused = on;
		if (!on)
			pools->suspended = false;
	}
}

void pools_pause(struct pools *pools, struct database *database, bool on)
{
	set_paused(pools, database, on);
	LIST_EACH(node, &pools->all) {
		struct pool *pool = pool_at(node);

		if (!is_meant(pool, database))
			continue;
		if (on)
			pool_close_idle(pool);
		pool_mark(pool);
	}
}

void pools_drain(struct pools *pools, enum pool_drain drain)
{
	pools->draining = drain;
	pools_mark_all(pools);
}

void pools_reconnect(struct pools *pools, struct database *database)
{
	LIST_EACH(node, &pools->all) {
		if (is_meant(pool_at(node), database))
			pool_retire(pool_at(node), REASON_DATABASE_CHANGED, REASON_CLOSE_NEEDED, false);
	}
}

void pools_kill(struct pools *pools, struct database *database)
{
	/* Pauses first, so that no marked pool opens a new server, and idle servers close with this reason too. */
	set_paused(pools, database, true);
	LIST_EACH(node, &pools->all) {
		if (!is_meant(pool_at(node), database))
			continue;
		pool_kill(pool_at(node), REASON_ADMIN_KILL);
		pool_mark(pool_at(node));
	}
}

bool pools_is_without_servers(const struct pools *pools, const struct database *database)
{
	if (database)
		return database->servers == 0;
	for (database = pools->databases; database; database = database->hh.next) {
		if (database->servers > 0)
			return false;
	}
	return true;
}

bool pools_is_without_close_needed(const struct pools *pools, const struct database *database)
{
	LIST_EACH(node, &pools->all) {
		for (int state = 0; is_meant(pool_at(node), database) && state < SERVER_STATES; state++) {
			LIST_EACH(server, &pool_at(node)->servers[state]) {
				if (server_at(server)->close_reason != REASON_NONE)
					return false;
			}
		}
	}
	return true;
}

/* ---- RELOAD ---- */

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

/* Recomputes the allowance of a pool. When the mode changes to or from session mode, the servers are closed: their sessions belong
   to single clients in one mode and to all clients in the other. */
static void renew(struct pool *pool)
{
	bool had_sessions = pool->allowed.mode == MODE_SESSION, kept_state = pool_keeps_state(pool);

	pool->allowed = pool_allowance_of(pool);
	if (had_sessions != (pool->allowed.mode == MODE_SESSION))
		pool_retire(pool, REASON_OBSOLETE, REASON_OBSOLETE, true);
	/* clients have ended that the pool did not record while session_state was not full */
	if (!kept_state && pool_keeps_state(pool))
		pool_forget_last(pool, NULL);
}

void database_renew_allowances(struct database *database)
{
	LIST_EACH(node, &database->members)
		renew(LIST_OBJECT(node, struct pool, of_database));
}

static void database_follow(struct database *database, struct conf *conf, const struct conf_database *to)
{
	struct conf *old = database->conf_held;

	database->conf = to;
	database->conf_held = conf_hold(conf);
	conf_drop(&old);
	database_renew_allowances(database);
}

/* Discards the facts that the servers of the pool have shown, because they connect elsewhere from now on. */
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

void database_moves(struct database *database)
{
	const char *forced = database->conf->user;

	LIST_EACH(node, &database->members) {
		struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		pool_retire(pool, REASON_CONNECT_STRING, REASON_DATABASE_CHANGED, true);
		pool_unlearn(pool);
		for (int state = 0; state < CLIENT_STATES; state++) {
			LIST_EACH_SAFE(other, &pool->clients[state]) {
				struct pool_client *client = client_at(other);

				if (!client->login_user || strcmp(forced ? forced : client->login_user->name, pool->user->name) == 0)
					continue;
				if (client->link)
					pool->pools->ops->drop(client->link, REASON_DATABASE_CHANGED);
				else
					pool->pools->ops->refuse(client, REASON_DATABASE_CHANGED);
			}
		}
	}
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
		if (to) {
			bool moves = value_rows_differ(&database_table, APPLIES_SERVERS, database->conf, to);

			database_follow(database, pools->conf, to);
			if (moves)
				database_moves(database);
		} else if (!database->removed) {
			database_remove(database, now);
		}
	}
}

static void databases_appear(struct pools *pools, usec_t now)
{
	for (size_t i = 0; i < pools->conf->database_count; i++) {
		const struct conf_database *conf = pools->conf->databases[i];
		int64_t least = first_set(CONF_UNSET, conf->min_pool_size, pools->conf->settings.min_pool_size);
		struct database *database = name_is_console(conf->name) ? NULL : database_get(pools, conf->name, now);
		struct user *user;

		/* With a forced user, min_pool_size is kept filled without any client, so the pool is created here. */
		if (database && database->conf->user && least > 0 && (user = user_get(pools, database->conf->user)) != NULL)
			pool_get(database, user, now);
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
	LIST_EACH(node, &pools->all)
		renew(pool_at(node));
	databases_appear(pools, now);
	conf_drop(&old);
	pools_mark_all(pools);
}
