/*
 * The life of databases, users and pools: they are made by the configuration or on first use, a
 * RELOAD changes them, and they are freed when they have been unused for the configured time.
 *
 * Invariants: a database of the configuration exists as long as the configuration names it; an
 * automatic database is kept while any of its pools is used; a user is kept while it has pools or
 * the configuration names it.
 */
#include "pool/admit.h"
#include "pool/drain.h"
#include "pool/inside.h"
#include "pool/role.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "conf/value.h"

#include <stdlib.h>
#include <string.h>

/* a login may use the name for this long, even without client_login_timeout */
#define USER_GRACE (600 * USEC)

static void database_renew_allowances(struct database *database);

/* Frees a database that is in no table. */
static void database_discard(struct database *database)
{
	database_drop_budgets(database);
	conf_drop(&database->conf_held);
	mem_free(database->name);
	mem_free(database);
}

static struct database *database_new(struct pools *pools, const char *name,
				     const struct conf_database *conf, usec_t now)
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
	if (!database_hold_budgets(database)) {
		database_discard(database);
		return NULL;
	}
	database_set_limits(database);
	HASH_ADD_KEYPTR(hh, pools->databases, database->name, strlen(database->name), database);
	if (HASH_HAS(hh, database) && (conf == &pools->console || roles_reconfigure(database, now)))
		return database;
	if (HASH_HAS(hh, database))
		HASH_DELETE(hh, pools->databases, database);
	database_discard(database);
	return NULL;
}

static void database_free(struct database *database)
{
	struct pools *pools = database->pools;

	roles_free(database);
	/* the parent of pools is freed after them */
	for (int with_home = 0; with_home < 2; with_home++) {
		LIST_EACH_SAFE(node, &database->members) {
			if (with_home || LIST_OBJECT(node, struct pool, of_database)->host)
				pool_free(LIST_OBJECT(node, struct pool, of_database));
		}
	}
	HASH_DELETE(hh, pools->databases, database);
	database_discard(database);
}

struct pools *pools_new(const struct pool_ops *ops, struct shared *shared, struct conf *conf,
			usec_t now)
{
	struct pools *pools = mem_must(sizeof(*pools));
	struct database *console;

	pools->ops = ops;
	pools->shared = shared;
	pools->no_host = mem_must(sizeof(*pools->no_host) + 1);
	pools->no_host->pools = pools;
	pools->no_host->users = 1;
	pools->conf = conf_hold(conf);
	list_init(&pools->all);
	list_init(&pools->dirty);
	list_init(&pools->drains);
	for (int state = 0; state < CLIENT_STATES; state++)
		list_init(&pools->unauthenticated[state]);
	pools->stats_at = pools->maintained_at = now;
	pools->console = (struct conf_database){
		.name = "pgbouncer",
		.dbname = "pgbouncer",
		.user = "pgbouncer",
		.hosts = &pools->console_host,
		.port = "",
		.pool_size = 2,
		.min_pool_size = 0,
		.reserve_pool_size = 0,
		.max_db_connections = 0,
		.max_db_client_connections = CONF_UNSET,
		.server_lifetime = CONF_UNSET,
		.query_wait_timeout = 0,
		.max_pinned = CONF_UNSET,
		.pinned_idle_timeout = CONF_UNSET,
		.pool_mode = MODE_STATEMENT,
		.session_link = CONF_UNSET,
		.session_state = CONF_UNSET,
		.load_balance_hosts = CONF_UNSET,
		.max_protocol_version = CONF_UNSET,
		.sslnegotiation = CONF_UNSET,
		.channel_binding = CONF_UNSET,
		.sslmode = CONF_UNSET,
		.require_auth = CONF_UNSET,
		.target_session_attrs = CONF_UNSET,
		.read_your_writes = CONF_UNSET,
		.max_lag = CONF_UNSET,
	};
	console = database_new(pools, pools->console.name, &pools->console, now);
	if (!console) {
		log_fatal("out of memory (console database)");
		exit(1);
	}
	console->is_console = true;
	shared_join(shared, &pools->bell);
	pools_reconfigure(pools, conf, now);
	LIST_EACH(node, &shared->worlds)
		pools_renew_close_above(LIST_OBJECT(node, struct pools, bell.node));
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
	HASH_ITER(hh, p->users, user, next_user)
		user_free(p, user);
	for (struct host *host = p->hosts, *next; host; host = next) {
		next = host->hh.next;
		if (host->is_disabled)
			host_drop(host);
	}
	ASSERT(!p->hosts && p->no_host->users == 1);
	mem_free(p->no_host);
	drain_stop(p, DRAIN_OF_ALL, "", true);
	shared_leave(p->shared, &p->bell);
	conf_drop(&p->conf);
	mem_free(p);
	*pools = NULL;
}

