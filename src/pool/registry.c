/*
 * The tables of databases by name, users by name and pools by (database, user). Objects are created on first use and freed when
 * they have been unused for the configured time.
 *
 * Invariant: a pool is in five places (all, by key, the lists of its database and its user, and user->pools) or in none. A
 * database of the configuration exists as long as the configuration names it; an automatic database is kept while any of its
 * pools is used; a user is kept while it has pools or the configuration names it.
 */
#include "pool/inside.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER_GRACE (600 * USEC)		/* the name can be in use by a login that long, even without client_login_timeout */

bool name_is_console(const char *name)
{
	return strcmp(name, "pgbouncer") == 0 || strcmp(name, "pgweir") == 0;
}

/* Frees a database that is in no table. */
static void database_discard(struct database *database)
{
	conf_drop(&database->conf_held);
	mem_free(database->name);
	mem_free(database);
}

static struct database *database_new(struct pools *pools, const char *name, const struct conf_database *conf, usec_t now)
{
	struct database *database = mem_try(sizeof(*database));

	if (!database)
		return NULL;
	database->name = mem_copy_string(name);
	if (!database->name) {
		mem_free(database);
		return NULL;
	}
	database->name[database_name_size(pools->conf, name)] = '\0';
	database->pools = pools;
	database->conf = conf;
	database->conf_held = conf_hold(pools->conf);
	database->idle_since = now;
	database->stats.newer_at = now;
	list_init(&database->members);
	list_init(&database->held);
	HASH_ADD_KEYPTR(hh, pools->databases, database->name, strlen(database->name), database);
	if (HASH_HAS(hh, database))
		return database;
	database_discard(database);
	return NULL;
}

static void database_free(struct database *database)
{
	struct pools *pools = database->pools;

	LIST_EACH_SAFE(node, &database->members)
		pool_free(LIST_OBJECT(node, struct pool, of_database));
	ASSERT(database->servers == 0 && database->clients == 0);
	HASH_DELETE(hh, pools->databases, database);
	database_discard(database);
}

static void console_make(struct pools *pools, usec_t now)
{
	pools->console = (struct conf_database){
		.name = "pgbouncer", .dbname = "pgbouncer", .user = "pgbouncer",
		.port = (int)pools->conf->settings.listen_port,
		.pool_size = 2, .min_pool_size = 0, .reserve_pool_size = 0,
		.max_db_connections = 0, .max_db_client_connections = CONF_UNSET,
		.server_lifetime = CONF_UNSET, .query_wait_timeout = 0, .max_pinned = CONF_UNSET, .pinned_idle_timeout = CONF_UNSET,
		.pool_mode = MODE_STATEMENT, .session_link = CONF_UNSET, .session_state = CONF_UNSET, .load_balance_hosts = CONF_UNSET,
		.max_protocol_version = CONF_UNSET, .sslnegotiation = CONF_UNSET, .channel_binding = CONF_UNSET,
		.require_auth = CONF_UNSET,
	};
	struct database *console = database_new(pools, pools->console.name, &pools->console, now);

	if (!console) {
		log_fatal("out of memory (console database)");
		exit(1);
	}
	console->is_console = true;
}

struct pools *pools_new(const struct pool_ops *ops, struct conf *conf, usec_t now)
{
	struct pools *pools = mem_must(sizeof(*pools));

	pools->ops = ops;
	pools->conf = conf_hold(conf);
	list_init(&pools->all);
	list_init(&pools->dirty);
	for (int state = 0; state < CLIENT_STATES; state++)
		list_init(&pools->unauthenticated[state]);
	pools->stats_at = pools->maintained_at = now;
	console_make(pools, now);
	pools_reconfigure(pools, conf, now);
	return pools;
}

void pools_free(struct pools **pools)
{
	struct pools *p = *pools;
	struct database *database, *next_database;
	struct user *user, *next_user;

	if (!p)
		return;
	ASSERT(p->clients == 0);
	HASH_ITER(hh, p->databases, database, next_database)
		database_free(database);
	HASH_ITER(hh, p->users, user, next_user) {
		HASH_DELETE(hh, p->users, user);
		mem_free(user->name);
		mem_free(user);
	}
	ASSERT(!p->hosts);
	conf_drop(&p->conf);
	mem_free(p);
	*pools = NULL;
}

size_t database_name_size(const struct conf *conf, const char *name)
{
	size_t size = strlen(name);

	return size <= CONF_NAME_MOST || conf_database_find(conf, name) ? size : CONF_NAME_MOST;
}

static struct database *database_by_name(struct pools *pools, const char *name)
{
	size_t size = database_name_size(pools->conf, name);
	struct database *database;

	if (name_is_console(name)) {
		name = pools->console.name;
		size = strlen(name);
	}
	HASH_FIND(hh, pools->databases, name, size, database);
	return database;
}

struct database *database_find(struct pools *pools, const char *name)
{
	struct database *database = database_by_name(pools, name);

