/*
 * The tables of the room: databases by name, users by name and pools by (database, user, host).
 * This file makes and frees users and pools, and computes the effective settings of a pool, each
 * from the most specific place that sets a value. databases.c makes and frees them.
 *
 * Invariants: `allowed` of a pool follows from its user, its database and the global settings
 * (pools_check); all other limits are read when they are needed, so a RELOAD or SET copies nothing.
 * A pool is in five places (all, by key, the lists of its database and its user, and user->pools)
 * or in none.
 */
#include "pool/closed.h"
#include "pool/inside.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

void pool_free(struct pool *pool)
{
	struct pools *pools = pool->pools;

	ASSERT(pool->idle_since != 0);
	if (pools->ops->pool_end)
		pools->ops->pool_end(pool);
	HASH_DELETE(hh, pools->by_key, pool);
	list_remove(&pool->node);
	list_remove(&pool->of_database);
	list_remove(&pool->of_user);
	list_remove(&pool->dirty);
	pool_wait_for(pool, LIMIT_NONE, NULL);
	budget_drop(pools->shared, &pool->budget);
	pool_places_clear(pool);
	if (pool->host) {
		pool->parent->child_count--;
		host_drop(pool->host);
	}
	pool->user->pools--;
	pools->latency_sums.at_once += pool->served_at_once;
	mem_free(pool->latencies);
	mem_free(pool->history);
	mem_free(pool);
}

void user_free(struct pools *pools, struct user *user)
{
	HASH_DELETE(hh, pools->users, user);
	user_drop_budgets(pools, user);
	mem_free(user->name);
	mem_free(user);
}

size_t database_name_size(const struct conf *conf, const char *name)
{
	size_t size = strlen(name);

	return size <= CONF_NAME_MOST || conf_database_find(conf, name) ? size : CONF_NAME_MOST;
}

void database_register(struct database *database)
{
	char name[PRINTABLE_NAME];

	if (database->automatic)
		log_info("registered new auto-database: %s",
			 printable_name(database->name, name, sizeof(name)));
	database->stray = false;
}

struct database *database_by_name(struct pools *pools, const char *name)
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

const struct conf_database *database_conf_find(struct pools *pools, const char *name)
{
	const struct database *database = database_find(pools, name);
	const struct conf_database *conf = database ? database->conf
						    : conf_database_find(pools->conf, name);

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
	if (user_hold_budgets(pools, user)) {
		user_set_limits(pools, user);
		HASH_ADD_KEYPTR(hh, pools->users, user->name, strlen(user->name), user);
	}
	if (HASH_HAS(hh, user))
		return user;
	user_drop_budgets(pools, user);
	mem_free(user->name);
	mem_free(user);
	return NULL;
}

struct pool_allowance pool_allowance_of(const struct pool *pool)
{
	const struct conf_database *database = pool->database->conf;
	const struct settings *set = &pool->pools->conf->settings;

	return (struct pool_allowance){
		.mode = (enum pool_mode)first_set(OF_USER(pool->user, pool_mode),
						  database->pool_mode, set->pool_mode),
		.link = (enum session_link)first_set(OF_USER(pool->user, session_link),
						     database->session_link, set->session_link),
		.state = (enum session_state)first_set(OF_USER(pool->user, session_state),
						       database->session_state, set->session_state),
		.size = first_set(OF_USER(pool->user, pool_size), database->pool_size,
				  set->default_pool_size),
		.reserve = first_set(OF_USER(pool->user, reserve_pool_size),
				     database->reserve_pool_size, set->reserve_pool_size),
		.min_size = first_set(CONF_UNSET, database->min_pool_size, set->min_pool_size),
		.max_pinned = first_set(OF_USER(pool->user, max_pinned), database->max_pinned,
					set->max_pinned),
		.pinned_idle_timeout = first_set(OF_USER(pool->user, pinned_idle_timeout),
						 database->pinned_idle_timeout,
						 set->pinned_idle_timeout),
		.server_lifetime = first_set(CONF_UNSET, database->server_lifetime,
					     set->server_lifetime),
	};
}

enum close_reason pool_may_join(const struct pool *pool, const struct user *login_user,
				bool is_admin)
{
	const struct database *database = pool->database;

	/* An administrator must be able to log in to the console even if the pooler is full or
	   shuts down. */
	if (database->is_console && is_admin)
		return REASON_NONE;
	if (!database->is_console && pool->pools->draining == POOL_DRAIN_SERVERS)
		return REASON_POOLER_SHUTTING_DOWN;
	if (!database->is_console && database->removed)
		return REASON_DATABASE_REMOVED;
	if (!database->is_console && database->disabled)
		return REASON_DATABASE_DISABLED;
	if (!budget_has_room(database->clients))
		return REASON_MAX_DB_CLIENTS;
	if (login_user && !budget_has_room(login_user->clients))
		return REASON_MAX_USER_CLIENTS;
	return REASON_NONE;
}