struct database *database_get(struct pools *pools, const char *name, bool is_authenticated,
			      usec_t now)
{
	struct database *database = database_by_name(pools, name);
	const struct conf_database *conf;

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
		/* The database of this name was removed from the configuration and is not freed
		   yet: "*" takes the name over. */
		conf_drop(&database->conf_held);
		database->conf_held = conf_hold(pools->conf);
		database->conf = conf;
		database->removed = false;
		database->idle_since = now;
		database_set_limits(database);
		database_renew_allowances(database);
	} else {
		database = database_new(pools, name, conf, now);
		if (!database)
			return NULL;
	}
	database->automatic = conf == pools->conf->fallback;
	/* otherwise it is registered when a client logs in to it (pool_client_join) */
	database->stray = !is_authenticated && database->automatic;
	if (is_authenticated)
		database_register(database);
	return database;
}

/* RELOAD or autodb_idle_timeout removes the database. */
static void database_log_dropped(const struct database *database)
{
	char name[PRINTABLE_TEXT];

	log_warning("dropping database '%s' as it does not exist anymore or inactive auto-database",
		    printable_text(database->name, name, sizeof(name)));
}

static void sweep_databases(struct pools *pools, usec_t now)
{
	usec_t timeout = pools->conf->settings.autodb_idle_timeout,
	       retry = pools->conf->settings.server_login_retry;
	struct database *database, *next;

	HASH_ITER(hh, pools->databases, database, next) {
		bool is_used = false;
		usec_t since;

		if (!database->automatic && !database->removed)
			continue;
		/* Kept if an operator has paused or disabled it, because otherwise the next client
		   would create the database again and be admitted. */
		if (database->paused || database->disabled)
			continue;
		/* when the last pool became unused, or when the database was last looked up; if its
		   last pool was freed since the last sweep: now */
		since = database->idle_since;
		if (since == 0 && list_is_empty(&database->members))
			since = now;
		LIST_EACH(node, &database->members) {
			const struct pool *pool = LIST_OBJECT(node, struct pool, of_database);

			is_used |= pool->idle_since == 0;
			if (pool->idle_since > since)
				since = pool->idle_since;
		}
		database->idle_since = is_used ? 0 : since;
		/* Not in the turn in which the last connection ended, because a caller may still
		   hold a pointer. */
		if (database->idle_since == 0 || database->idle_since >= now)
			continue;
		if (!database->removed && !database->stray) {
			usec_t idle = now - database->idle_since;

			/* If no server has accepted a login, the database may not exist, because
			   clients choose the name: then it is kept only as long as the failed login
			   counts. */
			if ((timeout <= 0 || idle < timeout) && (database->served || idle < retry))
				continue;
			database_log_dropped(database);
		}
		database_free(database);
	}
}

void pools_sweep(struct pools *pools, usec_t now)
{
	usec_t login = pools->conf->settings.client_login_timeout,
	       grace = login > 0 ? 2 * login : USER_GRACE;
	usec_t timeout = pools->conf->settings.pool_idle_timeout;
	char name[PRINTABLE_NAME], of_database[PRINTABLE_NAME], why[64];
	struct user *user, *next;

	LIST_EACH_SAFE(node, &pools->all) {
		struct pool *pool = pool_at(node);
		const struct database *database = pool->database;

		bool is_listed = !pool->host || pool->host == pools->no_host ||
				 roles_list(database, pool->host);

		if (pool->idle_since == 0 || database->is_console || pool->child_count > 0)
			continue;
		/* hosts that are not in the list any more get no client; a caller may hold a
		   pointer in the turn in which the pool became unused */
		if (is_listed ? timeout <= 0 || now - pool->idle_since < timeout
			      : pool->idle_since >= now)
			continue;
		/* min_pool_size of a configured database with a forced user is kept filled without
		   any client */
		if (!database->removed && !database->automatic && pool_is_forced(pool) &&
		    pool->allowed.min_size > 0)
			continue;
		pools->ended[REASON_POOL_IDLE]++;
		log_info("cleaning up idle pool for user %s on db %s because: %s (age= %llds)",
			 printable_name(pool->user->name, name, sizeof(name)),
			 printable_name(database->name, of_database, sizeof(of_database)),
			 close_reason_log_text(REASON_POOL_IDLE, NULL, why, sizeof(why)),
			 (long long)((now - pool->idle_since) / USEC));
		pool_free(pool);
	}
	/* There may be as many users as rows in pg_authid, so the walk over all of them is made
	   once a second only. */
	if (now - pools->swept_at < USEC)
		return;
	pools->swept_at = now;
	sweep_databases(pools, now);
	HASH_ITER(hh, pools->users, user, next) {
		if (user->conf || user->pools > 0 || user->clients->used > 0)
			continue;
		if (user->idle_since == 0)
			user->idle_since = now;
		else if (now - user->idle_since >= grace)
			user_free(pools, user);
	}
}

/* ---- RELOAD ---- */