	return database && !database->removed ? database : NULL;
}

static struct database *find_or_make(struct pools *pools, const char *name, usec_t now, bool *is_new)
{
	struct database *database = database_by_name(pools, name);
	const struct conf_database *conf;

	*is_new = false;
	if (database && !database->removed) {
		if (database->idle_since != 0)
			database->idle_since = now;
		return database;
	}
	conf = conf_database_find(pools->conf, name);
	if (!conf)
		conf = pools->conf->fallback;
	if (!conf)
		return NULL;
	if (database) {
		/* The database of this name was removed from the configuration and is not freed yet: "*" takes the name over. */
		conf_drop(&database->conf_held);
		database->conf_held = conf_hold(pools->conf);
		database->conf = conf;
		database->removed = false;
		database->idle_since = now;
		database_renew_allowances(database);
	} else {
		database = database_new(pools, name, conf, now);
		if (!database)
			return NULL;
	}
	database->automatic = conf == pools->conf->fallback;
	database->stray = false;
	*is_new = true;
	return database;
}

static void log_registered(const struct database *database)
{
	char name[PRINTABLE_NAME];

	if (database->automatic)
		log_info("registered new auto-database: %s", printable_name(database->name, name, sizeof(name)));
}

struct database *database_get(struct pools *pools, const char *name, usec_t now)
{
	bool is_new;
	struct database *database = find_or_make(pools, name, now, &is_new);

	if (is_new)
		log_registered(database);
	return database;
}

void database_register(struct database *database)
{
	log_registered(database);
	database->stray = false;
}

struct database *database_get_unauthenticated(struct pools *pools, const char *name, usec_t now)
{
	bool is_new;
	struct database *database = find_or_make(pools, name, now, &is_new);

	/* it is registered when a client logs in to it (pool_client_join) */
	if (is_new)
		database->stray = database->automatic;
	return database;
}

const struct conf_database *database_conf_find(struct pools *pools, const char *name)
{
	const struct database *database = database_find(pools, name);
	const struct conf_database *conf = database ? database->conf : conf_database_find(pools->conf, name);

	return conf ? conf : pools->conf->fallback;
}

struct user *user_get(struct pools *pools, const char *name)
{
	struct user *user;

	HASH_FIND_STR(pools->users, name, user);
	if (user) {
		user->idle_since = 0;
		return user;
	}
	user = mem_try(sizeof(*user));
	if (!user)
		return NULL;
	user->name = mem_copy_string(name);
	if (!user->name) {
		mem_free(user);
		return NULL;
	}
	user->conf = conf_user_find(pools->conf, name);
	list_init(&user->members);
	list_init(&user->held);
	HASH_ADD_KEYPTR(hh, pools->users, user->name, strlen(user->name), user);
	if (HASH_HAS(hh, user))
		return user;
	mem_free(user->name);
	mem_free(user);
	return NULL;
}

static void pool_init(struct pool *pool, struct database *database, struct user *user, usec_t now)
{
	pool->pools = database->pools;
	pool->database = database;
	pool->user = user;
	pool->idle_since = now;
	for (int state = 0; state < CLIENT_STATES; state++)
		list_init(&pool->clients[state]);
	for (int state = 0; state < SERVER_STATES; state++)
		list_init(&pool->servers[state]);
	list_init(&pool->dirty);
	list_init(&pool->held_by_database);
	list_init(&pool->held_by_user);
	list_append(&database->pools->all, &pool->node);
	list_append(&database->members, &pool->of_database);
	list_append(&user->members, &pool->of_user);
	user->pools++;
	pool->allowed = pool_allowance_of(pool);
}

const char *pool_text(const struct pool *pool, char *buf, size_t size)
{
	char database[PRINTABLE_NAME], user[PRINTABLE_NAME];

	snprintf(buf, size, "%s/%s", printable_name(pool->database->name, database, sizeof(database)),
		 printable_name(pool->user->name, user, sizeof(user)));
	return buf;
}

struct pool *pool_get(struct database *database, struct user *user, usec_t now)
{
	if (database->conf->user && strcmp(database->conf->user, user->name) != 0)
		user = user_get(database->pools, database->conf->user);
	return user ? pool_get_own(database, user, now) : NULL;
}

struct pool *pool_get_own(struct database *database, struct user *user, usec_t now)
{
	struct pools *pools = database->pools;
	struct { struct database *database; struct user *user; } key = { database, user };
	struct pool *pool;

	HASH_FIND(hh, pools->by_key, &key, sizeof(key), pool);
	if (pool) {
		if (pool->idle_since != 0)
			pool->idle_since = now;
		return pool;
	}
	pool = mem_try(sizeof(*pool));
	if (!pool)
		return NULL;
	pool->key.database = database;
	pool->key.user = user;
	HASH_ADD(hh, pools->by_key, key, sizeof(pool->key), pool);
	if (!HASH_HAS(hh, pool)) {
		mem_free(pool);
		return NULL;
	}
	pool_init(pool, database, user, now);
	return pool;
}