const char *pool_text(const struct pool *pool, char *buf, size_t size)
{
	char database[PRINTABLE_NAME], user[PRINTABLE_NAME];

	snprintf(buf, size, "%s/%s",
		 printable_name(pool->database->name, database, sizeof(database)),
		 printable_name(pool->user->name, user, sizeof(user)));
	log_subject(LOG_POOL, &(struct log_subject){ .text = buf,
						     .database = pool->database->name,
						     .user = pool->user->name });
	return buf;
}

static struct pool *pool_find(const struct pools *pools, struct database *database,
			      struct user *user, const struct host *host)
{
	struct pool *pool;
	struct {
		struct database *database;
		struct user *user;
		const struct host *host;
	} key = { database, user, host };

	HASH_FIND(hh, pools->by_key, &key, sizeof(key), pool);
	return pool;
}

void pool_allow(struct pool *pool)
{
	pool->allowed = pool_allowance_of(pool);
	pool->close_above = pool_close_above(pool);
	budget_set_limit(pool->budget, pool->allowed.size);
}

/* `parent` NULL: the pool is its own parent. NULL: no memory. */
static struct pool *pool_make(struct database *database, struct user *user, struct pool *parent,
			      struct host *host, usec_t now)
{
	struct pools *pools = database->pools;
	struct pool *pool = mem_try(sizeof(*pool));

	if (!pool)
		return NULL;
	pool->budget = pool_hold_budget(database, user, host);
	pool->key.database = database;
	pool->key.user = user;
	pool->key.host = host;
	if (pool->budget)
		HASH_ADD(hh, pools->by_key, key, sizeof(pool->key), pool);
	if (!HASH_HAS(hh, pool)) {
		budget_drop(pools->shared, &pool->budget);
		mem_free(pool);
		return NULL;
	}
	pool->pools = pools;
	pool->database = database;
	pool->user = user;
	pool->host = host;
	pool->parent = parent ? parent : pool;
	pool->is_plain = !host && !database->roles;
	pool->targets = host || hosts_are_closed(database) ? 0 : 1u << TARGET_ANY;
	pool->fresh_to = INT64_MAX;
	if (host) {
		host->users++;
		pool->parent->child_count++;
	}
	pool->idle_since = now;
	for (int state = 0; state < CLIENT_STATES; state++)
		list_init(&pool->clients[state]);
	for (int state = 0; state < SERVER_STATES; state++)
		list_init(&pool->servers[state]);
	list_init(&pool->dirty);
	budget_wait_init(&pool->wait_for_database, pool);
	budget_wait_init(&pool->wait_for_user, pool);
	budget_wait_init(&pool->wait_for_host, pool);
	budget_wait_init(&pool->wait_for_server, pool);
	budget_wait_init(&pool->wait_for_lookups, pool);
	list_append(&pools->all, &pool->node);
	list_append(&database->members, &pool->of_database);
	list_append(&user->members, &pool->of_user);
	user->pools++;
	pool_allow(pool);
	return pool;
}

/* The pool is wanted now. */
static struct pool *pool_wanted(struct pool *pool, usec_t now)
{
	if (pool->idle_since != 0)
		pool->idle_since = now;
	return pool;
}

struct pool *pool_get(struct database *database, struct user *user, bool is_internal, usec_t now)
{
	struct pools *pools = database->pools;
	struct pool *pool;

	if (!is_internal && database->conf->user && strcmp(database->conf->user, user->name) != 0)
		user = user_get(pools, database->conf->user);
	if (!user)
		return NULL;
	pool = pool_find(pools, database, user, NULL);
	return pool ? pool_wanted(pool, now) : pool_make(database, user, NULL, NULL, now);
}

struct pool *pool_find_at(const struct pool *parent, const struct host *host)
{
	return pool_find(parent->pools, parent->database, parent->user, host);
}

struct pool *pool_get_at(struct pool *parent, struct host *host, usec_t now)
{
	struct pool *pool = pool_find_at(parent, host);

	return pool ? pool_wanted(pool, now)
		    : pool_make(parent->database, parent->user, parent, host, now);
}