/*
 * RELOAD in room pool: applies a new snapshot that is complete and checked.
 *
 * First every database and user gets its entry in the new snapshot; then connections that do not
 * fit any more are closed. When the host, port, name, user, password or start-up parameters of a
 * database change, its servers close: idle servers now, others when they are released. Other
 * servers stay, so a RELOAD without changes keeps every connection. Clients stay, unless their
 * database was removed or its forced user changed: then their pool has the wrong user.
 *
 * A database that was removed from the file drops its clients even if "*" matches its name. When a
 * client reconnects, it gets a database from "*", without the pause, the failed logins and the
 * recorded server parameters of the removed database. A database that was created from "*" follows
 * changes of "*".
 *
 * Invariant: after the RELOAD, only removed databases refer to the old snapshot, and they hold a
 * reference to it.
 */

/* Recomputes the allowance of a pool. When the mode changes to or from session mode, the servers
   are closed: their sessions belong to single clients in one mode and to all clients in the
   other. */
static void pool_renew_allowance(struct pool *pool)
{
	bool had_sessions = pool->allowed.mode == MODE_SESSION, kept_state = pool_keeps_state(pool);

	pool_allow(pool);
	if (had_sessions != (pool->allowed.mode == MODE_SESSION))
		pool_retire(pool, REASON_OBSOLETE, REASON_OBSOLETE, true);
	/* clients have ended that the pool did not record while session_state was not full */
	for (int state = 0; !kept_state && pool_keeps_state(pool) && state < SERVER_STATES;
	     state++) {
		LIST_EACH(node, &pool->servers[state])
			server_at(node)->last = NULL;
	}
}

static void database_renew_allowances(struct database *database)
{
	LIST_EACH(node, &database->members)
		pool_renew_allowance(LIST_OBJECT(node, struct pool, of_database));
}

/* Discards the facts that the servers of the pool have shown, because they connect elsewhere from
   now on. */
static void pool_unlearn(struct pool *pool)
{
	pool_login_forgiven(pool);
	pool_places_clear(pool);
	pool->logins_succeeded = 0;
	pool->generation++;
}

/* The sweep frees the database later. Until then "*" or another RELOAD can reuse its name; it must
   then start without the old state. */
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

				if (!client->login_user ||
				    strcmp(forced ? forced : client->login_user->name,
					   pool->user->name) == 0)
					continue;
				if (client->link)
					pool->pools->ops->drop(client->link,
							       REASON_DATABASE_CHANGED);
				else
					pool->pools->ops->refuse(client, REASON_DATABASE_CHANGED);
			}
		}
	}
}

void pools_reconfigure(struct pools *pools, struct conf *conf, usec_t now)
{
	struct conf *old = pools->conf;
	struct database *database, *next;

	pools->conf = conf_hold(conf);
	pools->console_host.port = (int)conf->settings.listen_port;
	for (struct user *user = pools->users; user; user = user->hh.next)
		user->conf = conf_user_find(conf, user->name);
	pools->waits_differ = false;
	for (size_t i = 0; i < conf->user_count; i++) {
		user_get(pools, conf->users[i]->name);
		pools->waits_differ |= conf->users[i]->query_wait_timeout != CONF_UNSET ||
				       conf->users[i]->query_timeout != CONF_UNSET;
	}
	HASH_ITER(hh, pools->databases, database, next) {
		const struct conf_database *to = conf_database_find(conf, database->name);
		bool moves;

		if (database->is_console)
			to = &pools->console;
		else if (to)
			database->automatic = database->removed = false;
		else if (database->automatic && !database->removed)
			to = conf->fallback;
		if (!to) {
			if (!database->removed)
				database_remove(database, now);
			continue;
		}
		moves = !database->is_console &&
			value_rows_differ(&database_table, APPLIES_SERVERS, database->conf, to);
		conf_drop(&database->conf_held);
		database->conf = to;
		database->conf_held = conf_hold(conf);
		database_renew_allowances(database);
		if (moves)
			database_moves(database);
	}
	/* after both users and databases have changed: a mixture of old and new settings must not
	   change the mode of a pool */
	LIST_EACH(node, &pools->all)
		pool_renew_allowance(pool_at(node));
	for (size_t i = 0; i < conf->database_count; i++) {
		const struct conf_database *entry = conf->databases[i];
		int64_t least = first_set(CONF_UNSET, entry->min_pool_size,
					  conf->settings.min_pool_size);
		struct user *user;

		database = name_is_console(entry->name)
				   ? NULL
				   : database_get(pools, entry->name, true, now);
		/* The pool of a forced user is created without a client, because min_pool_size is
		   kept filled for it from the start. */
		if (database && database->conf->user && least > 0 &&
		    (user = user_get(pools, database->conf->user)) != NULL)
			pool_get(database, user, false, now);
	}
	HASH_ITER(hh, pools->databases, database, next) {
		if (database->removed)
			roles_free(database);
		else if (!database->is_console && !roles_reconfigure(database, now))
			log_warning("out of memory: the roles of the hosts of a database do not "
				    "follow the configuration");
	}
	conf_drop(&old);
	pools_set_limits(pools);
	for (struct host *host = pools->hosts; host; host = host->hh.next)
		host_set_limits(host);
	if (pools->has_closed_hosts)
		hosts_admit_anew(pools, now);
	pools_mark_all(pools);
}