void pool_free(struct pool *pool)
{
	struct pools *pools = pool->pools;

	ASSERT(pool_is_empty(pool));
	if (pools->ops->pool_end)
		pools->ops->pool_end(pool);
	HASH_DELETE(hh, pools->by_key, pool);
	list_remove(&pool->node);
	list_remove(&pool->of_database);
	list_remove(&pool->of_user);
	list_remove(&pool->dirty);
	list_remove(&pool->held_by_database);
	list_remove(&pool->held_by_user);
	pool->user->pools--;
	mem_free(pool);
}

/* Whether the pool is kept filled without any client: min_pool_size of a configured database with a forced user. */
static bool pool_is_standing(const struct pool *pool)
{
	return !pool->database->removed && !pool->database->automatic && pool_is_forced(pool) && pool_min_size_of(pool) > 0;
}

static void end_idle_pool(struct pool *pool, usec_t now)
{
	char user[PRINTABLE_NAME], database[PRINTABLE_NAME], why[64];

	close_reason_count(REASON_POOL_IDLE);
	log_info("cleaning up idle pool for user %s on db %s because: %s (age= %llds)", printable_name(pool->user->name, user, sizeof(user)),
		 printable_name(pool->database->name, database, sizeof(database)),
		 close_reason_log_text(REASON_POOL_IDLE, NULL, why, sizeof(why)), (long long)((now - pool->idle_since) / USEC));
	pool_free(pool);
}

static void sweep_pools(struct pools *pools, usec_t now)
{
	usec_t timeout = pools->conf->settings.pool_idle_timeout;

	if (timeout <= 0)
		return;
	LIST_EACH_SAFE(node, &pools->all) {
		struct pool *pool = pool_at(node);

		if (pool->idle_since != 0 && now - pool->idle_since >= timeout && !pool->database->is_console &&
		    !pool_is_standing(pool))
			end_idle_pool(pool, now);
	}
}

void database_log_dropped(const struct database *database)
{
	char name[PRINTABLE_TEXT];

	log_warning("dropping database '%s' as it does not exist anymore or inactive auto-database",
		    printable_text(database->name, name, sizeof(name)));
}

/* Returns when the last pool of the database became unused, or when the database was last looked up; 0: in use. */
static usec_t database_idle_since(const struct database *database, usec_t now)
{
	usec_t since = database->idle_since;

	/* it was in use at the last sweep, and its last pool was freed since then */
	if (since == 0 && list_is_empty(&database->members))
		return now;
	LIST_EACH(node, &database->members) {
		const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

		if (pool->idle_since == 0)
			return 0;
		if (pool->idle_since > since)
			since = pool->idle_since;
	}
	return since;
}

/* Whether an unused automatic database is kept. If no server has accepted a login, the database may not exist, because clients
   choose the name: then it is kept only as long as the failed login counts. */
static bool is_kept(const struct database *database, usec_t now)
{
	const struct settings *set = &database->pools->conf->settings;
	usec_t idle = now - database->idle_since, timeout = set->autodb_idle_timeout;

	if (database->removed || database->stray)
		return false;
	return (timeout <= 0 || idle < timeout) && (database->served || idle < set->server_login_retry);
}

static void sweep_databases(struct pools *pools, usec_t now)
{
	struct database *database, *next;

	HASH_ITER(hh, pools->databases, database, next) {
		if (!database->automatic && !database->removed)
			continue;
		/* A pause or disable by an operator would be lost with the database, and the next client would be admitted. */
		if (database->paused || database->disabled)
			continue;
		database->idle_since = database_idle_since(database, now);
		/* A caller may still hold a pointer in the turn in which the last connection ended. */
		if (database->idle_since == 0 || database->idle_since >= now)
			continue;
		if (is_kept(database, now))
			continue;
		if (!database->removed && !database->stray)
			database_log_dropped(database);
		database_free(database);
	}
}

static void sweep_users(struct pools *pools, usec_t now)
{
	usec_t login = pools->conf->settings.client_login_timeout, grace = login > 0 ? 2 * login : USER_GRACE;
	struct user *user, *next;

	HASH_ITER(hh, pools->users, user, next) {
		if (user->conf || user->pools > 0 || user->clients > 0)
			continue;
		ASSERT(user->servers == 0);
		if (user->idle_since == 0) {
			user->idle_since = now;
		} else if (now - user->idle_since >= grace) {
			HASH_DELETE(hh, pools->users, user);
			mem_free(user->name);
			mem_free(user);
		}
	}
}

void registry_sweep(struct pools *pools, usec_t now)
{
	sweep_pools(pools, now);
	/* There may be as many users as rows in pg_authid: once a second is sufficient. */
	if (now - pools->swept_at < USEC)
		return;
	pools->swept_at = now;
	sweep_databases(pools, now);
	sweep_users(pools, now);
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
	bool moves = value_rows_differ(&database_table, APPLIES_SERVERS, database->conf, to);

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
